// Turns device specifications ("cuda", "host:4x1GiB@V100") and the machine's hardware into the devices of a node.
#pragma once

#include <gpuactors/device/backend.hpp>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuactors {

class CudaModule;
namespace nvml {
struct Gpu;
}

/// One device specification:
///
///   cuda                          all CUDA devices that are visible
///   cuda:GPU-uuid,...             these, in this order; unique prefixes of a UUID work, MIG UUIDs too
///   cuda*N                        N devices, however many there are; missing ones fail when used
///   host:COUNT[xMEMORY][@TYPE]    COUNT host devices of MEMORY each, of accelerator type TYPE: host:4x1GiB@V100
struct DeviceOffer {
  enum class Form : std::uint8_t { cuda_all, cuda_uuids, cuda_count, host };

  Form form = Form::host;
  /// UUIDs or their prefixes, for `cuda_uuids`.
  std::vector<std::string> uuids;
  /// Number of devices, for `cuda_count` and `host`.
  int count = 1;
  /// Memory of each device, for `host`; 0: a part of the machine's memory.
  std::uint64_t memory_bytes = 0;
  /// Accelerator type, for `host`.
  std::string accelerator_type = "host";

  friend bool operator==(const DeviceOffer&, const DeviceOffer&) = default;
};

/// Parses any number of specifications, separated by white space; none gives an empty list. Pure.
/// @returns `invalid_argument`, naming the wrong specification and what would be right.
Result<std::vector<DeviceOffer>> parse_device_specs(std::string_view text);

/// Inputs of discovery about the node and the machine.
struct DiscoveryOptions {
  /// The node's name, for the UUIDs of host devices.
  std::string node_name = "local";
  /// Cores that host devices share; 0: as many as this process may use.
  int hardware_threads = 0;
  /// Memory from which host devices take their default; 0: all memory of the machine.
  std::uint64_t machine_memory_bytes = 0;
  /// The value of CUDA_VISIBLE_DEVICES, which the driver has already applied; no value: not set. If it lists indices,
  /// these are the devices' indices on the node.
  std::optional<std::string> visible_devices;
  /// Returns the CUDA module; empty: `load_cuda_module`.
  std::function<Result<CudaModule*>()> cuda;
  /// Returns the management library's list of GPUs; empty: query the library (not if `cuda` is given).
  std::function<Result<std::vector<nvml::Gpu>>()> gpus;
};

/// Returns the options for this process: CUDA_VISIBLE_DEVICES from the environment, the rest to be discovered.
[[nodiscard]] DiscoveryOptions discovery_options(std::string node_name);

/// Creates the devices of `specs`, in this order, each with its own index. Without specifications: CUDA if there is
/// any, else, without a driver or a device, host:1.
///
/// A divided GPU (MIG) is replaced by all its slices, although a process can use only one: separate processes find the
/// others by UUID.
/// @returns `not_found` for an unknown UUID, `unsupported` if `cuda` is requested but there is no CUDA; what the driver
///          reports if it fails or is not ready, also without specifications.
Result<std::vector<std::shared_ptr<Device>>> make_devices(const std::vector<DeviceOffer>& specs,
                                                          const DiscoveryOptions& options);

/// Opens devices that another process described, with the same indices and names; a worker uses it for its node's
/// devices. Finds a CUDA device by its UUID; a CUDA device without UUID was offered but does not exist.
/// @returns `not_found` for an unknown UUID, `unsupported` if one is requested but there is no CUDA.
Result<std::vector<std::shared_ptr<Device>>> open_devices(const std::vector<DeviceInfo>& described,
                                                          const DiscoveryOptions& options);

/// Returns the distances between the devices with these UUIDs from the management library, row by row, 0 on the
/// diagonal; empty if it knows fewer than two of them. Creates no context.
[[nodiscard]] std::vector<int> distances_between(const std::vector<std::string>& uuids);

/// Returns the memory for leases on a CUDA device with `total_bytes`; the rest is for contexts, code, stacks and
/// libraries' own allocations. Pure.
[[nodiscard]] std::uint64_t leasable_memory(std::uint64_t total_bytes) noexcept;

/// Applies a value of CUDA_VISIBLE_DEVICES to a list of all devices of a machine, like the driver: indices, UUIDs or
/// prefixes of UUIDs, in that order; an entry that names no device hides itself and all following ones; an empty value
/// hides all. For lists that do not come from the driver. Pure.
[[nodiscard]] std::vector<DeviceInfo> limit_to_visible(const std::vector<DeviceInfo>& all,
                                                       const std::optional<std::string>& visible_devices);

/// Returns the accelerator type of a device name: "A100-80GB" for "NVIDIA A100-SXM4-80GB", "V100" for "Tesla
/// V100-SXM2-16GB". Pure.
[[nodiscard]] std::string accelerator_type_of(std::string_view device_name);

} // namespace gpuactors
