// Watching events.
#include <gpuactors/device/cuda/poller.hpp>
#include <gpuactors/device/detail/patience.hpp>
#include <gpuactors/device/detail/serving_device.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

namespace gpuactors::cuda {

Poller::Poller(std::shared_ptr<Primary> primary) : primary_(std::move(primary)) {
  // nop
}

Poller::~Poller() {
  bool awaited = false;
  {
    std::lock_guard guard{bell_->mutex};
    bell_->stopping = true;
    awaited = bell_->expected > 0;
    bell_->rung.notify_all();
  }
  if (thread_.joinable())
    thread_.join();
  // Streams whose context is lost end at once, and nothing says that no callback is on its way any more.
  if (awaited)
    keep(std::move(bell_));
}

void Poller::keep(std::unique_ptr<Bell> bell) {
  static std::mutex mutex;
  static auto* kept = new std::vector<std::unique_ptr<Bell>>;
  const std::lock_guard guard{mutex};
  kept->push_back(std::move(bell));
}

void CUDA_CB Poller::wake(void* bell) {
  static_cast<Bell*>(bell)->ring(-1);
}

void Poller::Bell::ring(int calls) {
  std::lock_guard guard{mutex};
  expected += calls;
  woken = true;
  // Under the lock: once it is released the bell may be gone.
  rung.notify_one();
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
    pending_.push_back({owner, &events, stream, event, std::move(callback), Clock::now()});
  }
  // A thread that waits for nothing must start to look by itself.
  bell_->ring(1);
  // Without the callback the notification is merely late: its failure is not ours to report.
  if (!primary_->check(driver.launch_host_func(stream, &Poller::wake, bell_.get()), "cuLaunchHostFunc"))
    bell_->ring(-1);
  return {};
}

void Poller::drain(const void* owner) {
  bell_->ring(0);
  std::unique_lock lock{mutex_};
  drained_.wait(lock, [&] {
    const auto owned = [owner](const Pending& pending) { return pending.owner == owner; };
    return std::none_of(pending_.begin(), pending_.end(), owned)
           && std::none_of(calling_.begin(), calling_.end(), owned);
  });
}

void Poller::run() {
  const detail::ServingDevice serving;
  const Current current{*primary_};
  detail::wait_precisely();
  bool idle = false;
  Duration pause{};
  for (;;) {
    {
      std::unique_lock lock{bell_->mutex};
      const auto called = [this] { return bell_->stopping || bell_->woken; };
      if (idle)
        bell_->rung.wait(lock, called);
      else
        bell_->rung.wait_for(lock, pause, called);
      bell_->woken = false;
      if (bell_->stopping && idle)
        return;
    }
    std::vector<Result<void>> results;
    std::unique_lock lock{mutex_};
    const auto begin = Clock::now();
    collect(calling_, results);
    const auto look = Clock::now() - begin;
    lock.unlock();
    std::size_t i = 0;
    for (auto& done : calling_) {
      done.callback(std::move(results[i++]));
      // What the callback holds goes before anybody learns that it was called.
      done.callback = nullptr;
    }
    lock.lock();
    for (const auto& done : calling_)
      done.events->give_back(done.event);
    calling_.clear();
    idle = pending_.empty();
    // As the latest one needs it: what waits for longer is looked at more often than it needs.
    if (!idle)
      pause = detail::look_again_after(Clock::now() - pending_.back().since, look);
    drained_.notify_all();
  }
}

void Poller::collect(std::list<Pending>& done, std::vector<Result<void>>& results) {
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
      }
    }
    at = next;
  }
}

} // namespace gpuactors::cuda
