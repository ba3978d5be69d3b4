#include <gpuactors/actor/holder_control.hpp>
#include <gpuactors/base/limits.hpp>

namespace gpuactors {

Result<void> HolderControl::begin(CallId call, std::uint32_t stream_items) {
  const std::lock_guard lock{mutex_};
  if (ending_)
    return fail(Errc::actor_died, "it was ended before the call began");
  if (!cancelled_.empty() && cancelled_.erase(call) > 0)
    return fail(Errc::cancelled, "the call was cancelled before it began");
  running_ = call;
  credits_ = stream_items;
  stop_.store(false, std::memory_order_relaxed);
  return {};
}

void HolderControl::end() {
  const std::lock_guard lock{mutex_};
  running_ = CallId{};
}

bool HolderControl::take_credit(TimePoint deadline) {
  std::unique_lock lock{mutex_};
  const auto decided = [this] { return credits_ > 0 || stop_requested(); };
  if (deadline == never)
    wake_.wait(lock, decided);
  else if (!wake_.wait_until(lock, deadline, decided))
    return false;
  if (stop_requested())
    return false;
  --credits_;
  return true;
}

void HolderControl::cancel(CallId call) {
  const std::lock_guard lock{mutex_};
  if (!call)
    return;
  if (running_ == call) {
    stop_.store(true, std::memory_order_relaxed);
    wake_.notify_all();
  } else if (cancelled_.size() < limits::actor_mailbox_calls) {
    cancelled_.insert(call);
  }
}

void HolderControl::credit(CallId call, std::uint32_t items) {
  const std::lock_guard lock{mutex_};
  if (running_ != call)
    return;
  credits_ += items;
  wake_.notify_all();
}

void HolderControl::stop_all() {
  const std::lock_guard lock{mutex_};
  ending_ = true;
  stop_.store(true, std::memory_order_relaxed);
  wake_.notify_all();
}

} // namespace gpuactors
