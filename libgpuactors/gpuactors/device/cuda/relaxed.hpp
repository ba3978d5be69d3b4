// Relaxed: a thread that disturbs no captures of others.
#pragma once

#include <gpuactors/device/cuda/driver.hpp>

namespace gpuactors::cuda {

/// Lets the calls of this thread, for the life of this object, disturb nobody who captures a stream elsewhere in the
/// process: in CUDA's default mode, a look at an event would fail, and break that capture.
class Relaxed {
public:
  explicit Relaxed(const Driver& driver) : driver_(driver) {
    (void)driver_.thread_exchange_capture_mode(&mode_);
  }

  Relaxed(const Relaxed&) = delete;
  Relaxed& operator=(const Relaxed&) = delete;

  ~Relaxed() {
    (void)driver_.thread_exchange_capture_mode(&mode_);
  }

private:
  const Driver& driver_;
  /// The thread's mode outside.
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

} // namespace gpuactors::cuda
