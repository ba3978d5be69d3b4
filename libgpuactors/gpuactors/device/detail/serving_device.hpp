// ServingDevice: marks threads that do a device's work, where nothing may wait for that work.
#pragma once

namespace gpuactors::detail {

/// While it lives, its thread runs work or callbacks of a device: the answer to `Backend::is_served_here`. The CUDA
/// module has a copy of this mark of its own.
class ServingDevice {
public:
  ServingDevice() noexcept : before_(here_) {
    here_ = true;
  }

  ServingDevice(const ServingDevice&) = delete;
  ServingDevice& operator=(const ServingDevice&) = delete;

  ~ServingDevice() {
    here_ = before_;
  }

  /// Whether the calling thread does that now.
  [[nodiscard]] static bool is_here() noexcept {
    return here_;
  }

private:
  static inline thread_local bool here_ = false;
  bool before_;
};

} // namespace gpuactors::detail
