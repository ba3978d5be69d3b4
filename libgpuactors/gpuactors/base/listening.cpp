#include <gpuactors/base/listening.hpp>

#include <fmt/format.h>

#include <charconv>
#include <optional>

namespace gpuactors {

namespace {

std::optional<std::uint16_t> port_in(std::string_view digits) {
  std::uint16_t port = 0;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc{} || stop != digits.data() + digits.size() || port == 0)
    return std::nullopt;
  return port;
}

} // namespace

Result<PortRange> parse_ports(std::string_view text) {
  const auto dash = text.find('-');
  const auto first = port_in(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : port_in(text.substr(dash + 1));
  if (!first || !last)
    return fail(
        Errc::invalid_argument,
        fmt::format("\"{}\" is no range of ports: two numbers from 1 to 65535 are expected, such as 7720-7799", text));
  if (*last < *first)
    return fail(Errc::invalid_argument,
                fmt::format("\"{}\" is no range of ports: {}-{} would be right", text, *last, *first));
  return PortRange{*first, *last};
}

std::string to_string(const PortRange& ports) {
  return ports.is_any() ? "any" : fmt::format("{}-{}", ports.first, ports.last);
}

Result<std::uint16_t> listen_in(const PortRange& ports, std::uint64_t begin,
                                const std::function<Result<std::uint16_t>(std::uint16_t)>& listen) {
  if (ports.is_any())
    return listen(0);
  const std::uint64_t count = ports.last - ports.first + 1U;
  std::string why;
  for (std::uint64_t i = 0; i < count; ++i) {
    auto got = listen(static_cast<std::uint16_t>(ports.first + (begin % count + i) % count));
    if (got || got.error().code() != Errc::unavailable)
      return got;
    why = got.error().message();
  }
  return fail(Errc::unavailable, fmt::format("none of the {} ports {} is free ({}): a node needs one, and two for each "
                                             "of its workers",
                                             count, to_string(ports), why));
}

} // namespace gpuactors
