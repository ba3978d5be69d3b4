// The vocabulary of devices: what one is, what a lease may hold of it, element types, opaque handles.
#pragma once

#include <gpuactors/base/units.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpuactors {

/// Where a device computes.
enum class DeviceKind : std::uint8_t {
  /// Cores of this machine: the same interface, quota and accounting on a CPU, with BLAS from OpenBLAS.
  host,
  /// An NVIDIA GPU.
  cuda,
};

[[nodiscard]] std::string_view to_string(DeviceKind kind) noexcept;

/// What is known of a device before anything runs on it.
struct DeviceInfo {
  DeviceKind kind = DeviceKind::host;
  /// Index on its node; what users see as the device id.
  int index = 0;
  /// Ordinal inside this process (CUDA's), which differs from `index` once some devices are hidden; -1: not visible to
  /// it, as MIG devices are beyond the first.
  int ordinal = 0;
  /// For people, for example "NVIDIA H200".
  std::string name;
  /// For requests, for example "H200", "V100" or "host".
  std::string accelerator_type;
  /// Unique over all machines; empty where there is none.
  std::string uuid;
  /// Bytes that leases may hold in all.
  std::uint64_t memory_bytes = 0;
  /// Compute units that a share is rounded to: SMs of a GPU, cores of a host device.
  int units = 0;
  /// The NUMA node that it is attached to; -1: unknown.
  int numa_node = -1;
};

/// How the compute part of a share is held.
enum class ComputeEnforcement : std::uint8_t {
  /// Not at all: memory is enforced, compute is shared as it comes.
  unenforced,
  /// So many worker threads and no more (host).
  threads,
  /// A set of SMs of its own (CUDA green context).
  sm_groups,
  /// Turns between processes (CUDA, process isolation).
  time_sliced,
  /// A percentage that cannot be passed (CUDA MPS).
  capped,
  /// The whole device: there is no neighbour.
  exclusive,
};

[[nodiscard]] std::string_view to_string(ComputeEnforcement enforcement) noexcept;

/// What a context was really given, after rounding to what the device can hold apart.
struct ContextGrant {
  Share share;
  std::uint64_t memory_bytes = 0;
  /// Compute units (SMs or cores) that its work may run on.
  int units = 0;
  ComputeEnforcement compute = ComputeEnforcement::unenforced;
  /// For `sm_groups`: the groups of the device's one split that it holds, lowest first, and how many there are.
  std::vector<int> groups = {};
  int group_count = 0;
  /// For `sm_groups`: whether another lease runs on one of these groups now. It changes as others come and go.
  bool shared = false;
  /// Why a fraction has no groups of its own, in one line; empty when it has.
  std::string reason = {};
};

/// In one line, for people: "8 of 16 SM groups (64 SMs), shared", "unenforced (why)".
[[nodiscard]] std::string to_string(const ContextGrant& grant);

/// Memory of a device as the device itself reports it now.
struct DeviceMemory {
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
};

/// Element type of a tensor.
enum class DType : std::uint8_t { f32 = 1, f64 = 2, i32 = 3, i64 = 4, u8 = 5 };

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

/// A backend's stream; owned by `Stream`.
struct StreamHandle {
  void* native = nullptr;
};

/// A backend's event; owned by `Event`.
struct EventHandle {
  void* native = nullptr;
};

} // namespace gpuactors
