#include <gpuactors/base/units.hpp>

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

namespace gpuactors {

namespace {

// Largest amount accepted from a double: far above any real cluster, far below where doubles lose 1/10000.
constexpr double max_amount = 1e9;

// How far from a multiple of 1/10000 an amount may lie and still be read as that multiple.
constexpr double tolerance = 1e-9;

// Unsigned 128-bit arithmetic keeps bytes times shares exact; __extension__ because ISO C++ has no such type.
__extension__ using Wide = unsigned __int128;

} // namespace

Result<Share> Share::from_double(double amount, std::string_view what) {
  if (std::isnan(amount))
    return fail(Errc::invalid_argument, fmt::format("{} is NaN: a number of at least 0 is expected", what));
  if (amount < 0)
    return fail(Errc::invalid_argument, fmt::format("{} is {}: it cannot be negative", what, amount));
  if (amount > max_amount)
    return fail(Errc::invalid_argument, fmt::format("{} is {}: at most {:.0f} is allowed", what, amount, max_amount));
  const double units = std::nearbyint(amount * static_cast<double>(one));
  if (std::abs(amount - units / static_cast<double>(one)) > tolerance)
    return fail(Errc::invalid_argument, fmt::format("{} is {}: shares are multiples of 0.0001, the nearest one is {}",
                                                    what, amount, to_string(Share{static_cast<std::int64_t>(units)})));
  return Share{static_cast<std::int64_t>(units)};
}

Result<Share> parse_gpus(double gpus) {
  GPUACTORS_LET(share, Share::from_double(gpus, "gpus"));
  if (share > Share::whole(1) && !share.is_whole())
    return fail(Errc::invalid_argument,
                fmt::format("gpus is {}: ask for a fraction below 1 or for a whole number of devices ({} or {})", gpus,
                            share.units() / Share::one, share.units() / Share::one + 1));
  return share;
}

std::string to_string(Share share) {
  const auto units = share.units();
  const auto magnitude = units < 0 ? -units : units;
  auto text = fmt::format("{}{}.{:04}", units < 0 ? "-" : "", magnitude / Share::one, magnitude % Share::one);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.')
    text.pop_back();
  return text;
}

std::uint64_t memory_for_share(std::uint64_t memory_bytes, Share share) noexcept {
  if (share.units() <= 0)
    return 0;
  return static_cast<std::uint64_t>(Wide{memory_bytes} * static_cast<std::uint64_t>(share.units())
                                    / static_cast<std::uint64_t>(Share::one));
}

Share share_for_memory(std::uint64_t memory_bytes, std::uint64_t wanted_bytes) noexcept {
  if (wanted_bytes == 0)
    return Share{};
  if (wanted_bytes > memory_bytes)
    return Share{Share::one + 1};
  const auto units = (Wide{wanted_bytes} * static_cast<std::uint64_t>(Share::one) + memory_bytes - 1) / memory_bytes;
  return Share{static_cast<std::int64_t>(units)};
}

std::optional<double> parse_double(std::string_view text) noexcept {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

Result<std::uint64_t> parse_bytes(std::string_view text) {
  struct Unit {
    std::string_view suffix;
    std::uint64_t factor;
  };
  static constexpr std::array units = {
      Unit{"", 1},
      Unit{"B", 1},
      Unit{"kB", 1000},
      Unit{"KB", 1000},
      Unit{"MB", 1000'000},
      Unit{"GB", 1000'000'000},
      Unit{"KiB", 1U << 10},
      Unit{"MiB", 1U << 20},
      Unit{"GiB", 1U << 30},
      Unit{"TiB", std::uint64_t{1} << 40},
      Unit{"TB", 1000'000'000'000},
  };
  const auto refuse = [&] {
    return fail(Errc::invalid_argument,
                fmt::format("\"{}\" is not a number of bytes: write it like 1073741824, 512MiB or 1.5GiB", text));
  };
  const auto digits = text.find_first_not_of("0123456789.");
  const auto number = text.substr(0, digits);
  auto suffix = digits == std::string_view::npos ? std::string_view{} : text.substr(digits);
  while (!suffix.empty() && suffix.front() == ' ')
    suffix.remove_prefix(1);
  if (number.empty())
    return refuse();
  for (const auto& unit : units) {
    if (unit.suffix != suffix)
      continue;
    if (number.find('.') == std::string_view::npos) {
      std::uint64_t count = 0;
      const auto [end, code] = std::from_chars(number.data(), number.data() + number.size(), count);
      constexpr auto limit = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
      if (code != std::errc{} || end != number.data() + number.size() || count > limit / unit.factor)
        return refuse();
      return count * unit.factor;
    }
    const auto amount = parse_double(number);
    const double count = amount.value_or(0) * static_cast<double>(unit.factor);
    if (!amount || unit.factor == 1 || !(count < 9.0e18))
      return refuse();
    return static_cast<std::uint64_t>(count);
  }
  return refuse();
}

std::string format_bytes(std::uint64_t bytes) {
  constexpr std::array names = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto amount = static_cast<double>(bytes);
  std::size_t index = 0;
  while (amount >= 1024.0 && index + 1 < names.size()) {
    amount /= 1024.0;
    ++index;
  }
  if (index == 0)
    return fmt::format("{} B", bytes);
  auto text = fmt::format("{:.2f}", amount);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.')
    text.pop_back();
  return fmt::format("{} {}", text, names.at(index));
}

} // namespace gpuactors
