#include <gpuactors/base/output_holder.hpp>

namespace gpuactors {

namespace {

thread_local LeaseId holder_of_thread;

} // namespace

void set_output_holder(LeaseId holder) noexcept {
  holder_of_thread = holder;
}

LeaseId output_holder() noexcept {
  return holder_of_thread;
}

} // namespace gpuactors
