// Copies between a device and memory of the host that ends with a function, however the function ends.
#pragma once

#include <gpuactors/gpuactors.hpp>

#include <utility>

namespace nn {

/// Waits at its end for what a stream has to do: where a later step could not be queued, copies are still under way
/// that read or write memory of the host. Declared behind that memory, it ends before it.
class Copies {
public:
  explicit Copies(gpuactors::Stream& stream) : stream_(&stream) {
    // nop
  }

  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  ~Copies() {
    if (stream_ != nullptr)
      static_cast<void>(stream_->synchronize());
  }

  /// Waits now, once. @returns the first error of the work.
  gpuactors::Result<void> finish() {
    return std::exchange(stream_, nullptr)->synchronize();
  }

private:
  gpuactors::Stream* stream_;
};

} // namespace nn
