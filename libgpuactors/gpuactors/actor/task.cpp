#include <gpuactors/actor/call_frame.hpp>
#include <gpuactors/actor/services.hpp>
#include <gpuactors/actor/task.hpp>

namespace gpuactors {

const LeaseInfo& TaskContext::lease() const noexcept {
  return placement_.lease();
}

std::size_t TaskContext::gpu_count() const noexcept {
  return placement_.size();
}

Context& TaskContext::gpu(std::size_t i) {
  return placement_.context(i);
}

bool TaskContext::stop_requested() const noexcept {
  return frame_.control().stop_requested();
}

TimePoint TaskContext::deadline() const noexcept {
  return frame_.deadline();
}

TensorStore& TaskContext::tensors() noexcept {
  return *services_.tensors;
}

std::shared_ptr<ClusterLink> TaskContext::cluster_link() const {
  return services_.cluster.lock();
}

} // namespace gpuactors
