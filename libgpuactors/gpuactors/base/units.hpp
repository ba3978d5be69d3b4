// Shares of a device as exact decimals; parsing and printing of byte counts.
#pragma once

#include <gpuactors/base/result.hpp>

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpuactors {

/// An amount of devices, CPUs or custom resources in exact units of 1/10000.
///
/// The arithmetic uses no floating point: 0.57 + 0.43 is exactly one. Only `from_double` accepts a double.
class Share {
public:
  /// Units in one whole.
  static constexpr std::int64_t one = 10'000;

  constexpr Share() = default;

  constexpr explicit Share(std::int64_t units) : units_(units) {
    // nop
  }

  /// Converts `amount` to the nearest multiple of 1/10000 if the difference is at most 1e-9. `what` names the quantity
  /// in error texts ("gpus").
  /// @returns `invalid_argument`, naming what is allowed, for NaN, infinity, a negative or too large amount, or a finer
  ///          share.
  static Result<Share> from_double(double amount, std::string_view what);

  [[nodiscard]] static constexpr Share whole(std::int64_t count) {
    return Share{count * one};
  }

  /// Returns the amount in units of 1/10000.
  [[nodiscard]] constexpr std::int64_t units() const noexcept {
    return units_;
  }

  [[nodiscard]] constexpr double to_double() const noexcept {
    return static_cast<double>(units_) / static_cast<double>(one);
  }

  [[nodiscard]] constexpr bool is_whole() const noexcept {
    return units_ % one == 0;
  }

  friend constexpr auto operator<=>(Share, Share) = default;

  friend constexpr Share operator+(Share a, Share b) noexcept {
    return Share{a.units_ + b.units_};
  }

  friend constexpr Share operator-(Share a, Share b) noexcept {
    return Share{a.units_ - b.units_};
  }

  constexpr Share& operator+=(Share other) noexcept {
    units_ += other.units_;
    return *this;
  }

  constexpr Share& operator-=(Share other) noexcept {
    units_ -= other.units_;
    return *this;
  }

private:
  std::int64_t units_ = 0;
};

/// Checks a request for devices: zero, a fraction below 1, or a whole number.
/// @returns `invalid_argument` for anything else, such as 1.5.
Result<Share> parse_gpus(double gpus);

/// Renders without trailing zeros: "0.25", "2".
[[nodiscard]] std::string to_string(Share share);

/// Returns the memory that goes with a share of a device, rounded down. `memory_bytes` is the whole device's memory.
[[nodiscard]] std::uint64_t memory_for_share(std::uint64_t memory_bytes, Share share) noexcept;

/// Returns the smallest share whose memory covers `wanted_bytes` of a device with `memory_bytes`: more than one whole
/// if it does not fit, `Share{}` if `wanted_bytes` is zero.
[[nodiscard]] Share share_for_memory(std::uint64_t memory_bytes, std::uint64_t wanted_bytes) noexcept;

/// Reads all of `text` as a number, with a point whatever the program's locale: "0.5", "1e3", "inf", "nan". Any thread.
/// @returns nothing for anything else, and for numbers beyond the range of a double.
[[nodiscard]] std::optional<double> parse_double(std::string_view text) noexcept;

/// Parses "1073741824", "1GiB", "512MiB", "6 GB" (1 kB = 1000 B, 1 KiB = 1024 B).
/// @returns `invalid_argument` for anything else, and for amounts of 2^63 bytes and more.
Result<std::uint64_t> parse_bytes(std::string_view text);

/// Renders bytes for people: "512 B", "1.5 GiB".
[[nodiscard]] std::string format_bytes(std::uint64_t bytes);

} // namespace gpuactors
