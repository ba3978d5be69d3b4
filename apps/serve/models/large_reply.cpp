#include "large_reply.hpp"

#include "replica.hpp"

#include <fmt/format.h>

#include <string_view>

namespace serve {

std::optional<std::string> size_of_large_reply(const gpuactors::Error& error) {
  if (error.code() != gpuactors::Errc::invalid_argument)
    return std::nullopt;
  const std::string_view text = error.message();
  const auto begin = fmt::format("the message {} has ", wire::ReplicaReply::descriptor()->full_name());
  if (!text.starts_with(begin))
    return std::nullopt;
  const auto size = text.substr(begin.size());
  const auto end = size.find(", at most ");
  return end == std::string_view::npos ? std::nullopt : std::optional{std::string{size.substr(0, end)}};
}

} // namespace serve
