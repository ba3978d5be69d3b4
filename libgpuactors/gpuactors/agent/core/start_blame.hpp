// StartBlame: whose fault it is that workers do not come up, their program's or their device's. Pure.
#pragma once

#include <gpuactors/base/clock.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace gpuactors {

/// Three starts of a program on a device in a row that fail are a *strike*. A strike counts against the device if the
/// program comes up on another one, or if two programs have a strike there; against the program if it has strikes on
/// two devices, or there is no other device. Where nothing is known yet, the program is tried on another device. One
/// thread.
class StartBlame {
public:
  /// A device's index; nothing: work without a device.
  using Device = std::optional<int>;

  enum class Verdict : std::uint8_t {
    /// Too few failures, or not known yet.
    none,
    device,
    program,
    /// The program is to be tried on `Judged::trial`.
    trial,
  };

  struct Judged {
    Verdict verdict = Verdict::none;
    int trial = 0;
  };

  /// @returns devices that are to blame for strikes of the program: it is none of its own.
  std::vector<int> came_up(std::size_t program, Device device);

  /// @param others the devices in use, without this one.
  Judged failed(std::size_t program, Device device, const std::vector<int>& others, TimePoint now);

  /// There was no process that could have told: if this was to be the program's trial, the next strike asks for
  /// another.
  void not_tried(std::size_t program, Device device);

private:
  using Pair = std::pair<std::size_t, Device>;

  [[nodiscard]] bool is_strike(const Pair& pair) const;

  /// Failures in a row.
  std::map<Pair, std::deque<TimePoint>> failures_;
  /// Whose last start there was a success.
  std::set<Pair> up_;
  /// Where programs are tried: one failure there is a strike.
  std::map<std::size_t, int> trials_;
};

} // namespace gpuactors
