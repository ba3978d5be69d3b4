// Lives: how often an actor was started, what of that counts against its limit, and how long it waits for the next
// time. Pure: time is an argument.
#pragma once

#include <gpuactors/base/clock.hpp>

#include <cstdint>
#include <optional>

namespace gpuactors {

/// How an actor wants to be restarted, as in `Options`.
struct RestartRule {
  /// -1: always.
  int most = 0;
  /// A life of at least this length makes all restarts before it good; zero: none does.
  Duration window{};
};

/// Why a life ended.
enum class LifeEnd : std::uint8_t {
  /// By itself: its process crashed, or its constructor failed.
  crash,
  /// It lost its place: its node or device is gone.
  lost_place,
  /// Somebody asked for it, and for another life.
  asked,
};

/// The lives of one actor, from its first start to the end of its last restart.
///
/// An actor that crashes soon after each start would keep its node busy with nothing else: from the second time on the
/// pause before the next start doubles, from `limits::restart_pause` to `limits::restart_pause_most`, until a life
/// lasts for `limits::restart_calm`. After a life of a second or more it is at most a second.
class Lives {
public:
  Lives() = default;

  /// As another broker left them. `lived`: it has been alive.
  Lives(int restarts, int forgiven, bool lived) : restarts_(restarts), forgiven_(forgiven), lived_(lived) {
    // nop
  }

  /// Its constructor is done.
  void began(TimePoint now) {
    lived_ = true;
    since_ = now;
  }

  /// The next restart does not count: it moves to another node.
  void forgive_one() {
    ++forgiven_;
    moves_ = true;
  }

  /// Ends a life. @returns how long to wait before the next one begins; none when there is none.
  std::optional<Duration> end(const RestartRule& rule, LifeEnd why, TimePoint now);

  [[nodiscard]] int restarts() const noexcept {
    return restarts_;
  }

  /// How many of the restarts do not count.
  [[nodiscard]] int forgiven() const noexcept {
    return forgiven_;
  }

  /// Whether it was ever alive.
  [[nodiscard]] bool lived() const noexcept {
    return lived_;
  }

private:
  int restarts_ = 0;
  int forgiven_ = 0;
  bool lived_ = false;
  /// The next restart is one that was forgiven ahead.
  bool moves_ = false;
  /// Set while it is alive.
  std::optional<TimePoint> since_;
  /// Before the next restart after a crash.
  Duration pause_{};
};

} // namespace gpuactors
