// HolderContext: what tasks and actors have in common, the lease that they run under.
#pragma once

#include <gpuactors/actor/lease_info.hpp>
#include <gpuactors/base/clock.hpp>
#include <gpuactors/device/context.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace gpuactors {

class ActorShell;
class CallFrame;
class ClusterLink;
class HolderControl;
class Placement;
class TensorStore;
struct ProcessServices;

/// The base of `TaskContext` and `Actor`, for functions of the program that both of them call. Holder's thread only;
/// const members also in concurrent methods.
class HolderContext {
public:
  HolderContext(const HolderContext&) = delete;
  HolderContext& operator=(const HolderContext&) = delete;

  [[nodiscard]] const LeaseInfo& lease() const noexcept;

  /// Returns the number of devices that the lease holds, whole or in part.
  [[nodiscard]] std::size_t gpu_count() const noexcept;

  /// Returns the holder's part of the i-th device. An index that the lease does not hold is a programming error and
  /// throws std::out_of_range, which fails the task or call.
  [[nodiscard]] Context& gpu(std::size_t i = 0);

  /// Returns the lease's units of a kind of accelerator ("gpus", "neuron_cores"); see `LeaseInfo`.
  [[nodiscard]] std::vector<int> accelerator_ids(std::string_view kind) const {
    return lease().accelerator_ids(kind);
  }

  /// Returns whether the task or running call should end early: it was cancelled, or its worker or actor is being
  /// stopped. Cheap.
  [[nodiscard]] bool stop_requested() const noexcept;

  /// Returns when the caller of the task or running call gives up; `never` without a deadline.
  [[nodiscard]] TimePoint deadline() const noexcept;

  /// Returns the store for sharing tensors: `tensors().put(...)`, `tensors().get(ref)`. A tensor that a task puts from
  /// its own device memory is lost when the task ends: put results with `Cluster::put`, which copies them to host
  /// memory.
  [[nodiscard]] TensorStore& tensors() noexcept;

  /// Returns the link to the cluster for `Cluster::from`.
  [[nodiscard]] std::shared_ptr<ClusterLink> cluster_link() const;

  /// Returns the sequence number of this task among those run under its lease, from 1; 0 for an actor.
  [[nodiscard]] std::uint64_t run() const noexcept {
    return run_;
  }

protected:
  /// All arguments must outlive this object.
  HolderContext(Placement& placement, HolderControl& control, const ProcessServices& services, const CallFrame* frame,
                std::uint64_t run = 0)
    : placement_(placement), control_(control), services_(services), frame_(frame), run_(run) {
    // nop
  }

  /// Sees to it that the cluster is told when a task has its answer that has used the link to it.
  ~HolderContext();

private:
  friend class ActorShell;

  Placement& placement_;
  HolderControl& control_;
  const ProcessServices& services_;
  /// The task or running call; null between calls.
  const CallFrame* frame_;
  const std::uint64_t run_;
  /// Whether a task has asked for the link.
  mutable std::atomic<bool> linked_{false};
};

} // namespace gpuactors
