// Watching events.
#include <gpuactors/device/cuda/poller.hpp>
#include <gpuactors/device/detail/call_back.hpp>
#include <gpuactors/device/detail/patience.hpp>
#include <gpuactors/device/detail/serving_device.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace gpuactors::cuda {

namespace {

/// Of what is done sooner, the thread learns by itself: to ask the driver would only cost.
constexpr Duration worth_asking = std::chrono::milliseconds{1};

} // namespace

Poller::Poller(std::shared_ptr<Primary> primary) : primary_(std::move(primary)) {
  // nop
}

Poller::~Poller() {
  {
    const std::lock_guard guard{bell_->mutex};
    bell_->stopping = true;
    bell_->rung.notify_all();
  }
  if (thread_.joinable())
    thread_.join();
  end_streams();
  const bool awaited = [this] {
    const std::lock_guard guard{bell_->mutex};
    return bell_->is_expected();
  }();
  // Streams whose context is lost end at once, and nothing says that no callback is on its way any more.
  if (awaited)
    keep(std::move(bell_));
}

void Poller::end_streams() noexcept {
  const Current current{*primary_};
  const auto& driver = primary_->driver();
  for (auto* side : sides_) {
    if (side == nullptr)
      continue;
    // What it waits for is done, so this is over when the function has returned.
    if (!primary_->lost())
      (void)driver.stream_synchronize(side);
    (void)driver.stream_destroy(side);
  }
}

void Poller::keep(std::unique_ptr<Bell> bell) {
  static std::mutex mutex;
  static auto* kept = new std::vector<std::unique_ptr<Bell>>;
  const std::lock_guard guard{mutex};
  kept->push_back(std::move(bell));
}

void CUDA_CB Poller::wake(void* rope) {
  auto& pulled = *static_cast<Bell::Rope*>(rope);
  auto& bell = *pulled.bell;
  const std::lock_guard guard{bell.mutex};
  pulled.expected = false;
  bell.woken = true;
  // Under the lock: once it is released the bell may be gone.
  bell.rung.notify_one();
}

Poller::Bell::Bell() {
  for (auto& rope : ropes)
    rope = {this};
}

void Poller::Bell::announce() {
  const std::lock_guard guard{mutex};
  // Once is enough until the thread has looked: each more would wake it for nothing.
  if (!std::exchange(has_new, true))
    rung.notify_one();
}

bool Poller::Bell::is_expected() const {
  return std::any_of(ropes.begin(), ropes.end(), [](const auto& rope) { return rope.expected; });
}

Result<void> Poller::watch(const void* owner, Events& events, CUstream stream,
                           std::function<void(Result<void>)> callback) {
  const auto& driver = primary_->driver();
  GPUACTORS_LET(event, events.take());
  if (auto recorded = primary_->check(driver.event_record(event, stream), "cuEventRecord"); !recorded) {
    events.give_back(event);
    return recorded;
  }
  {
    std::lock_guard guard{mutex_};
    try {
      if (!thread_.joinable())
        thread_ = std::thread{[this] { run(); }};
    } catch (const std::system_error& error) {
      events.give_back(event);
      return fail(Errc::unavailable, fmt::format("notifications of a GPU have no thread: {}", error.what()));
    }
    incoming_.push_back({owner, &events, stream, event, std::move(callback), Clock::now()});
    ++owned_[owner];
  }
  bell_->announce();
  return {};
}

void Poller::drain(const void* owner) {
  bell_->announce();
  std::unique_lock lock{mutex_};
  drained_.wait(lock, [&] { return !owned_.contains(owner); });
}

bool Poller::await(const Pace& pace) {
  std::unique_lock lock{bell_->mutex};
  const auto called = [this] { return bell_->stopping || bell_->woken; };
  const auto called_or_new = [&] { return called() || bell_->has_new; };
  if (pace.idle) {
    bell_->rung.wait(lock, called_or_new);
  } else if (bell_->rung.wait_until(lock, pace.looked + pace.pause, called_or_new) && !called()) {
    const auto soon = std::min(pace.pause, detail::look_again_after(Duration::zero(), pace.look));
    bell_->rung.wait_until(lock, pace.looked + soon, called);
  }
  bell_->woken = false;
  bell_->has_new = false;
  return bell_->stopping && pace.idle;
}

void Poller::run() {
  const detail::ServingDevice serving;
  const Current current{*primary_};
  detail::wait_precisely();
  Pace pace;
  while (!await(pace)) {
    {
      const std::lock_guard guard{mutex_};
      pending_.splice(pending_.end(), incoming_);
    }
    std::list<Pending> calling;
    std::vector<Result<void>> results;
    std::vector<Pending*> slow;
    const auto begin = Clock::now();
    collect(calling, results, slow);
    pace.looked = Clock::now();
    pace.look = pace.looked - begin;
    std::size_t i = 0;
    for (auto& done : calling) {
      detail::call_back(done.callback, std::move(results[i++]));
      // What the callback holds goes before anybody learns that it was called.
      done.callback = nullptr;
    }
    if (!slow.empty())
      ask_driver(slow);
    for (const auto& done : calling)
      done.events->give_back(done.event);
    // As the latest one needs it: what waits for longer is looked at more often than it needs.
    pace.idle = pending_.empty();
    if (!pace.idle)
      pace.pause = detail::look_again_after(Clock::now() - pending_.back().since, pace.look);
    const std::lock_guard guard{mutex_};
    for (const auto& done : calling)
      if (const auto owned = owned_.find(done.owner); --owned->second == 0)
        owned_.erase(owned);
    drained_.notify_all();
  }
}

void Poller::ask_driver(const std::vector<Pending*>& slow) {
  std::size_t side = 0;
  for (auto* pending : slow) {
    {
      const std::lock_guard guard{bell_->mutex};
      while (side < side_streams && bell_->ropes[side].expected)
        ++side;
      if (side == side_streams)
        return;
      bell_->ropes[side].expected = true;
    }
    pending->told_by_driver = ask_driver(side, pending->event);
    if (pending->told_by_driver)
      continue;
    // The error may be an earlier one of the context, and the call have been taken.
    if (primary_->lost())
      return;
    const std::lock_guard guard{bell_->mutex};
    bell_->ropes[side].expected = false;
    return;
  }
}

bool Poller::ask_driver(std::size_t side, CUevent event) {
  const auto& driver = primary_->driver();
  auto& stream = sides_[side];
  // Without it the notification is merely late, so a failure is nobody's to be told.
  const auto has_worked = [this](CUresult result, const char* api) { return primary_->check(result, api).has_value(); };
  return (stream != nullptr || has_worked(driver.stream_create(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate"))
         && has_worked(driver.stream_wait_event(stream, event, CU_EVENT_WAIT_DEFAULT), "cuStreamWaitEvent")
         && has_worked(driver.launch_host_func(stream, &Poller::wake, &bell_->ropes[side]), "cuLaunchHostFunc");
}

void Poller::collect(std::list<Pending>& done, std::vector<Result<void>>& results, std::vector<Pending*>& slow) {
  const auto now = Clock::now();
  // A stream whose earlier notification is not ready has none that may go before it.
  std::vector<CUstream> busy;
  for (auto at = pending_.begin(); at != pending_.end();) {
    const auto next = std::next(at);
    if (std::find(busy.begin(), busy.end(), at->stream) == busy.end()) {
      auto result = primary_->alive();
      bool ready = true;
      if (result) {
        const auto status = primary_->driver().event_query(at->event);
        ready = status != CUDA_ERROR_NOT_READY;
        if (ready)
          result = primary_->check(status, "cuEventQuery", Errc::launch_failed);
      }
      if (ready) {
        done.splice(done.end(), pending_, at);
        results.push_back(std::move(result));
      } else {
        busy.push_back(at->stream);
        if (!at->told_by_driver && now - at->since > worth_asking)
          slow.push_back(&*at);
      }
    }
    at = next;
  }
}

} // namespace gpuactors::cuda
