// Tasks: stateless functions that run under a lease. Whatever a task allocates is freed when it ends.
//
//   GPUACTORS_TASK("square", [](gpuactors::TaskContext& ctx, const Vector& in) -> gpuactors::Result<Vector> { ... });
#pragma once

#include <gpuactors/actor/lease_info.hpp>
#include <gpuactors/base/clock.hpp>
#include <gpuactors/device/context.hpp>

#include <memory>

namespace gpuactors {

class CallFrame;
class ClusterLink;
class Placement;
class TensorStore;
struct ProcessServices;

/// The environment of a running task: its part of the devices, its limits, its link to the cluster. Task's thread only.
class TaskContext {
public:
  TaskContext(Placement& placement, CallFrame& frame, const ProcessServices& services)
    : placement_(placement), frame_(frame), services_(services) {
    // nop
  }

  TaskContext(const TaskContext&) = delete;
  TaskContext& operator=(const TaskContext&) = delete;

  [[nodiscard]] const LeaseInfo& lease() const noexcept;

  /// Returns the number of devices that the lease holds, whole or in part.
  [[nodiscard]] std::size_t gpu_count() const noexcept;

  /// Returns the task's part of the i-th device. An index that the lease does not hold throws std::out_of_range, which
  /// fails the task.
  [[nodiscard]] Context& gpu(std::size_t i = 0);

  /// Returns the lease's units of a kind of accelerator ("gpus", "neuron_cores"); see `LeaseInfo`.
  [[nodiscard]] std::vector<int> accelerator_ids(std::string_view kind) const {
    return lease().accelerator_ids(kind);
  }

  /// Returns whether the task should end early: it was cancelled, or its worker is stopping. Cheap.
  [[nodiscard]] bool stop_requested() const noexcept;

  /// Returns when the caller gives up; `never` without a deadline.
  [[nodiscard]] TimePoint deadline() const noexcept;

  /// Returns the store for sharing tensors. A tensor put from the task's own device memory is lost when the task ends:
  /// put results with `Cluster::put`, which copies them to host memory.
  [[nodiscard]] TensorStore& tensors() noexcept;

  /// Returns the link to the cluster for `Cluster::from`.
  [[nodiscard]] std::shared_ptr<ClusterLink> cluster_link() const;

private:
  Placement& placement_;
  CallFrame& frame_;
  const ProcessServices& services_;
};

} // namespace gpuactors
