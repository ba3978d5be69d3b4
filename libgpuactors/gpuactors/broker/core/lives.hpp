// Lives: how often an actor was restarted, which restarts count against its limit, and the pause before the next one.
// Pure: the time is an argument.
#pragma once

#include <gpuactors/base/clock.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace gpuactors {

/// How an actor wants to be restarted, as in `Options`.
struct RestartRule {
  /// Restarts allowed; -1: any number.
  int most = 0;
  /// A life of at least this length forgives all restarts before it; zero: none does.
  Duration window{};
};

/// Why a life ended.
enum class LifeEnd : std::uint8_t {
  /// The actor ended by itself: its process crashed, or its constructor failed.
  crash,
  /// The actor lost its place: its node or device is gone.
  lost_place,
  /// Somebody asked for the actor's end, and for another life.
  asked,
};

/// The lives of one actor, from its first start to its final end.
///
/// An actor that crashes soon after each start would keep its node busy with nothing else: from the second restart on,
/// the pause before it doubles, from `limits::restart_pause` to `limits::restart_pause_most`, until a life lasts for
/// `limits::restart_calm`. After a life of a second or more, the pause is at most a second.
class Lives {
public:
  Lives() = default;

  /// Continues the counts of an earlier broker. `lived`: the actor has been alive.
  Lives(int restarts, int forgiven, int moves, bool lived)
    : restarts_(restarts), forgiven_(forgiven), moves_(moves), lived_(lived) {
    // nop
  }

  /// The actor's constructor is done.
  void began(TimePoint now) {
    lived_ = true;
    since_ = now;
  }

  /// The next restart does not count: the actor leaves its node, for another one or until there is room.
  void forgive_one() {
    ++forgiven_;
    ++moves_;
    is_moving_ = true;
  }

  /// Ends a life. @returns the pause before the next life; nothing when there is no next one.
  std::optional<Duration> end(const RestartRule& rule, LifeEnd why, TimePoint now);

  [[nodiscard]] int restarts() const noexcept {
    return restarts_;
  }

  /// How many restarts do not count, and how many of those are moves. Both include a move that is under way, whose
  /// restart is still to come.
  [[nodiscard]] int forgiven() const noexcept {
    return forgiven_;
  }
  [[nodiscard]] int moves() const noexcept {
    return moves_;
  }

  /// The same of the restarts so far.
  [[nodiscard]] int forgiven_so_far() const noexcept {
    return so_far(forgiven_);
  }
  [[nodiscard]] int moves_so_far() const noexcept {
    return so_far(moves_);
  }

  /// Whether the actor was ever alive.
  [[nodiscard]] bool lived() const noexcept {
    return lived_;
  }

private:
  [[nodiscard]] int so_far(int count) const noexcept {
    // An earlier broker may have known of a move that this one does not know to be under way.
    return std::min(is_moving_ ? count - 1 : count, restarts_);
  }

  int restarts_ = 0;
  int forgiven_ = 0;
  int moves_ = 0;
  bool lived_ = false;
  /// The next restart was forgiven in advance (`forgive_one`).
  bool is_moving_ = false;
  /// Set while the actor is alive.
  std::optional<TimePoint> since_;
  /// The pause before the next restart after a crash.
  Duration pause_{};
};

} // namespace gpuactors
