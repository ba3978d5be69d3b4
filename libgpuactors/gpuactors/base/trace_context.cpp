#include <gpuactors/base/trace_context.hpp>

#include <fmt/format.h>

namespace gpuactors {

namespace {

thread_local TraceContext current;

/// Reads lower-case hexadecimal digits: others are not allowed there.
std::optional<std::uint64_t> parse_hex(std::string_view digits) {
  std::uint64_t value = 0;
  for (const char digit : digits) {
    value <<= 4U;
    if (digit >= '0' && digit <= '9')
      value |= static_cast<unsigned>(digit - '0');
    else if (digit >= 'a' && digit <= 'f')
      value |= static_cast<unsigned>(digit - 'a') + 10U;
    else
      return std::nullopt;
  }
  return value;
}

constexpr std::uint64_t sampled_flag = 1;
constexpr std::size_t bytes_size = 3 * sizeof(std::uint64_t) + 1;

} // namespace

std::optional<TraceContext> parse_traceparent(std::string_view text) {
  // 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
  constexpr std::size_t size = 55;
  if (text.size() < size || text[2] != '-' || text[35] != '-' || text[52] != '-')
    return std::nullopt;
  const auto version = parse_hex(text.substr(0, 2));
  const auto flags = parse_hex(text.substr(53, 2));
  const auto high = parse_hex(text.substr(3, 16));
  const auto low = parse_hex(text.substr(19, 16));
  const auto span = parse_hex(text.substr(36, 16));
  if (!version || !flags || !high || !low || !span)
    return std::nullopt;
  // Later versions may append fields; ff is none.
  constexpr std::uint64_t no_version = 0xff;
  if (*version == no_version || (text.size() > size && (*version == 0 || text[size] != '-')))
    return std::nullopt;
  const TraceContext context{*high, *low, *span, (*flags & sampled_flag) != 0};
  return context.valid() ? std::optional{context} : std::nullopt;
}

std::string to_traceparent(const TraceContext& context) {
  return fmt::format("00-{:016x}{:016x}-{:016x}-{:02x}", context.trace_high, context.trace_low, context.span,
                     context.sampled ? 1 : 0);
}

std::string to_bytes(const TraceContext& context) {
  std::string bytes;
  if (!context.valid())
    return bytes;
  bytes.reserve(bytes_size);
  for (const auto number : {context.trace_high, context.trace_low, context.span})
    for (unsigned shift = 64; shift > 0; shift -= 8)
      bytes.push_back(static_cast<char>(number >> (shift - 8) & 0xffU));
  bytes.push_back(context.sampled ? '\1' : '\0');
  return bytes;
}

TraceContext trace_from_bytes(std::string_view bytes) noexcept {
  if (bytes.size() != bytes_size)
    return {};
  const auto number = [&](std::size_t first) {
    std::uint64_t value = 0;
    for (std::size_t i = first; i < first + sizeof value; ++i)
      value = value << 8U | static_cast<unsigned char>(bytes[i]);
    return value;
  };
  const TraceContext context{number(0), number(8), number(16), bytes.back() == '\1'};
  return context.valid() ? context : TraceContext{};
}

TraceContext current_trace() noexcept {
  return current;
}

TraceScope::TraceScope(const TraceContext& context) noexcept : before_(current) {
  current = context;
}

TraceScope::~TraceScope() {
  current = before_;
}

} // namespace gpuactors
