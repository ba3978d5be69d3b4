// Kernels from CUDA C++ source, compiled at run time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace gpuactors {

/// The source of a kernel.
struct KernelSource {
  /// CUDA C++. Only the headers that the source itself includes are included.
  std::string source;
  /// The kernel: a `__global__` function, or an instance of a template such as "scale<float>".
  std::string name;
  /// Compiler options such as "-DTILE=16" or "--use_fast_math". The architecture is always the device's.
  std::vector<std::string> options = {};
};

/// Grid and blocks of one launch.
struct LaunchShape {
  std::array<unsigned, 3> grid = {1, 1, 1};
  std::array<unsigned, 3> block = {1, 1, 1};
  /// Bytes of dynamic shared memory per block.
  unsigned shared_bytes = 0;
};

class Tensor;

/// One argument of a launch: a tensor, a device address or a value, of the type that the kernel declares.
class KernelArgument {
public:
  template <class T, class = std::enable_if_t<std::is_trivially_copyable_v<T> && sizeof(T) <= 16>>
  KernelArgument(const T& value) { // NOLINT(google-explicit-constructor): arguments are written as they are
    std::memcpy(bytes_.data(), &value, sizeof(T));
    size_ = sizeof(T);
  }

  /// The tensor's memory.
  KernelArgument(const Tensor& tensor); // NOLINT(google-explicit-constructor)

  [[nodiscard]] const void* data() const noexcept {
    return bytes_.data();
  }

  /// Returns whether this is a tensor that has no memory: an empty or reclaimed one.
  [[nodiscard]] bool is_missing() const noexcept {
    return is_missing_;
  }

  [[nodiscard]] std::size_t size() const noexcept {
    return size_;
  }

private:
  alignas(16) std::array<std::byte, 16> bytes_{};
  std::size_t size_ = 0;
  bool is_missing_ = false;
};

/// A kernel compiled and loaded for one device; cheap to copy. It stays loaded while a copy lives or its work runs.
class RuntimeKernel {
public:
  /// The backend's data of the kernel.
  struct Loaded {
    /// The backend's handle.
    void* native = nullptr;
    /// The name in the source.
    std::string name;
    /// Bytes of each declared argument; nothing if the driver does not report them.
    std::optional<std::vector<std::size_t>> arguments;
    /// Distinguishes this kernel from an earlier one with the same handle; 0 if handles are not reused.
    std::uint64_t number = 0;
  };

  RuntimeKernel() = default;

  explicit RuntimeKernel(std::shared_ptr<const Loaded> loaded) : loaded_(std::move(loaded)) {
    // nop
  }

  explicit operator bool() const noexcept {
    return loaded_ != nullptr;
  }

  /// Returns the backend's data; only for a kernel that is not empty.
  [[nodiscard]] const Loaded& loaded() const noexcept {
    return *loaded_;
  }

  /// Returns the kernel's name; empty for an empty kernel.
  [[nodiscard]] std::string name() const {
    return loaded_ != nullptr ? loaded_->name : std::string{};
  }

private:
  std::shared_ptr<const Loaded> loaded_;
};

} // namespace gpuactors
