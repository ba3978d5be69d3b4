#include <gpuactors/actor/call_frame.hpp>
#include <gpuactors/actor/holder_context.hpp>
#include <gpuactors/actor/holder_control.hpp>
#include <gpuactors/actor/services.hpp>

namespace gpuactors {

const LeaseInfo& HolderContext::lease() const noexcept {
  return placement_.lease();
}

std::size_t HolderContext::gpu_count() const noexcept {
  return placement_.size();
}

Context& HolderContext::gpu(std::size_t i) {
  return placement_.context(i);
}

bool HolderContext::stop_requested() const noexcept {
  return control_.stop_requested();
}

TimePoint HolderContext::deadline() const noexcept {
  return frame_ != nullptr ? frame_->deadline() : never;
}

TensorStore& HolderContext::tensors() noexcept {
  return *services_.tensors;
}

std::shared_ptr<ClusterLink> HolderContext::cluster_link() const {
  return services_.cluster.lock();
}

} // namespace gpuactors
