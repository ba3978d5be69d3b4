#include "incomplete.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>

namespace gpuactors::cli {

bool is_whole(const v1::ClusterState& state, std::string_view field) {
  return std::find(state.incomplete().begin(), state.incomplete().end(), field) == state.incomplete().end();
}

Presence presence_of(bool found, const v1::ClusterState& state, std::string_view field) {
  return found ? Presence::there : is_whole(state, field) ? Presence::absent : Presence::unknown;
}

std::string incomplete_in_words(const v1::ClusterState& state) {
  if (state.incomplete().empty())
    return {};
  return fmt::format("not all is shown, since it is more than one answer has room for: {}\n",
                     fmt::join(state.incomplete(), ", "));
}

void say_what_is_incomplete(const v1::ClusterState& state) {
  std::cerr << incomplete_in_words(state);
}

} // namespace gpuactors::cli
