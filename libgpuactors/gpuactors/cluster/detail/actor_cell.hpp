// What a program knows of an actor: where it lives now, and how many calls wait for it.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/error.hpp>
#include <gpuactors/base/ids.hpp>
#include <gpuactors/cluster/detail/holder_handles.hpp>
#include <gpuactors/v1/control.pb.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace gpuactors {

struct ActorType;

} // namespace gpuactors

namespace gpuactors::detail {

class ClusterCore;

/// One life of an actor, from a start to its end. It does not change, so that calls keep it without a lock.
struct ActorLife {
  LeaseId lease;
  HolderHandles handles;
};

/// This program's view of an actor, shared by all its `ActorRef`s.
struct ActorCell : std::enable_shared_from_this<ActorCell> {
  std::weak_ptr<ClusterCore> core;
  ActorId id;
  std::string name;
  std::string type;
  /// The type, if this program knows it; lives as long as `core`.
  const ActorType* known_type = nullptr;
  /// As in v1::ActorHandle.
  std::uint64_t origin = 0;
  std::size_t max_pending = 0;
  int max_retries = 0;
  /// The actor may be started again when it has ended.
  std::atomic<bool> lives_again{false};
  /// Calls of this program that wait for the actor; one count for all its cells.
  std::shared_ptr<std::atomic<std::size_t>> pending;
  /// The actor of `life` has ended; it may have been restarted elsewhere.
  std::atomic<bool> down{false};
  /// Whether that was because its process, or the connection to it, was lost: nobody knows what it had begun.
  std::atomic<bool> lost{false};
  /// How often `life` was replaced.
  std::atomic<std::uint32_t> lives{0};
  std::mutex mutex;
  // Guarded by the mutex.
  v1::ActorInfo info;
  /// When a program may seek it again without a call.
  TimePoint seek_again{};
  /// Why it has ended for good, once the broker has said so.
  std::optional<Error> ended;
  /// Null before the first one is known, and after the end of the cluster.
  std::shared_ptr<const ActorLife> life;
};

} // namespace gpuactors::detail
