#include <gpuactors/actor/call_frame.hpp>
#include <gpuactors/actor/placement.hpp>
#include <gpuactors/actor/task.hpp>

namespace gpuactors {

TaskContext::TaskContext(Placement& placement, CallFrame& frame, const ProcessServices& services)
  : HolderContext(placement, frame.control(), services, &frame, placement.next_run()) {
  // nop
}

} // namespace gpuactors
