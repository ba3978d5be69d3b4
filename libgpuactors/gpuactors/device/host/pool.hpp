// The worker threads of one host device, shared by everything that runs on it.
#pragma once

#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

namespace gpuactors::host {

class Core;

/// Threads that are started when work asks for them and leave when there are more than anybody may use.
///
/// There may be as many threads as the open backends hold permits in all, so that a backend whose kernels are stuck
/// never keeps a neighbour from its own. Any thread.
class Pool {
public:
  /// @param keep threads that stay for the next work however few permits are held.
  explicit Pool(int keep);
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  /// Waits for its threads. No backend is open any more.
  ~Pool();

  /// Counts the permits of a backend that was opened; a negative number when it is closed.
  void add_permits(int permits);

  /// Has a thread call `core->work()` soon.
  void request(std::shared_ptr<Core> core);

private:
  void run(std::list<std::thread>::iterator self);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Core>> requests_;
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
