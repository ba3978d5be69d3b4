// How the members of a `Team` are placed, and when they are replaced.
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
  /// How the places of all members are reserved together: packed or spread, with a priority and a time to wait. They
  /// stay reserved while a member is replaced. `detached` and `shrinks` are not allowed.
  GroupOptions placement{};
  /// How often the work is called again after a failure; -1 means always. The first call again is immediate, then the
  /// pauses are those of `Options::max_restarts`.
  int max_failures = 0;
  /// An attempt of at least this length resets the count of failures. None: never.
  std::optional<Duration> failure_window{};
  /// A member's own errors after which the work is called again, for example `Errc::task_failed`. In any case, it is
  /// called again after the loss of a member (`is_loss`); after `unavailable` from a call; after a replacement that
  /// failed to start in time (`deadline_exceeded`), with `unavailable`, or in its constructor with an error whose
  /// remedy is `Remedy::fail_task` (an exception, `out_of_memory`); and after a group that could not be formed, except
  /// with `not_found` or `invalid_argument`.
  std::vector<Errc> retry_errors{};
  Replace replace = Replace::lost;
  /// How long a member may take to join the others, to show that it is alive, and to end its call after the work has
  /// failed elsewhere. One that takes longer counts as lost, and is ended as by `Cluster::kill`.
  Duration answer_within = std::chrono::seconds{30};
};

/// One member of a team: the configuration of its actor, and where it runs.
template <ProtobufMessage Config = google::protobuf::Empty>
struct TeamMember {
  Config config{};
  /// State in `gpus`, `memory_bytes`, `cpus`, `resources` and `host_memory_bytes` what the member needs, even if its
  /// type has defaults: its place is reserved without regard to types. The fields about restarts and groups belong to
  /// the team and must be left as they are. `queue_timeout` bounds the wait of each replacement for a place,
  /// `spawn_timeout` each start. The team waits for all starts, so at most for the longest of them, before it handles
  /// one that failed.
  Options options{};
};

/// A failure after which a team goes on.
struct TeamFailure {
  /// The error, with the rank and name of the member.
  Error error;
  /// The ranks that are replaced.
  std::vector<std::size_t> replaced;
  /// The number of the next attempt, as in `TeamPart`, and how long the team waits before it. A failure that does not
  /// count leaves the number as it was: the first failure to form a group after an attempt.
  int attempt = 0;
  Duration pause{};
};

} // namespace gpuactors
