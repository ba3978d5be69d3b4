// What the driver reports of a device by itself, and what that means for its leases. Pure.
#pragma once

#include <cstdint>
#include <string>

namespace gpuactors::nvml {

/// Kinds of events, as the library numbers them.
enum EventType : std::uint64_t {
  double_bit_ecc = 0x2,
  xid_critical = 0x8,
  nonfatal_poison = 0x1000,
  fatal_poison = 0x2000,
  gpu_unavailable = 0x4000,
  recovery_action = 0x8000,
};

/// All that we ask for.
inline constexpr std::uint64_t watched_events =
    double_bit_ecc | xid_critical | nonfatal_poison | fatal_poison | gpu_unavailable | recovery_action;

enum class Severity : std::uint8_t {
  /// A program did something wrong and gets an error of its own; the device is as good as before.
  program,
  /// The device has dealt with it; worth knowing.
  noted,
  /// Nothing more should be placed there before somebody has looked.
  fatal,
};

/// What an event means.
/// @param data of an XID event its number; not used otherwise.
[[nodiscard]] Severity severity_of(std::uint64_t type, std::uint64_t data) noexcept;

/// For people: "XID 79 (the GPU has fallen off the bus)", "uncorrectable ECC error".
[[nodiscard]] std::string describe_event(std::uint64_t type, std::uint64_t data);

} // namespace gpuactors::nvml
