#include <gpuactors/actor/holder_control.hpp>
#include <gpuactors/actor/hosted_stream.hpp>
#include <gpuactors/base/limits.hpp>

#include <algorithm>
#include <utility>

namespace gpuactors {

Result<bool> HolderControl::begin(CallId call, std::uint32_t stream_items, CallThread thread, std::string_view what,
                                  TimePoint now, const RunningCall* seen) {
  const std::lock_guard lock{mutex_};
  if (revoked_)
    return fail(*revoked_);
  if (ends_itself_)
    return fail(*ends_itself_);
  if (ending_)
    return fail(Errc::not_begun, "it was ended before the call began");
  if (cancelled_.take(call))
    return fail(Errc::cancelled, "the call was cancelled before it began");
  if (taken_back_.take(call))
    return false;
  auto& running = running_on(thread);
  running.call = call;
  running.what = what;
  running.since = now;
  running.as_seen = seen;
  running.stop.store(false, std::memory_order_relaxed);
  if (thread == CallThread::own)
    credits_ = stream_items;
  return true;
}

void HolderControl::end(CallThread thread) {
  const std::lock_guard lock{mutex_};
  auto& running = running_on(thread);
  running.last_ended = std::exchange(running.call, CallId{});
  running.since = never;
  running.as_seen = nullptr;
  // What the holder does between calls was not asked to stop.
  running.stop.store(ending_, std::memory_order_relaxed);
  calls_.fetch_add(1, std::memory_order_relaxed);
}

std::optional<Error> HolderControl::begin_turn(std::string_view what, TimePoint now, const RunningCall* seen) {
  const std::lock_guard lock{mutex_};
  auto& running = running_on(CallThread::own);
  running.what = what;
  running.since = now;
  running.as_seen = seen;
  return revoked_;
}

void HolderControl::end_turn() {
  const std::lock_guard lock{mutex_};
  auto& running = running_on(CallThread::own);
  running.since = never;
  running.as_seen = nullptr;
}

std::optional<HolderControl::Busy> HolderControl::busy() const {
  const std::lock_guard lock{mutex_};
  const auto& longest = *std::min_element(running_.begin(), running_.end(),
                                          [](const auto& a, const auto& b) { return a.since < b.since; });
  if (longest.since == never)
    return std::nullopt;
  return Busy{std::string{longest.what}, longest.since};
}

void HolderControl::on_save(std::function<void(const Payload&)> keep) {
  keep_ = std::move(keep);
}

void HolderControl::set_methods(std::shared_ptr<const CallTable> methods) {
  const std::lock_guard lock{mutex_};
  methods_ = std::move(methods);
}

std::vector<CallCounts> HolderControl::methods() const {
  std::unique_lock lock{mutex_};
  const auto methods = methods_;
  lock.unlock();
  return methods != nullptr ? methods->counts() : std::vector<CallCounts>{};
}

void HolderControl::save(const Payload& state) {
  get_on();
  keep_(state);
}

void HolderControl::get_on() {
  const std::lock_guard lock{mutex_};
  get_on_now();
}

void HolderControl::get_on_now() {
  if (auto& running = running_on(CallThread::own); running.since != never)
    running.since = Clock::now();
}

bool HolderControl::take_credit(TimePoint deadline, const std::function<bool()>& reader_is_there) {
  std::unique_lock lock{mutex_};
  get_on_now();
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

void HolderControl::defer(CallId call, std::function<void()> withdraw, CallThread thread) {
  {
    const std::lock_guard lock{mutex_};
    if (!call)
      return;
    if (!stop_requested(thread)) {
      deferred_.emplace(call, Deferred{std::move(withdraw), {}});
      return;
    }
    if (ending_)
      dropped_.insert(call);
  }
  withdraw();
}

void HolderControl::tell_if_dropped(CallId call, Result<Payload>& answer) const {
  if (answer || answer.error().code() != Errc::cancelled)
    return;
  const std::lock_guard lock{mutex_};
  if (dropped_.contains(call))
    answer = fail(revoked_.value_or(
        Error{Errc::lease_revoked, "its holder was told to end before the answer of the call was there"}));
}

std::uint32_t HolderControl::keep(CallId call, std::function<void()> withdraw,
                                  std::function<void(std::uint32_t)> credit) {
  {
    const std::lock_guard lock{mutex_};
    if (!stop_requested()) {
      deferred_.emplace(call, Deferred{std::move(withdraw), std::move(credit)});
      return std::exchange(credits_, 0);
    }
  }
  withdraw();
  return 0;
}

bool HolderControl::is_deferred(CallId call) const {
  const std::lock_guard lock{mutex_};
  return deferred_.contains(call);
}

void HolderControl::settle(CallId call) {
  const std::lock_guard lock{mutex_};
  deferred_.erase(call);
}

bool HolderControl::cancel(CallId call, std::string_view by) {
  std::function<void()> withdraw;
  bool has_begun = true;
  {
    const std::lock_guard lock{mutex_};
    if (!call)
      return false;
    const auto running =
        std::find_if(running_.begin(), running_.end(), [call](const Running& one) { return one.call == call; });
    auto deferred = deferred_.extract(call);
    if (!deferred.empty())
      withdraw = std::move(deferred.mapped().withdraw);
    // A method that has kept its stream may still run.
    if (running != running_.end()) {
      running->stop.store(true, std::memory_order_relaxed);
      wake_.notify_all();
    } else if (deferred.empty()) {
      has_begun = false;
      cancelled_.insert(call, by);
    }
  }
  if (withdraw)
    withdraw();
  return has_begun;
}

bool HolderControl::Remembered::insert(CallId call, std::string_view by) {
  if (!calls_.insert(call).second)
    return false;
  auto known = order_.find(by);
  if (known == order_.end())
    known = order_.try_emplace(std::string{by}).first;
  auto& order = known->second;
  order.push_back(call);
  if (order.size() > (by.empty() ? limits::remembered_cancellations : limits::remembered_cancellations_per_name)) {
    calls_.erase(order.front());
    order.pop_front();
  }
  return true;
}

bool HolderControl::Remembered::take(CallId call) {
  if (calls_.empty() || calls_.erase(call) == 0)
    return false;
  if (calls_.empty())
    order_.clear();
  return true;
}

bool HolderControl::take_back(CallId call, std::string_view by) {
  const std::lock_guard lock{mutex_};
  const auto& own = running_on(CallThread::own);
  // Calls run in order of arrival, so a call that somebody wants back is either the last that ended or comes later.
  if (!call || call == own.call || call == own.last_ended || deferred_.count(call) > 0 || dropped_.contains(call))
    return false;
  // The call travels on the same path as this request and before it: `begin` sees it and takes the entry out.
  return !cancelled_.contains(call) && taken_back_.insert(call, by);
}

void HolderControl::credit(CallId call, std::uint32_t items) {
  std::function<void(std::uint32_t)> kept;
  {
    const std::lock_guard lock{mutex_};
    if (const auto found = deferred_.find(call); found != deferred_.end()) {
      kept = found->second.credit;
    } else if (running_on(CallThread::own).call == call) {
      detail::grant_credit(credits_, items);
      wake_.notify_all();
    }
  }
  if (kept)
    kept(items);
}

void HolderControl::stop_all() {
  std::unordered_map<CallId, Deferred> deferred;
  {
    const std::lock_guard lock{mutex_};
    ending_ = true;
    for (auto& running : running_)
      if (!running.stop.exchange(true, std::memory_order_relaxed) && running.call)
        dropped_.insert(running.call);
    wake_.notify_all();
    deferred.swap(deferred_);
    for (const auto& [call, one] : deferred)
      dropped_.insert(call);
  }
  for (const auto& [call, one] : deferred)
    one.withdraw();
}

void HolderControl::revoke(Error error) {
  {
    const std::lock_guard lock{mutex_};
    if (!revoked_)
      revoked_ = std::move(error);
  }
  stop_all();
}

void HolderControl::give_up(const Error& error) {
  std::vector<std::function<void(const Error&)>> refusals;
  {
    const std::lock_guard lock{mutex_};
    // Together, so that each call is either refused here or does not begin.
    if (!revoked_)
      revoked_ = error;
    for (const auto& running : running_)
      if (running.as_seen != nullptr)
        refusals.push_back(running.as_seen->refusal());
  }
  for (const auto& refuse : refusals)
    refuse(error);
  end_waits();
  stop_all();
}

bool HolderControl::is_ending() const {
  const std::lock_guard lock{mutex_};
  return ending_ || revoked_ || ends_itself_;
}

std::optional<Error> HolderControl::revoked() const {
  const std::lock_guard lock{mutex_};
  return revoked_;
}

void HolderControl::end_itself(Error error) {
  const std::lock_guard lock{mutex_};
  if (!ends_itself_)
    ends_itself_ = std::move(error);
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

bool HolderControl::has_ended() const {
  const std::lock_guard lock{mutex_};
  return halves_ == 2;
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
