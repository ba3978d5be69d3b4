// How the members of a `Team` are placed, and when they are started anew.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/error.hpp>
#include <gpuactors/cluster/options.hpp>
#include <gpuactors/wire/payload.hpp>
#include <gpuactors/wire/protobuf.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace gpuactors {

/// Which members of a team are replaced before its work is called again.
enum class Replace : std::uint8_t {
  /// Those that are lost. The others keep their process, their contexts on devices, and what they have in memory.
  lost,
  /// All of them: each attempt begins with new actors.
  all,
};

/// How a team is placed, and what it survives.
struct TeamOptions {
  /// How the places of all members are reserved, together: packed or spread, with a priority, a time to wait. They stay
  /// reserved while a member is replaced. A team's places are neither `detached` nor do they shrink.
  GroupOptions placement{};
  /// How often the work is called again after a failure; -1 means always. The first time it is called again at once,
  /// then the pauses are those of `Options::max_restarts`.
  int max_failures = 0;
  /// An attempt of at least this length forgives the failures before it. None: nothing does.
  std::optional<Duration> failure_window{};
  /// Errors of a member's own after which the work is called again, too: for example `Errc::task_failed`. Without them,
  /// it is called again after the loss of a member (`is_loss`), and after `unavailable`. Replacements may also take too
  /// long (`deadline_exceeded`), and their constructors fail.
  std::vector<Errc> retry_errors{};
  Replace replace = Replace::lost;
  /// How long a member may take to join the others, to show that it is alive, and to end its call after the work has
  /// failed elsewhere. One that takes longer counts as lost, and is ended as by `Cluster::kill`.
  Duration answer_within = std::chrono::seconds{30};
};

/// One of a team: what its actor is constructed from, and where it runs.
template <ProtobufMessage Config = google::protobuf::Empty>
struct TeamMember {
  Config config{};
  /// Say in `gpus`, `memory_bytes`, `cpus`, `resources` and `host_memory_bytes` what it needs, also where its type has
  /// defaults: the place is reserved for all types. The fields about restarts and groups are the team's and must be
  /// left as they are. `queue_timeout` bounds the wait of each replacement for a place, `spawn_timeout` each start. All
  /// starts are awaited before one that failed is seen to: the longest of them bounds that.
  Options options{};
};

/// A failure after which a team goes on.
struct TeamFailure {
  /// What it was, with the rank and name of the member.
  Error error;
  /// The ranks that are replaced.
  std::vector<std::size_t> replaced;
  /// The number of the next attempt, as in `TeamPart`, and how long the team waits before it. A failure that does not
  /// count leaves the number as it was: the first time that members cannot be put together after an attempt.
  int attempt = 0;
  Duration pause{};
};

} // namespace gpuactors
