#include <gpuactors/base/future.hpp>

#include <algorithm>

namespace gpuactors::detail {

FutureCore::~FutureCore() = default;

void FutureCore::cancel(Cancel) {
  // nop
}

namespace {

/// How long a waiter looks before it sleeps: about what putting a thread to sleep and waking it costs, and longer than
/// a short method takes to answer.
constexpr std::chrono::microseconds look_before_sleep{25};

/// Looks for a moment whether `ready` holds. A thread whose looks were in vain, because its answers come from other
/// processes, say, soon looks only now and then: it would take a processor from those that work on the answer.
template <class Ready>
bool look(const Ready& ready, TimePoint deadline) {
  constexpr unsigned in_vain = 4;
  constexpr unsigned now_and_then = 64;
  thread_local unsigned vain = 0;
  if (vain >= in_vain && ++vain % now_and_then != 0)
    return false;
  const auto until = std::min(deadline, Clock::now() + look_before_sleep);
  do {
    for (int i = 0; i < 64; ++i)
      if (ready()) {
        vain = 0;
        return true;
      }
  } while (Clock::now() < until);
  ++vain;
  return false;
}

} // namespace

bool FutureCore::wait_until(TimePoint deadline) {
  const auto is_ready = [this] { return ready(); };
  if (ready() || look(is_ready, deadline))
    return true;
  std::unique_lock lock{mutex_};
  ++waiters_;
  if (deadline == never)
    wake_.wait(lock, is_ready);
  else
    wake_.wait_until(lock, deadline, is_ready);
  --waiters_;
  return ready();
}

void FutureCore::on_ready(std::function<void()> observer) {
  {
    const std::lock_guard lock{mutex_};
    if (!ready()) {
      observers_.push_back(std::move(observer));
      return;
    }
  }
  observer();
}

void FutureCore::publish() {
  std::vector<std::function<void()>> observers;
  bool waiting = false;
  {
    const std::lock_guard lock{mutex_};
    ready_.store(true, std::memory_order_release);
    observers.swap(observers_);
    waiting = waiters_ > 0;
  }
  // Not under the lock, for which a waiter would wait at once again. Whoever completes keeps the object meanwhile.
  if (waiting)
    wake_.notify_all();
  for (const auto& observer : observers)
    observer();
}

std::vector<std::size_t> wait_for(const std::vector<FutureCore*>& cores, std::size_t wanted, TimePoint deadline) {
  struct Gate {
    std::mutex mutex;
    std::condition_variable wake;
    std::size_t ready = 0;
  };
  wanted = std::min(wanted, cores.size());
  const auto is_ready = [](const FutureCore* core) { return core != nullptr && core->ready(); };
  const auto count_ready = static_cast<std::size_t>(std::count_if(cores.begin(), cores.end(), is_ready));
  if (count_ready < wanted) {
    auto gate = std::make_shared<Gate>();
    for (auto* core : cores) {
      if (core == nullptr)
        continue;
      core->on_ready([gate] {
        const std::lock_guard lock{gate->mutex};
        ++gate->ready;
        gate->wake.notify_one();
      });
    }
    std::unique_lock lock{gate->mutex};
    const auto enough = [&] { return gate->ready >= wanted; };
    if (deadline == never)
      gate->wake.wait(lock, enough);
    else
      gate->wake.wait_until(lock, deadline, enough);
  }
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < cores.size(); ++i)
    if (is_ready(cores[i]))
      result.push_back(i);
  return result;
}

} // namespace gpuactors::detail
