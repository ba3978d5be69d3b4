// Worker threads of a host device: started lazily, bounded by the permits that are held.
#include <gpuactors/device/host/core.hpp>
#include <gpuactors/device/host/pool.hpp>

#include <algorithm>

namespace gpuactors::host {

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
  // No thread is started any more; those that leave move themselves from one list to the other.
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
    requests_.push_back(std::move(core));
    gone.swap(gone_);
    if (static_cast<std::size_t>(idle_) < requests_.size() && live_ < std::max(keep_, permits_)) {
      ++live_;
      const auto self = threads_.emplace(threads_.end());
      *self = std::thread{[this, self] { run(self); }};
    }
  }
  wake_.notify_one();
  for (auto& thread : gone)
    thread.join();
}

void Pool::run(std::list<std::thread>::iterator self) {
  std::unique_lock lock{mutex_};
  for (;;) {
    while (requests_.empty()) {
      if (stopping_)
        return;
      if (live_ > std::max(keep_, permits_)) {
        --live_;
        gone_.splice(gone_.end(), threads_, self);
        return;
      }
      ++idle_;
      wake_.wait(lock);
      --idle_;
    }
    auto core = std::move(requests_.front());
    requests_.pop_front();
    lock.unlock();
    core->work();
    core.reset();
    lock.lock();
  }
}

} // namespace gpuactors::host
