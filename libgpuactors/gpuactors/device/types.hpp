// Basic types for devices: description, grants, element types, opaque handles.
#pragma once

#include <gpuactors/base/units.hpp>
#include <gpuactors/device/float16.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace gpuactors {

/// The kind of a device.
enum class DeviceKind : std::uint8_t {
  /// CPU cores of this machine, with the same interface, quota and accounting, and BLAS from OpenBLAS.
  host,
  /// An NVIDIA GPU.
  cuda,
};

[[nodiscard]] std::string_view to_string(DeviceKind kind) noexcept;

/// What is known about a device before anything runs on it.
struct DeviceInfo {
  DeviceKind kind = DeviceKind::host;
  /// Index on its node, which users see as the device id.
  int index = 0;
  /// CUDA's ordinal inside this process, which differs from `index` if some devices are hidden; -1: not visible to this
  /// process, like MIG devices after the first.
  int ordinal = 0;
  /// The name for people, for example "NVIDIA H200".
  std::string name;
  /// The type for requests, for example "H200", "V100" or "host".
  std::string accelerator_type;
  /// Unique across all machines; empty if the device has none.
  std::string uuid;
  /// Bytes for leases, in all.
  std::uint64_t memory_bytes = 0;
  /// Compute units that a share is rounded to: SMs of a GPU, cores of a host device.
  int units = 0;
  /// The NUMA node of the device; -1: unknown.
  int numa_node = -1;

  friend bool operator==(const DeviceInfo&, const DeviceInfo&) = default;
};

/// How the compute part of a share is enforced.
enum class ComputeEnforcement : std::uint8_t {
  /// Compute is not enforced, only memory is.
  unenforced,
  /// A fixed number of worker threads (host).
  threads,
  /// A separate set of SMs (CUDA green context).
  sm_groups,
  /// Processes take turns (CUDA, process isolation).
  time_sliced,
  /// A percentage as an upper limit (CUDA MPS).
  capped,
  /// The whole device, without neighbours.
  exclusive,
};

[[nodiscard]] std::string_view to_string(ComputeEnforcement enforcement) noexcept;

/// The actual grant of a context, after rounding to what the device can partition.
struct ContextGrant {
  Share share;
  std::uint64_t memory_bytes = 0;
  /// The number of compute units (SMs or cores) for its work.
  int units = 0;
  ComputeEnforcement compute = ComputeEnforcement::unenforced;
  /// For `sm_groups`: its groups of the device's one split, lowest first, and the number of groups of the device.
  std::vector<int> groups = {};
  int group_count = 0;
  /// For `sm_groups`: whether another lease uses one of these groups now. Changes as other leases start and end.
  bool shared = false;
  /// Why a fraction has no groups of its own, in one line; empty if it has.
  std::string reason = {};
};

/// Renders one line for people: "8 of 16 SM groups (64 SMs), shared", "unenforced (why)".
[[nodiscard]] std::string to_string(const ContextGrant& grant);

/// Current memory of a device, as reported by the device itself.
struct DeviceMemory {
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
};

/// Element type of a tensor. The numbers are part of the wire format: append only.
enum class DType : std::uint8_t { f32 = 1, f64 = 2, i32 = 3, i64 = 4, u8 = 5, f16 = 6, bf16 = 7 };

[[nodiscard]] std::size_t size_of(DType dtype) noexcept;
[[nodiscard]] std::string_view to_string(DType dtype) noexcept;

/// The `DType` of a C++ element type.
template <class T>
inline constexpr DType dtype_of = [] {
  static_assert(sizeof(T) == 0, "no tensor element type");
  return DType::u8;
}();
template <>
inline constexpr DType dtype_of<float> = DType::f32;
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<std::int64_t> = DType::i64;
template <>
inline constexpr DType dtype_of<std::uint8_t> = DType::u8;
template <>
inline constexpr DType dtype_of<Float16> = DType::f16;
template <>
inline constexpr DType dtype_of<BFloat16> = DType::bf16;

namespace detail {

template <class T, class... Others>
concept OneOf = (std::same_as<T, Others> || ...);

} // namespace detail

/// The element types of tensors.
template <class T>
concept TensorElement = detail::OneOf<T, float, double, Float16, BFloat16, std::int32_t, std::int64_t, std::uint8_t>;

/// The element type of a contiguous range `R`.
template <class R>
using ElementOf = std::remove_cv_t<std::remove_pointer_t<decltype(std::ranges::data(std::declval<R&>()))>>;

/// A contiguous range of elements of a tensor's type: a vector, a span, a repeated field of a message.
template <class R>
concept TensorValues = std::ranges::sized_range<R> && TensorElement<ElementOf<R>>;

/// A contiguous range of bytes: a string, a field of a message, a span of `std::byte`.
template <class R>
concept TensorBytes = std::ranges::sized_range<R> && sizeof(ElementOf<R>) == 1;

/// A backend's stream.
struct StreamHandle {
  void* native = nullptr;
};

/// A backend's event.
struct EventHandle {
  void* native = nullptr;
};

} // namespace gpuactors
