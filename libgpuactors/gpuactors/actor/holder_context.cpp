#include <gpuactors/actor/call_frame.hpp>
#include <gpuactors/actor/holder_context.hpp>
#include <gpuactors/actor/holder_control.hpp>
#include <gpuactors/actor/hosted_actor.hpp>
#include <gpuactors/actor/hosted_call.hpp>
#include <gpuactors/actor/services.hpp>

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace gpuactors {

namespace detail {

namespace {

// Not in a header: each library that is loaded would have one of its own.
thread_local const CallFrame* concurrent_call = nullptr;
thread_local HostedActor hosted;

} // namespace

void set_hosted_actor(const HostedActor& actor) noexcept {
  hosted = actor;
}

HostedActor hosted_actor() noexcept {
  return hosted;
}

ConcurrentCall::ConcurrentCall(const CallFrame& frame) noexcept {
  concurrent_call = &frame;
}

ConcurrentCall::~ConcurrentCall() {
  concurrent_call = nullptr;
}

const CallFrame* ConcurrentCall::running() noexcept {
  return concurrent_call;
}

} // namespace detail

const LeaseInfo& HolderContext::lease() const noexcept {
  return placement_.lease();
}

std::size_t HolderContext::gpu_count() const noexcept {
  return placement_.size();
}

Context& HolderContext::gpu(std::size_t i) {
  // It ends the method as any exception of user code does: the caller gets `task_failed` with this text.
  if (i >= placement_.size())
    throw std::out_of_range(placement_.size() == 0
                                ? std::string{"gpu() was called without a device: ask for gpus or memory_bytes"}
                                : fmt::format("gpu({}) was called, and there are {} devices", i, placement_.size()));
  return placement_.context(i);
}

bool HolderContext::stop_requested() const noexcept {
  const auto* concurrent = detail::ConcurrentCall::running();
  return concurrent != nullptr ? concurrent->stop_requested() : control_.stop_requested();
}

TimePoint HolderContext::deadline() const noexcept {
  if (const auto* concurrent = detail::ConcurrentCall::running())
    return concurrent->deadline();
  return frame_ != nullptr ? frame_->deadline() : never;
}

TensorStore& HolderContext::tensors() noexcept {
  return *services_.tensors;
}

std::shared_ptr<ClusterLink> HolderContext::cluster_link() const {
  if (run_ != 0)
    linked_ = true;
  return services_.cluster.lock();
}

HolderContext::~HolderContext() {
  if (!linked_)
    return;
  try {
    // What it has spawned may be at work for an answer that is still to come.
    frame_->when_answered([cluster = services_.cluster, lease = lease().id, run = run_] {
      if (const auto link = cluster.lock())
        link->task_ended(lease, run);
    });
  } catch (const std::exception&) { // no memory for the function: what was spawned ends with the lease
  }
}

} // namespace gpuactors
