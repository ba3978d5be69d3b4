// How many replicas a model has: when one more is worth starting, and which one may go.
#pragma once

#include <gpuactors/base/clock.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace serve::batching {

struct ScalingLimits {
  std::size_t min_replicas = 1;
  std::size_t max_replicas = 1;
  /// How long requests must have waited while all replicas were busy before one more is started.
  gpuactors::Duration grow_after = std::chrono::milliseconds{300};
  /// How long a replica must have had nothing to do before its share is given back.
  gpuactors::Duration idle_after = std::chrono::seconds{30};
  /// Pauses after a start that failed: the first, and the longest.
  gpuactors::Duration retry_shortest = std::chrono::milliseconds{100};
  gpuactors::Duration retry_longest = std::chrono::seconds{5};
};

/// A replica that serves, as the policy sees it.
struct ReplicaLook {
  std::uint64_t id = 0;
  bool busy = false;
  /// Since when it has had nothing to do.
  gpuactors::TimePoint idle_since{};
};

/// One look at a model.
struct ScalingLook {
  /// Requests that wait, and that one more replica could take.
  std::size_t waiting = 0;
  /// Those that wait for what one replica has, or for others of their sequence.
  std::size_t bound = 0;
  /// Requests that were refused since the model was loaded although one more replica could have taken them.
  std::uint64_t refused = 0;
  /// Replicas that are being started.
  std::size_t starting = 0;
  std::vector<ReplicaLook> replicas;
};

struct ScalingStep {
  /// How many replicas to start now, and whether they are missing, and not only wished for.
  std::size_t start = 0;
  bool needed = false;
  /// Which replica to end.
  std::optional<std::uint64_t> stop;
};

/// Decides from looks at a model that come again and again. No clock, no thread; whoever owns it guards it.
class Scaling {
public:
  explicit Scaling(ScalingLimits limits) : limits_(limits), whole_(limits) {
    // nop
  }

  /// What to do now. Below `min_replicas` the missing ones are started, up to `max_replicas` one more when there were
  /// too few at every look for `grow_after`; above `min_replicas` the one that has been idle longest goes, once that is
  /// `idle_after`. There are too few when requests wait while nothing is idle, and for half of `grow_after` after a
  /// look that found requests refused: those never wait, and between them there are moments without any.
  ScalingStep decide(gpuactors::TimePoint now, const ScalingLook& look);

  /// A start failed: the next one waits, twice as long each time. One that is needed does not wait for what was only
  /// wished for, nor the other way round.
  void start_failed(gpuactors::TimePoint now, bool needed);
  void start_succeeded();
  /// Whether a start is worth trying now.
  [[nodiscard]] bool may_start(gpuactors::TimePoint now, bool needed) const noexcept {
    return now >= (needed ? needed_ : wished_).not_before;
  }

  /// Has so many replicas at most from now on: what the others had is for the model's next version.
  void give_up_beyond(std::size_t replicas);

  /// Has the limits of before again, and is to come to as many replicas as there were then.
  void take_back(std::size_t replicas);

  [[nodiscard]] const ScalingLimits& limits() const noexcept {
    return limits_;
  }

private:
  /// The pause after starts that failed.
  struct Pause {
    gpuactors::TimePoint not_before{};
    /// The last one; zero after a start that succeeded.
    gpuactors::Duration time{};
  };

  /// Whether this look finds too few replicas.
  bool is_short(gpuactors::TimePoint now, const ScalingLook& look);
  /// Returns the replica that has been idle for longest, if that is long enough to end it.
  [[nodiscard]] std::optional<std::uint64_t> longest_idle(gpuactors::TimePoint now, const ScalingLook& look) const;

  ScalingLimits limits_;
  ScalingLimits whole_;
  /// What is to be taken back; 0 when it was.
  std::size_t owed_ = 0;
  /// Since when all looks found too few replicas.
  std::optional<gpuactors::TimePoint> short_since_;
  /// How many refusals were seen, and when the last new ones were.
  std::uint64_t refused_ = 0;
  std::optional<gpuactors::TimePoint> refused_at_;
  Pause needed_;
  Pause wished_;
};

} // namespace serve::batching
