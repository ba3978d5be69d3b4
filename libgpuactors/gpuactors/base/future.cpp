#include <gpuactors/base/future.hpp>
#include <gpuactors/base/look.hpp>
#include <gpuactors/base/wait_end.hpp>

#include <algorithm>
#include <iterator>

namespace gpuactors::detail {

Failure taken_already() {
  return fail(Errc::invalid_argument, "the result of this future was taken already");
}

FutureCore::~FutureCore() = default;

void FutureCore::cancel(Cancel) {
  // nop
}

void FutureCore::give_up(Cancel how) {
  cancel(how);
}

void FutureCore::refuse_own_wait() {
  // nop
}

bool is_more_than_a_look(TimePoint deadline) {
  constexpr Duration a_look = std::chrono::seconds{1};
  return deadline == never || deadline > Clock::now() + a_look;
}

namespace {

/// Polls `ready` briefly before the caller sleeps; then longer, if the answer is produced in this process (`near`) or
/// there are processors enough.
template <class Ready>
bool look(const Ready& ready, TimePoint deadline, bool near) {
  // About the duration of a short kernel. After a sleep of that length, the waiter's processor is slow to wake, and so
  // is that of the thread that produces the answer. Only one thread of the process polls this long at a time: the
  // others need the processors for work.
  constexpr std::chrono::microseconds near_look{150};
  static std::atomic<bool> looks_long{false};
  thread_local Looks short_looks;
  thread_local Looks near_looks;
  thread_local Looks far_looks;
  const auto long_look = near ? near_look : look_times().far;
  auto& long_looks = near ? near_looks : far_looks;
  const auto now = Clock::now();
  // A poll cut short by the deadline is not recorded: its result does not predict the next one.
  if (deadline - now < std::max(long_look, short_look))
    return look_until(ready, std::min(deadline, now + short_look)).found;
  if (short_looks.pays() && short_looks.found(look_until(ready, now + short_look)))
    return true;
  if (long_look <= short_look || looks_long.load(std::memory_order_relaxed) || !long_looks.pays()
      || looks_long.exchange(true, std::memory_order_relaxed))
    return false;
  const bool found = long_looks.found(look_until(ready, now + long_look));
  looks_long.store(false, std::memory_order_relaxed);
  return found;
}

} // namespace

bool FutureCore::wait_until(TimePoint deadline) {
  const auto is_ready = [this] { return ready(); };
  if (ready() || look(is_ready, deadline, near))
    return true;
  if (is_more_than_a_look(deadline))
    refuse_own_wait();
  std::unique_lock lock{mutex_};
  ++waiters_;
  wait_on(wake_, lock, deadline, is_ready);
  --waiters_;
  return ready();
}

std::uint64_t FutureCore::on_ready(std::function<void()> observer) {
  {
    const std::lock_guard lock{mutex_};
    if (!ready()) {
      observers_.emplace_back(++last_observer_, std::move(observer));
      return last_observer_;
    }
  }
  observer();
  return 0;
}

void FutureCore::forget(std::uint64_t observer) {
  std::function<void()> forgotten; // destroyed after the lock is released
  const std::lock_guard lock{mutex_};
  // Searches from the back: a waiter usually removes the observers that were added last.
  const auto found =
      std::find_if(observers_.rbegin(), observers_.rend(), [&](const auto& known) { return known.first == observer; });
  if (found == observers_.rend())
    return;
  forgotten = std::move(found->second);
  observers_.erase(std::next(found).base());
}

void FutureCore::publish() {
  decltype(observers_) observers;
  bool waiting = false;
  {
    const std::lock_guard lock{mutex_};
    ready_.store(true, std::memory_order_release);
    observers.swap(observers_);
    waiting = waiters_ > 0;
  }
  // Notifies without the lock, which a woken waiter would otherwise block on at once. The completing thread keeps this
  // object alive meanwhile.
  if (waiting)
    wake_.notify_all();
  for (const auto& [number, observer] : observers)
    observer();
}

std::vector<std::size_t> wait_for(const std::vector<FutureCore*>& cores, std::size_t wanted, TimePoint deadline) {
  struct Gate {
    std::mutex mutex;
    std::condition_variable wake;
    std::size_t ready = 0;
  };
  // Those whose results were taken are never ready: nobody waits for them.
  const auto valid = cores.size() - static_cast<std::size_t>(std::count(cores.begin(), cores.end(), nullptr));
  wanted = std::min(wanted, valid);
  const auto is_ready = [](const FutureCore* core) { return core != nullptr && core->ready(); };
  // Where not all of them are wanted, the others may come.
  if (wanted == valid && is_more_than_a_look(deadline))
    for (auto* const core : cores)
      if (core != nullptr && !core->ready())
        core->refuse_own_wait();
  const auto count_ready = static_cast<std::size_t>(std::count_if(cores.begin(), cores.end(), is_ready));
  if (count_ready < wanted) {
    auto gate = std::make_shared<Gate>();
    std::vector<std::uint64_t> observers(cores.size(), 0);
    for (std::size_t i = 0; i < cores.size(); ++i) {
      if (cores[i] == nullptr)
        continue;
      observers[i] = cores[i]->on_ready([gate] {
        const std::lock_guard lock{gate->mutex};
        ++gate->ready;
        gate->wake.notify_one();
      });
    }
    {
      std::unique_lock lock{gate->mutex};
      wait_on(gate->wake, lock, deadline, [&] { return gate->ready >= wanted; });
    }
    for (std::size_t i = 0; i < cores.size(); ++i)
      if (observers[i] != 0)
        cores[i]->forget(observers[i]);
  }
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < cores.size(); ++i)
    if (is_ready(cores[i]))
      result.push_back(i);
  return result;
}

} // namespace gpuactors::detail
