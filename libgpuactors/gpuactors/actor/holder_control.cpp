#include <gpuactors/actor/holder_control.hpp>
#include <gpuactors/base/limits.hpp>

namespace gpuactors {

Result<bool> HolderControl::begin(CallId call, std::uint32_t stream_items) {
  const std::lock_guard lock{mutex_};
  if (revoked_)
    return fail(*revoked_);
  if (ends_itself_)
    return fail(*ends_itself_);
  if (ending_)
    return fail(Errc::actor_died, "it was ended before the call began");
  if (!cancelled_.empty() && cancelled_.erase(call) > 0)
    return fail(Errc::cancelled, "the call was cancelled before it began");
  if (!taken_back_.empty() && taken_back_.erase(call) > 0)
    return false;
  running_ = call;
  credits_ = stream_items;
  stop_.store(false, std::memory_order_relaxed);
  return true;
}

void HolderControl::end() {
  const std::lock_guard lock{mutex_};
  last_ended_ = running_;
  running_ = CallId{};
  calls_.fetch_add(1, std::memory_order_relaxed);
}

void HolderControl::on_save(std::function<void(const Payload&)> keep) {
  keep_ = std::move(keep);
}

void HolderControl::save(const Payload& state) {
  keep_(state);
}

bool HolderControl::take_credit(TimePoint deadline, const std::function<bool()>& reader_is_there) {
  std::unique_lock lock{mutex_};
  const auto decided = [this] { return credits_ > 0 || stop_requested(); };
  // Nobody wakes this thread when the reader's process or the connection to it is gone.
  while (!wake_.wait_until(lock, std::min(deadline, deadline_after(Clock::now(), limits::reader_look)), decided))
    if (Clock::now() >= deadline || !reader_is_there())
      return false;
  if (stop_requested())
    return false;
  --credits_;
  return true;
}

void HolderControl::defer(CallId call, std::function<void()> withdraw) {
  {
    const std::lock_guard lock{mutex_};
    if (!call)
      return;
    if (!stop_requested()) {
      deferred_.emplace(call, std::move(withdraw));
      return;
    }
  }
  withdraw();
}

void HolderControl::settle(CallId call) {
  const std::lock_guard lock{mutex_};
  deferred_.erase(call);
}

std::shared_ptr<HolderControl> HolderControl::concurrent() {
  const std::lock_guard lock{mutex_};
  if (concurrent_ == nullptr) {
    concurrent_ = std::make_shared<HolderControl>();
    concurrent_->ending_ = ending_;
    concurrent_->revoked_ = revoked_;
    concurrent_->ends_itself_ = ends_itself_;
  }
  return concurrent_;
}

std::uint64_t HolderControl::calls() const {
  const std::lock_guard lock{mutex_};
  return calls_.load(std::memory_order_relaxed) + (concurrent_ != nullptr ? concurrent_->calls() : 0);
}

bool HolderControl::cancel(CallId call) {
  std::function<void()> withdraw;
  std::shared_ptr<HolderControl> concurrent;
  bool running = false;
  {
    const std::lock_guard lock{mutex_};
    if (!call)
      return false;
    if (auto deferred = deferred_.extract(call); !deferred.empty()) {
      running = true;
      withdraw = std::move(deferred.mapped());
    } else if (running_ == call) {
      running = true;
      stop_.store(true, std::memory_order_relaxed);
      wake_.notify_all();
    } else if (cancelled_.insert(call).second) {
      cancelled_order_.push_back(call);
      if (cancelled_order_.size() > limits::remembered_cancellations) {
        cancelled_.erase(cancelled_order_.front());
        cancelled_order_.pop_front();
      }
    }
    concurrent = concurrent_;
  }
  if (withdraw)
    withdraw();
  // Which of the two a call that has not begun belongs to is not known here.
  return running || (concurrent != nullptr && concurrent->cancel(call));
}

bool HolderControl::take_back(CallId call) {
  const std::lock_guard lock{mutex_};
  // Calls run in order of arrival, so a call that somebody wants back is either the last that ended or comes later.
  if (!call || call == running_ || call == last_ended_ || deferred_.count(call) > 0)
    return false;
  // The call travels on the same path as this request and before it, so `begin` sees the call and erases the entry.
  return cancelled_.count(call) == 0 && taken_back_.insert(call).second;
}

void HolderControl::credit(CallId call, std::uint32_t items) {
  const std::lock_guard lock{mutex_};
  if (running_ != call)
    return;
  credits_ += items;
  wake_.notify_all();
}

void HolderControl::stop_all() {
  std::unordered_map<CallId, std::function<void()>> deferred;
  std::shared_ptr<HolderControl> concurrent;
  {
    const std::lock_guard lock{mutex_};
    ending_ = true;
    stop_.store(true, std::memory_order_relaxed);
    wake_.notify_all();
    deferred.swap(deferred_);
    concurrent = concurrent_;
  }
  for (const auto& [call, withdraw] : deferred)
    withdraw();
  if (concurrent != nullptr)
    concurrent->stop_all();
}

void HolderControl::revoke(Error error) {
  std::shared_ptr<HolderControl> concurrent;
  {
    const std::lock_guard lock{mutex_};
    revoked_ = error;
    concurrent = concurrent_;
  }
  if (concurrent != nullptr)
    concurrent->revoke(std::move(error));
  stop_all();
}

std::optional<Error> HolderControl::revoked() const {
  const std::lock_guard lock{mutex_};
  return revoked_;
}

void HolderControl::end_itself(Error error) {
  std::shared_ptr<HolderControl> concurrent;
  {
    const std::lock_guard lock{mutex_};
    if (ends_itself_)
      return;
    ends_itself_ = error;
    concurrent = concurrent_;
  }
  if (concurrent != nullptr)
    concurrent->end_itself(std::move(error));
}

Error HolderControl::why_ended() const {
  const std::lock_guard lock{mutex_};
  if (revoked_)
    return *revoked_;
  return ends_itself_.value_or(Error{Errc::actor_died, "the actor ended before it answered"});
}

std::optional<Error> HolderControl::ends_itself() const {
  const std::lock_guard lock{mutex_};
  return ends_itself_;
}

void HolderControl::on_end(std::function<void()> report) {
  const std::lock_guard lock{mutex_};
  report_ = std::move(report);
}

void HolderControl::half_ended() {
  std::function<void()> report;
  {
    const std::lock_guard lock{mutex_};
    if (++halves_ == 2)
      report = std::move(report_);
  }
  if (report)
    report();
}

void HolderControl::report_lost(std::vector<int> devices) {
  const std::lock_guard lock{mutex_};
  lost_devices_ = std::move(devices);
}

std::vector<int> HolderControl::lost_devices() const {
  const std::lock_guard lock{mutex_};
  return lost_devices_;
}

} // namespace gpuactors
