// Reminders: when the broker looks at an actor or a client again. Pure: the time is an argument. Internal to the layer.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/ids.hpp>

#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

namespace gpuactors {

/// Reminders in the order of their times. Whoever adds one that comes first asks to be woken then; a wake-up that was
/// asked for earlier, and overtaken, is stale.
class Reminders {
public:
  struct Due {
    TimePoint at;
    ActorId actor;
    /// 0 in an actor's reminder.
    std::uint64_t client = 0;

    friend auto operator<=>(const Due&, const Due&) = default;
  };

  /// @returns whether a wake-up has to be asked for.
  [[nodiscard]] bool add(const Due& due) {
    if (due.at == never)
      return false;
    dues_.insert(due);
    if (due.at >= next_)
      return false;
    next_ = due.at;
    return true;
  }

  void remove(const Due& due) {
    dues_.erase(due);
  }

  /// To be called at each wake-up. @returns whether it counts: then all that is due is to be taken, and `first` added
  ///          again.
  [[nodiscard]] bool wake(TimePoint now) {
    if (now < next_)
      return false;
    next_ = never;
    return true;
  }

  /// One that is due.
  [[nodiscard]] std::optional<Due> take(TimePoint now) {
    if (dues_.empty() || dues_.begin()->at > now)
      return std::nullopt;
    return dues_.extract(dues_.begin()).value();
  }

  [[nodiscard]] std::optional<Due> first() const {
    return dues_.empty() ? std::nullopt : std::optional{*dues_.begin()};
  }

private:
  std::set<Due> dues_;
  /// For when a wake-up was asked.
  TimePoint next_ = never;
};

} // namespace gpuactors
