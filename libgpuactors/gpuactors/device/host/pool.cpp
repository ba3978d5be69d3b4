// Worker threads of a host device: started lazily, bounded by the permits that are held.
#include <gpuactors/device/host/core.hpp>
#include <gpuactors/device/host/pool.hpp>

#include <algorithm>
#include <chrono>
#include <system_error>

namespace gpuactors::host {

namespace {

/// How often a thread that has worked looks for late work, and after how many looks in vain it sleeps.
constexpr std::chrono::milliseconds look_every{1};
constexpr int most_looks_in_vain = 50;

} // namespace

Pool::Pool(int keep) : keep_(keep) {
  // nop
}

Pool::~Pool() {
  std::list<std::thread> leaving;
  {
    std::lock_guard guard{mutex_};
    stopping_ = true;
  }
  wake_.notify_all();
  // No thread is started any more; threads that leave move themselves from `threads_` to `gone_`.
  for (;;) {
    {
      std::lock_guard guard{mutex_};
      leaving.splice(leaving.end(), gone_);
      if (leaving.empty() && !threads_.empty())
        leaving.splice(leaving.end(), threads_, threads_.begin());
    }
    if (leaving.empty())
      return;
    for (auto& thread : leaving)
      thread.join();
    leaving.clear();
  }
}

void Pool::add_permits(int permits) {
  {
    std::lock_guard guard{mutex_};
    permits_ += permits;
  }
  if (permits < 0)
    wake_.notify_all();
}

void Pool::request(std::shared_ptr<Core> core) {
  std::list<std::thread> gone;
  {
    std::lock_guard guard{mutex_};
    enter(std::move(core));
    gone.swap(gone_);
  }
  wake_.notify_one();
  for (auto& thread : gone)
    thread.join();
}

bool Pool::request_late(std::shared_ptr<Core> core) {
  std::lock_guard guard{mutex_};
  if (looking_)
    add_late(std::move(core));
  return looking_;
}

void Pool::add_late(std::shared_ptr<Core> core) {
  // The core may still be listed if a thread has come for it meanwhile for another reason.
  if (std::find(late_.begin(), late_.end(), core) == late_.end())
    late_.push_back(std::move(core));
}

void Pool::enter(std::shared_ptr<Core> core) {
  requests_.push_back(std::move(core));
  if (static_cast<std::size_t>(idle_) >= requests_.size() || live_ >= std::max(keep_, permits_))
    return;
  const auto self = threads_.emplace(threads_.end());
  try {
    *self = std::thread{[this, self] { run(self); }};
    ++live_;
  } catch (const std::system_error&) {
    // The other threads serve the request later; without any thread, nobody would.
    threads_.erase(self);
    if (live_ > 0)
      return;
    requests_.pop_back();
    throw;
  }
}

void Pool::run(std::list<std::thread>::iterator self) {
  Lock lock{mutex_};
  for (int in_vain = 0;;) {
    while (requests_.empty()) {
      if (stopping_)
        return;
      if (live_ > std::max(keep_, permits_)) {
        --live_;
        if (!looking_)
          look_no_more();
        gone_.splice(gone_.end(), threads_, self);
        return;
      }
      ++idle_;
      if (!looking_ && in_vain < most_looks_in_vain) {
        look(lock);
        in_vain = late_.empty() ? in_vain + 1 : 0;
      } else {
        wake_.wait(lock);
      }
      --idle_;
    }
    in_vain = 0;
    auto core = std::move(requests_.front());
    requests_.pop_front();
    if (!requests_.empty())
      wake_.notify_one();
    lock.unlock();
    core->work();
    core.reset();
    lock.lock();
  }
}

void Pool::look(Lock& lock) {
  looking_ = true;
  wake_.wait_for(lock, look_every);
  Cores cores;
  cores.swap(late_);
  lock.unlock();
  Cores late;
  Cores early;
  for (auto& core : cores) {
    const auto found = core->lateness();
    if (found == Lateness::late)
      late.push_back(std::move(core));
    else if (found == Lateness::early)
      early.push_back(std::move(core));
  }
  cores.clear();
  lock.lock();
  looking_ = false;
  for (auto& core : late)
    enter(std::move(core));
  for (auto& core : early)
    add_late(std::move(core));
  if (!requests_.empty())
    look_no_more(); // this thread goes to work and looks no more
}

void Pool::look_no_more() {
  for (; !late_.empty(); late_.pop_front()) {
    enter(std::move(late_.front()));
    wake_.notify_one();
  }
}

} // namespace gpuactors::host
