// NativeStream: a stream in the hands of another library.
#pragma once

#include <memory>
#include <utility>

namespace gpuactors {

/// A stream for libraries of its device (cuDNN, NCCL), see `Stream::native`. Movable. Keep it on the thread that
/// requested it, and destroy it before its stream.
class NativeStream {
public:
  NativeStream(NativeStream&&) noexcept = default;
  NativeStream& operator=(NativeStream&&) noexcept = default;

  /// Returns the native handle: on CUDA a `CUstream`, which is also a `cudaStream_t`.
  [[nodiscard]] void* handle() const noexcept {
    return handle_;
  }

private:
  friend class Stream;
  NativeStream(void* handle, std::shared_ptr<void> current) : handle_(handle), current_(std::move(current)) {
    // nop
  }

  void* handle_;
  std::shared_ptr<void> current_;
};

} // namespace gpuactors
