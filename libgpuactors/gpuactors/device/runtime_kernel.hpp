// Kernels that a program brings as CUDA C++ source and that are compiled when it runs.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace gpuactors {

/// What is compiled.
struct KernelSource {
  /// CUDA C++. Nothing is included but what it includes itself.
  std::string source;
  /// The kernel: a `__global__` function, or an instance of a template such as "scale<float>".
  std::string name;
  /// Options for the compiler, such as "-DTILE=16" or "--use_fast_math". The architecture is the device's.
  std::vector<std::string> options = {};
};

/// Grid and blocks of one launch.
struct LaunchShape {
  std::array<unsigned, 3> grid = {1, 1, 1};
  std::array<unsigned, 3> block = {1, 1, 1};
  /// Dynamic shared memory of each block.
  unsigned shared_bytes = 0;
};

/// One argument of a launch: an address on the device or a value. It must be of the type that the kernel declares.
class KernelArgument {
public:
  template <class T, class = std::enable_if_t<std::is_trivially_copyable_v<T> && sizeof(T) <= 16>>
  KernelArgument(const T& value) { // NOLINT(google-explicit-constructor): arguments are written as they are
    std::memcpy(bytes_.data(), &value, sizeof(T));
  }

  [[nodiscard]] const void* data() const noexcept {
    return bytes_.data();
  }

private:
  alignas(16) std::array<std::byte, 16> bytes_{};
};

/// A kernel that was compiled for one device and loaded; cheap to copy. Stays loaded until the process ends.
class RuntimeKernel {
public:
  RuntimeKernel() = default;

  RuntimeKernel(void* native, std::string name) : native_(native), name_(std::move(name)) {
    // nop
  }

  /// The backend's handle; null when empty.
  [[nodiscard]] void* native() const noexcept {
    return native_;
  }

  /// As its source calls it.
  [[nodiscard]] const std::string& name() const noexcept {
    return name_;
  }

  explicit operator bool() const noexcept {
    return native_ != nullptr;
  }

private:
  void* native_ = nullptr;
  std::string name_;
};

} // namespace gpuactors
