// The primary context of one device: retained once, shared by everything of this process on the device.
#pragma once

#include <gpuactors/device/cuda/check.hpp>
#include <gpuactors/device/cuda/relaxed.hpp>

#include <atomic>
#include <memory>

namespace gpuactors::cuda {

/// Keeps a device's primary context alive, and remembers when it is lost. Any thread.
class Primary {
public:
  static Result<std::shared_ptr<Primary>> retain(const Driver& driver, int ordinal);
  Primary(const Primary&) = delete;
  Primary& operator=(const Primary&) = delete;
  ~Primary();

  [[nodiscard]] const Driver& driver() const noexcept {
    return driver_;
  }

  [[nodiscard]] int ordinal() const noexcept {
    return ordinal_;
  }

  [[nodiscard]] CUcontext context() const noexcept {
    return context_;
  }

  [[nodiscard]] CUdevice device() const noexcept {
    return device_;
  }

  /// Like `cuda::check` for a call on this device; a sticky error is remembered.
  Result<void> check(CUresult result, const char* api, Errc otherwise = Errc::internal, std::string detail = {});

  /// `context_lost` once any call has seen a sticky error: later calls need not ask the driver.
  [[nodiscard]] Result<void> alive() const;

  /// Lets `reader` copy from `memory`, which is of a pool here, over a link between the two, if there is one. Without,
  /// copies go through the host, by the driver.
  void show_to(const Primary& reader, const void* memory) const noexcept;

  /// Asks the driver whether the context is alive.
  Result<void> probe();

  [[nodiscard]] bool lost() const noexcept {
    return lost_.load(std::memory_order_acquire);
  }

private:
  Primary(const Driver& driver, int ordinal, CUdevice device, CUcontext context);

  const Driver& driver_;
  int ordinal_;
  CUdevice device_;
  CUcontext context_;
  std::atomic<bool> lost_{false};
};

/// Makes a primary context current for the life of this object and then restores what was. Third parties in the same
/// thread keep their own.
///
/// Scopes of one thread may end in any order, if they were made `always`: of those that are left, the one that began
/// last is current.
class ContextScope {
public:
  /// @param always also when it is current already.
  explicit ContextScope(const Primary& primary, bool always = false);
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  ~ContextScope();

private:
  const Driver& driver_;
  const bool is_loose_;
  bool pushed_ = false;
};

/// Both, for the calls of this library.
class Current {
public:
  explicit Current(const Primary& primary) : relaxed_(primary.driver()), context_(primary) {
    // nop
  }

private:
  Relaxed relaxed_;
  ContextScope context_;
};

} // namespace gpuactors::cuda
