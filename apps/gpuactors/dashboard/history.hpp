// History: a few numbers about the last fifteen minutes, in slots of five seconds.
#pragma once

#include <gpuactors/base/clock.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>

namespace gpuactors::cli::dashboard {

/// What is kept of a state.
struct Sample {
  /// Of all devices together, how much is granted; nothing without devices.
  std::optional<double> granted_percent;
  double waiting = 0;
  /// Since the state before: how long, how many calls and tasks ran, and how many failed. 0 seconds if there was none.
  double seconds = 0;
  double calls = 0;
  double failed = 0;
};

/// A ring of slots. Of a slot's states, the last one's granted share and queue count, and the sums of the calls. Pure;
/// one thread at a time.
class History {
public:
  static constexpr std::chrono::seconds slot_length{5};
  static constexpr std::int64_t slots = 180;

  struct Slot {
    /// Slots are counted from the clock's beginning.
    std::int64_t number = 0;
    Sample sample;
  };

  [[nodiscard]] static std::int64_t number_of(TimePoint time) noexcept {
    return time.time_since_epoch() / slot_length;
  }

  /// Adds a state's numbers; those that are too old go.
  void add(TimePoint now, const Sample& sample);

  /// Returns the slots, the latest last. Those without a state are left out.
  [[nodiscard]] const std::deque<Slot>& all() const noexcept {
    return all_;
  }

private:
  std::deque<Slot> all_;
};

} // namespace gpuactors::cli::dashboard
