#include <gpuactors/base/look.hpp>
#include <gpuactors/wire/own_threads.hpp>

#include <fmt/format.h>
#include <pthread.h>

#include <atomic>
#include <system_error>

namespace gpuactors {

/// One thread. It ends when its actor has ended, or when the last reference to that actor is gone.
class OwnThreads::OwnThread : public caf_version::Runner {
public:
  using Runner::Runner;

  void run_soon(caf::resumable* actor) override {
    job_.store(actor);
    wake();
  }

  void end() {
    stopped_.store(true);
    wake();
  }

  /// The body of the thread.
  void work() {
    while (auto* actor = next())
      if (!Runner::run(actor))
        return;
  }

private:
  [[nodiscard]] bool ready() const {
    return job_.load() != nullptr || stopped_.load();
  }

  /// Waits for the next job; returns null if the thread has to stop.
  caf::resumable* next() {
    const auto is_ready = [this] { return ready(); };
    if (!is_ready() && !look(is_ready)) {
      const auto since = Clock::now();
      std::unique_lock lock{mutex_};
      sleeps_.store(true);
      wake_.wait(lock, is_ready);
      sleeps_.store(false);
      // Not of the first job, which comes from who has started the thread.
      looks_.waited(has_worked_ && Clock::now() - since < look_times().message);
    }
    has_worked_ = true;
    return job_.exchange(nullptr);
  }

  /// Polls briefly for a job. Only one thread of a process polls at a time: the others need the processors for work.
  template <class Ready>
  bool look(const Ready& is_ready) {
    static std::atomic<bool> somebody_looks{false};
    if (!looks_.pays() || somebody_looks.load(std::memory_order_relaxed)
        || somebody_looks.exchange(true, std::memory_order_relaxed))
      return false;
    const bool found = looks_.found(look_until(is_ready, Clock::now() + look_times().message));
    somebody_looks.store(false, std::memory_order_relaxed);
    return found;
  }

  void wake() {
    // The thread sets `sleeps_` before its last check for a job, and holds the mutex from there until it sleeps. Taking
    // the mutex here therefore prevents a lost wake-up.
    if (!sleeps_.load())
      return;
    { const std::lock_guard lock{mutex_}; }
    wake_.notify_one();
  }

  /// The actor to run. There is at most one job: CAF schedules an actor only once until it has found its mailbox empty.
  std::atomic<caf::resumable*> job_{nullptr};
  std::atomic<bool> stopped_{false};
  std::atomic<bool> sleeps_{false};
  // A poll that takes no longer than to sleep and wake costs little, and no wait is seen to be shorter than that.
  Looks looks_{look_times().message > short_look ? Looks::Begin::after_short_wait : Looks::Begin::at_once};
  bool has_worked_ = false;
  std::mutex mutex_;
  std::condition_variable wake_;
};

OwnThreads::OwnThreads(Maker make) : make_(std::move(make)) {
  // nop
}

OwnThreads::~OwnThreads() {
  join();
}

Result<OwnThreads::Thread> OwnThreads::start(caf::actor_system& system) {
  auto own = std::make_shared<OwnThread>(system);
  {
    const std::lock_guard lock{mutex_};
    const auto number = ++last_number_;
    try {
      // The thread may finish before it is entered into `running_`: `end` then waits for the lock.
      running_[number] = make_([this, own, number] {
        pthread_setname_np(pthread_self(), "gpuactors.actor");
        own->work();
        end(number);
      });
    } catch (const std::system_error& error) {
      running_.erase(number);
      return fail(Errc::unavailable, fmt::format("an actor or task needs a thread of its own, and there is none beside "
                                                 "the {} that run: {}",
                                                 running_.size(), error.what()));
    }
  }
  // The actor owns this handle: when the actor is gone, the thread ends.
  return Thread{own.get(), [own](caf_version::Runner*) { own->end(); }};
}

void OwnThreads::end(std::uint64_t number) {
  std::thread before;
  {
    const std::lock_guard lock{mutex_};
    before = std::exchange(ended_, std::move(running_.extract(number).mapped()));
    one_ended_.notify_all();
  }
  // The join happens on an ended thread, where it delays no work: thread-exit code of users' libraries may take long.
  if (before.joinable())
    before.join();
}

void OwnThreads::join() {
  std::thread last;
  {
    std::unique_lock lock{mutex_};
    one_ended_.wait(lock, [this] { return running_.empty(); });
    last = std::move(ended_);
  }
  if (last.joinable())
    last.join();
}

} // namespace gpuactors
