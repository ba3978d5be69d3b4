// LaunchArgument: what `Stream::launch` takes for one parameter of a kernel.
#pragma once

#include <gpuactors/device/tensor.hpp>
#include <gpuactors/device/types.hpp>

#include <type_traits>

namespace gpuactors {

/// One argument of `Stream::launch`, of the kernel's type `A`: a value or, where that is a pointer to elements, also a
/// tensor, which is checked before the kernel starts. A raw pointer is taken as it is, and may be null.
template <class A>
class LaunchArgument {
  using Element = std::remove_const_t<std::remove_pointer_t<A>>;
  static constexpr bool takes_tensor = std::is_pointer_v<A> && TensorElement<Element>;
  static constexpr bool only_reads = std::is_const_v<std::remove_pointer_t<A>>;

public:
  LaunchArgument(A value) : value_(value) { // NOLINT(*-explicit-*): arguments are written as they are
    // nop
  }

  LaunchArgument(Tensor& tensor) requires takes_tensor // NOLINT(*-explicit-*)
    : value_(tensor.data<Element>()),
      tensor_(&tensor) {
    // nop
  }

  LaunchArgument(const Tensor& tensor) requires(takes_tensor&& only_reads) // NOLINT(*-explicit-*)
    : value_(tensor.data<Element>()), tensor_(&tensor) {
    // nop
  }

  [[nodiscard]] A value() const noexcept {
    return value_;
  }

  /// Returns the tensor if the kernel cannot use it (of another type, empty or reclaimed), otherwise null.
  [[nodiscard]] const Tensor* unusable() const noexcept {
    if constexpr (takes_tensor)
      return value_ == nullptr ? tensor_ : nullptr;
    else
      return nullptr;
  }

  /// Returns the element type that the kernel takes.
  [[nodiscard]] static constexpr DType dtype() noexcept {
    if constexpr (takes_tensor)
      return dtype_of<Element>;
    else
      return DType::u8;
  }

private:
  A value_;
  const Tensor* tensor_ = nullptr;
};

} // namespace gpuactors
