// Tasks: stateless functions that run under a lease. What a task allocates is gone when it ends.
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

/// What a task may use while it runs: its part of the devices, its limits, the way back to the cluster. Its own thread.
class TaskContext {
public:
  TaskContext(Placement& placement, CallFrame& frame, const ProcessServices& services)
    : placement_(placement), frame_(frame), services_(services) {
    // nop
  }

  TaskContext(const TaskContext&) = delete;
  TaskContext& operator=(const TaskContext&) = delete;

  [[nodiscard]] const LeaseInfo& lease() const noexcept;

  /// Number of devices that the lease holds, whole or in part.
  [[nodiscard]] std::size_t gpu_count() const noexcept;

  /// Its part of the i-th device. Asking for one that the lease does not hold throws std::out_of_range, which fails the
  /// task.
  [[nodiscard]] Context& gpu(std::size_t i = 0);

  /// Which units of a kind of accelerator ("gpus", "neuron_cores") the lease has; see `LeaseInfo`.
  [[nodiscard]] std::vector<int> accelerator_ids(std::string_view kind) const {
    return lease().accelerator_ids(kind);
  }

  /// Whether the task should end early: it was cancelled, or its worker is stopping. Cheap.
  [[nodiscard]] bool stop_requested() const noexcept;

  /// When the caller gives up; `never` without a deadline.
  [[nodiscard]] TimePoint deadline() const noexcept;

  /// Where tensors are shared. What a task puts from its own device memory is gone with the task: put results with
  /// `Cluster::put`, which copies them to host memory.
  [[nodiscard]] TensorStore& tensors() noexcept;

  /// The way back to the cluster; see `Cluster::from`.
  [[nodiscard]] std::shared_ptr<ClusterLink> cluster_link() const;

private:
  Placement& placement_;
  CallFrame& frame_;
  const ProcessServices& services_;
};

} // namespace gpuactors
