// The worker threads of one host device, shared by everything that runs on it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

namespace gpuactors::host {

class Core;

/// A budget for keeping the memory of queued launches for later ones; at most 7 MB in all. Any thread.
class Allowance {
public:
  [[nodiscard]] bool take(std::size_t launches) noexcept {
    constexpr std::size_t most = 16'384;
    if (taken_.fetch_add(launches, std::memory_order_relaxed) + launches <= most)
      return true;
    give_back(launches);
    return false;
  }

  void give_back(std::size_t launches) noexcept {
    taken_.fetch_sub(launches, std::memory_order_relaxed);
  }

private:
  std::atomic<std::size_t> taken_{0};
};

/// The threads of one host device. They start when work asks for them, and end when there are more than may be used.
///
/// There may be as many threads as the open backends hold permits in all, so that a backend with stuck kernels never
/// takes another backend's threads. Any thread.
class Pool {
public:
  /// @param keep threads that stay for the next work however few permits are held.
  explicit Pool(int keep);
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  /// Waits for the threads. No backend may be open any more.
  ~Pool();

  /// Adds the permits of a backend that was opened; a negative number when the backend is closed.
  void add_permits(int permits);

  /// Has a thread call `core->work()` now.
  void request(std::shared_ptr<Core> core);

  /// Has a thread call `core->work()` if nobody else does the core's work in a while. Wakes no thread: a thread that
  /// has just worked goes on looking for late work for some time.
  /// @returns false if no thread is looking.
  bool request_late(std::shared_ptr<Core> core);

  /// Returns the budget that everything on the device shares; its users may outlive the pool.
  [[nodiscard]] const std::shared_ptr<Allowance>& allowance() const noexcept {
    return allowance_;
  }

private:
  using Lock = std::unique_lock<std::mutex>;
  using Cores = std::deque<std::shared_ptr<Core>>;

  void run(std::list<std::thread>::iterator self);
  /// Waits a moment for requests, then turns the cores in `late_` whose work is late into requests, too.
  void look(Lock& lock);
  /// Turns all cores in `late_` into requests, because no thread looks any more.
  void look_no_more();
  void add_late(std::shared_ptr<Core> core);
  /// Enters a request, and starts a thread if there are too few.
  void enter(std::shared_ptr<Core> core);

  std::shared_ptr<Allowance> allowance_ = std::make_shared<Allowance>();
  std::mutex mutex_;
  std::condition_variable wake_;
  Cores requests_;
  Cores late_;
  /// Whether a thread looks at `late_`.
  bool looking_ = false;
  std::list<std::thread> threads_;
  /// Threads that have left and wait to be joined.
  std::list<std::thread> gone_;
  int keep_;
  int permits_ = 0;
  int live_ = 0;
  int idle_ = 0;
  bool stopping_ = false;
};

} // namespace gpuactors::host
