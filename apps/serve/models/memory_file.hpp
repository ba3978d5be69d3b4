// A file that exists only in memory, for code that reads files by their path.
#pragma once

#include <gpuactors/base/result.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

namespace serve {

/// Bytes behind a path that this process alone can open; gone with the object. Movable; moved-from is empty. One
/// thread.
class MemoryFile {
public:
  /// A copy of `bytes`. @returns `out_of_memory` when the system has no room, with its words.
  static gpuactors::Result<MemoryFile> of(std::span<const std::uint8_t> bytes);

  /// A copy of the file at `path` as it is now.
  /// @returns `not_found` or `invalid_argument` when it cannot be read, or has more than `most` bytes, of which no more
  ///          are copied; `out_of_memory`.
  static gpuactors::Result<MemoryFile> copy_of(const std::string& path,
                                               std::size_t most = std::numeric_limits<std::size_t>::max());

  MemoryFile(MemoryFile&& other) noexcept;
  MemoryFile& operator=(MemoryFile&& other) noexcept;
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile();

  /// What to open; valid while the object lives.
  [[nodiscard]] std::string path() const;

  [[nodiscard]] std::size_t size() const noexcept {
    return size_;
  }

  /// The bytes, mapped for the life of the object.
  [[nodiscard]] gpuactors::Result<std::span<const std::uint8_t>> bytes();

private:
  MemoryFile() = default;

  static gpuactors::Result<MemoryFile> make();
  gpuactors::Result<void> append(const std::uint8_t* bytes, std::size_t count);
  void close() noexcept;

  int descriptor_ = -1;
  std::size_t size_ = 0;
  void* mapped_ = nullptr;
};

} // namespace serve
