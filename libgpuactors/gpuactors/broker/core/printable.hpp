// Names as the broker shows them to others, in one line of a terminal. Internal to the layer.
#pragma once

#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/utf8.hpp>
#include <gpuactors/ledger/request.hpp>

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace gpuactors {

/// Replaces control characters, as the ledger refuses them, by spaces.
inline std::string printable(std::string name) {
  for (std::size_t i = 0; i < name.size(); ++i) {
    const auto byte = static_cast<unsigned char>(name[i]);
    const auto next = i + 1 < name.size() ? static_cast<unsigned char>(name[i + 1]) : 0U;
    if (byte < 0x20 || byte == 0x7f)
      name[i] = ' ';
    else if (byte == 0xc2 && next >= 0x80 && next < 0xa0) // U+0080 to U+009F
      name[i] = name[i + 1] = ' ';
  }
  return name;
}

/// The release that a program says it runs.
inline std::string shown_release(const std::string& release) {
  return printable(std::string{head_of(release, limits::release_bytes)});
}

/// Refuses a name that the ledger would refuse, before anything is known by it. `whose` names what has it.
inline Result<void> check_shown_name(std::string_view whose, const std::string& name) {
  ResourceRequest request;
  request.name = name;
  if (const auto checked = validate(request); !checked)
    return fail(checked.error().code(), fmt::format("{}: {}", whose, checked.error().message()));
  return {};
}

} // namespace gpuactors
