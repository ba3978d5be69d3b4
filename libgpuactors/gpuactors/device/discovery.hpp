// From what a user says ("cuda", "host:4x1GiB@V100") and what the machine has to the devices that a node offers.
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

/// One device specification, as it was written:
///
///   cuda                          all CUDA devices that are visible
///   cuda:GPU-uuid,...             these, in this order; unique beginnings of a UUID will do, MIG UUIDs too
///   cuda*N                        N devices, however many there are; those that are not there fail when used
///   host:COUNT[xMEMORY][@TYPE]    COUNT host devices of MEMORY each, of accelerator type TYPE: host:4x1GiB@V100
struct DeviceOffer {
  enum class Form : std::uint8_t { cuda_all, cuda_uuids, cuda_count, host };

  Form form = Form::host;
  /// For `cuda_uuids`.
  std::vector<std::string> uuids;
  /// For `cuda_count` and `host`.
  int count = 1;
  /// For `host`, of each device; 0: a part of the machine's memory.
  std::uint64_t memory_bytes = 0;
  /// For `host`.
  std::string accelerator_type = "host";

  friend bool operator==(const DeviceOffer&, const DeviceOffer&) = default;
};

/// Reads any number of specifications, separated by white space; none at all is an empty list. Pure.
/// @returns `invalid_argument` naming the specification that is wrong and what would be right.
Result<std::vector<DeviceOffer>> parse_device_specs(std::string_view text);

/// What discovery knows of the node and the machine.
struct DiscoveryOptions {
  /// Goes into the UUIDs of host devices.
  std::string node_name = "local";
  /// Cores that host devices share; 0: as many as this process may use.
  int hardware_threads = 0;
  /// Memory that host devices take their default from; 0: as much as the machine has.
  std::uint64_t machine_memory_bytes = 0;
  /// The value of CUDA_VISIBLE_DEVICES, by which the driver has already limited what it shows; no value: not set.
  /// When it lists indices, these are the devices' indices on the node.
  std::optional<std::string> visible_devices;
  /// Where CUDA devices come from; empty: `load_cuda_module`.
  std::function<Result<CudaModule*>()> cuda;
  /// What the management library knows of the machine's GPUs; empty: it is asked (not when `cuda` is given).
  std::function<Result<std::vector<nvml::Gpu>>()> gpus;
};

/// Options of this process: CUDA_VISIBLE_DEVICES from the environment, the rest left to be found out.
[[nodiscard]] DiscoveryOptions discovery_options(std::string node_name);

/// Makes the devices of `specs`, in their order, each with an index of its own. No specification at all: CUDA if
/// there is any, else host:1.
///
/// A GPU that is divided (MIG) gives way to its slices, all of them, although a process can use one only: those that
/// this one cannot are devices for processes of their own, which find them by UUID.
/// @returns `not_found` for a UUID that no device has, `unsupported` when `cuda` is asked for and there is no CUDA.
Result<std::vector<std::shared_ptr<Device>>> make_devices(const std::vector<DeviceOffer>& specs,
                                                          const DiscoveryOptions& options);

/// Opens devices that another process has described, each with the index and the name that it has there: what a worker
/// serves of its node. A CUDA device is found by its UUID; one without was offered but is not there.
/// @returns `not_found` for a UUID that no device has, `unsupported` when one is asked for and there is no CUDA.
Result<std::vector<std::shared_ptr<Device>>> open_devices(const std::vector<DeviceInfo>& described,
                                                          const DiscoveryOptions& options);

/// How far the devices with these UUIDs are from each other, row by row, 0 on the diagonal, as the management library
/// says; empty when it knows less than two of them. Creates no context.
[[nodiscard]] std::vector<int> distances_between(const std::vector<std::string>& uuids);

/// What leases may hold of a CUDA device with so much memory: the rest is for contexts, code, stacks and what libraries
/// allocate for themselves. Pure.
[[nodiscard]] std::uint64_t leasable_memory(std::uint64_t total_bytes) noexcept;

/// Limits a list of all devices of a machine by a value of CUDA_VISIBLE_DEVICES, as the driver does: indices, UUIDs
/// or beginnings of one, order kept; an entry that names no device hides itself and all that follow; empty: none.
/// For lists that do not come from the driver. Pure.
[[nodiscard]] std::vector<DeviceInfo> limit_to_visible(const std::vector<DeviceInfo>& all,
                                                       const std::optional<std::string>& visible_devices);

/// The accelerator type in users' words: "NVIDIA A100-SXM4-80GB" is "A100-80GB", "Tesla V100-SXM2-16GB" is "V100".
/// Pure.
[[nodiscard]] std::string accelerator_type_of(std::string_view device_name);

} // namespace gpuactors
