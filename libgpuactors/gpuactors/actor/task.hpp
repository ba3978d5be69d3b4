// Tasks: stateless functions that run under a lease. Whatever a task allocates is freed when it ends.
//
//   GPUACTORS_TASK("square", [](gpuactors::TaskContext& ctx, const Vector& in) -> gpuactors::Result<Vector> { ... });
#pragma once

#include <gpuactors/actor/holder_context.hpp>

namespace gpuactors {

/// The environment of a running task: its part of the devices, its limits, its link to the cluster. Task's thread only.
class TaskContext : public HolderContext {
public:
  TaskContext(Placement& placement, CallFrame& frame, const ProcessServices& services);
};

} // namespace gpuactors
