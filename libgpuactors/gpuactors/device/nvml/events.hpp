// Events that the driver reports about a device, and what they mean for its leases. Pure.
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

/// All events that `Monitor` registers for.
inline constexpr std::uint64_t watched_events =
    double_bit_ecc | xid_critical | nonfatal_poison | fatal_poison | gpu_unavailable | recovery_action;

enum class Severity : std::uint8_t {
  /// A program did something wrong and gets an error of its own; the device is as usable as before.
  program,
  /// The device has dealt with the event; worth reporting.
  noted,
  /// The device should get no more work before somebody has checked it.
  fatal,
};

/// Returns what an event means for the device.
/// @param data the number of an XID event; unused for other events.
[[nodiscard]] Severity severity_of(std::uint64_t type, std::uint64_t data) noexcept;

/// Describes an event for people: "XID 79 (the GPU has fallen off the bus)", "an uncorrectable ECC error".
[[nodiscard]] std::string describe_event(std::uint64_t type, std::uint64_t data);

} // namespace gpuactors::nvml
