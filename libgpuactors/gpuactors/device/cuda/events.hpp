// The events with which one backend's streams tell that work is done.
#pragma once

#include <gpuactors/device/cuda/partition.hpp>

#include <mutex>
#include <vector>

namespace gpuactors::cuda {

/// Events for the streams of one backend, kept for the next who needs one. Any thread; the primary context is current.
class Events {
public:
  /// `partition` must outlive the object.
  explicit Events(Partition& partition) : partition_(partition) {
    // nop
  }

  Result<CUevent> take();
  void give_back(CUevent event);

  /// Ends those that were given back. Events end before the context that they belong to.
  void clear() noexcept;

private:
  Partition& partition_;
  std::mutex mutex_;
  std::vector<CUevent> spare_;
};

} // namespace gpuactors::cuda
