// Renewer: does one thing again whenever it is asked to, on a thread of its own. Internal to the cluster layer.
#pragma once

#include <gpuactors/base/result.hpp>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace gpuactors::detail {

class Renewer {
public:
  /// @param renew what is done; ends soon once its argument is true.
  explicit Renewer(std::function<void(const std::atomic<bool>& given_up)> renew);
  Renewer(const Renewer&) = delete;
  Renewer& operator=(const Renewer&) = delete;
  /// Gives up what is being done.
  ~Renewer();

  /// Has it done, once more if it is being done. Any thread. @returns `unavailable` without a thread.
  Result<void> ask();

private:
  void run();

  const std::function<void(const std::atomic<bool>&)> renew_;
  std::atomic<bool> ending_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  // Guarded by the mutex.
  bool asked_ = false;
  std::thread thread_;
};

} // namespace gpuactors::detail
