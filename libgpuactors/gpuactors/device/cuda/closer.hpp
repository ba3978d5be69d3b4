// Letting go of what takes its time to go, on a thread where nobody waits for it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace gpuactors::cuda {

/// Drops what it is given, in order, on a thread of its own: to unmap memory may wait for the whole device, and must
/// hold up neither notifications nor whoever dropped a tensor. Any thread, but for the end, which is not on its own.
class Closer {
public:
  Closer() = default;
  Closer(const Closer&) = delete;
  Closer& operator=(const Closer&) = delete;
  /// Drops what is left.
  ~Closer();

  void add(std::shared_ptr<void> what);

  /// Waits until all that was added so far is gone.
  void drain();

private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by `mutex_`.
  std::vector<std::shared_ptr<void>> waiting_;
  std::uint64_t added_ = 0;
  std::uint64_t gone_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

} // namespace gpuactors::cuda
