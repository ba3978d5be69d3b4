// Device memory that processes of one machine share: made by one, opened by others.
#pragma once

#include <cstddef>

namespace gpuactors {

/// A block of device memory that other processes of this machine can open by its descriptor. The device has it back
/// when nobody has it any more, in whatever process, however their ends came: a maker that is killed takes nothing from
/// its readers. Any thread.
///
/// Work uses it between `Backend::attach` and `Backend::let_go`.
class SharedMemory {
public:
  SharedMemory() = default;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  virtual ~SharedMemory() = default;

  /// Address on the device that made or opened it.
  [[nodiscard]] virtual void* data() const noexcept = 0;

  /// What it takes of the device: its size, rounded up.
  [[nodiscard]] virtual std::size_t footprint() const noexcept = 0;

  /// What others open it by, a file descriptor that belongs to this object; -1 where it was opened.
  [[nodiscard]] virtual int descriptor() const noexcept = 0;
};

} // namespace gpuactors
