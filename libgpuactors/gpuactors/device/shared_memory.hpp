// Device memory that processes of one machine share: created by one, opened by others.
#pragma once

#include <cstddef>

namespace gpuactors {

/// A block of device memory that other processes of this machine can open by its descriptor. The device gets it back
/// when no process has it any more; readers keep it even if its creator is killed. Any thread.
///
/// Work may use it between `Backend::attach` and `Backend::let_go`.
class SharedMemory {
public:
  SharedMemory() = default;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  virtual ~SharedMemory() = default;

  /// Returns the address on the device that created or opened it.
  [[nodiscard]] virtual void* data() const noexcept = 0;

  /// Returns the actual size of the memory on the device, rounded up.
  [[nodiscard]] virtual std::size_t footprint() const noexcept = 0;

  /// Returns the file descriptor by which other processes open the memory, owned by this object; -1 in a process that
  /// opened it.
  [[nodiscard]] virtual int descriptor() const noexcept = 0;
};

} // namespace gpuactors
