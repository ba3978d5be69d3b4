// The functions of NVIDIA's management library (NVML) that gpuactors uses, found in libnvidia-ml.so.1 at run time. They
// need no NVML header and no CUDA context, so an agent may call them.
#pragma once

#include <gpuactors/base/result.hpp>

#include <cstdint>

namespace gpuactors::nvml {

/// A GPU, or a MIG device; belongs to the library.
using DeviceHandle = struct DeviceTag*;
/// The library's handle for waiting for events.
using EventSet = struct EventSetTag*;

/// The following structures have the library's layouts.
struct Memory {
  std::uint64_t total;
  std::uint64_t free;
  std::uint64_t used;
};
static_assert(sizeof(Memory) == 24);

struct Utilization {
  std::uint32_t gpu;
  std::uint32_t memory;
};
static_assert(sizeof(Utilization) == 8);

struct PciInfo {
  char short_bus_id[16];
  std::uint32_t domain;
  std::uint32_t bus;
  std::uint32_t device;
  std::uint32_t device_id;
  std::uint32_t subsystem_id;
  char bus_id[32];
};
static_assert(sizeof(PciInfo) == 68);

struct Attributes {
  std::uint32_t multiprocessors;
  std::uint32_t copy_engines;
  std::uint32_t decoders;
  std::uint32_t encoders;
  std::uint32_t jpeg_engines;
  std::uint32_t ofa_engines;
  std::uint32_t gpu_slices;
  std::uint32_t compute_slices;
  std::uint64_t memory_mib;
};
static_assert(sizeof(Attributes) == 40);

struct EventData {
  DeviceHandle device;
  std::uint64_t type;
  std::uint64_t data;
  std::uint32_t gpu_instance;
  std::uint32_t compute_instance;
};
static_assert(sizeof(EventData) == 32);

/// Results of the library's functions.
enum Return : int {
  success = 0,
  not_supported = 3,
  no_permission = 4,
  not_found = 6,
  timed_out = 10,
  gpu_is_lost = 15
};

/// Entries: the name here, NVML's name, the parameters. All functions of the first list must exist; each of the second
/// is used if it exists.
#define GPUACTORS_NVML_REQUIRED(X)                                                                                     \
  X(init, nvmlInit_v2, ())                                                                                             \
  X(get_count, nvmlDeviceGetCount_v2, (unsigned*))                                                                     \
  X(get_handle, nvmlDeviceGetHandleByIndex_v2, (unsigned, DeviceHandle*))                                              \
  X(get_name, nvmlDeviceGetName, (DeviceHandle, char*, unsigned))                                                      \
  X(get_uuid, nvmlDeviceGetUUID, (DeviceHandle, char*, unsigned))                                                      \
  X(get_memory, nvmlDeviceGetMemoryInfo, (DeviceHandle, Memory*))
#define GPUACTORS_NVML_OPTIONAL(X)                                                                                     \
  X(get_utilization, nvmlDeviceGetUtilizationRates, (DeviceHandle, Utilization*))                                      \
  X(get_pci, nvmlDeviceGetPciInfo_v3, (DeviceHandle, PciInfo*))                                                        \
  X(get_power, nvmlDeviceGetPowerUsage, (DeviceHandle, unsigned*))                                                     \
  X(get_ecc_errors, nvmlDeviceGetTotalEccErrors, (DeviceHandle, int, int, unsigned long long*))                        \
  X(get_attributes, nvmlDeviceGetAttributes_v2, (DeviceHandle, Attributes*))                                           \
  X(get_mig_mode, nvmlDeviceGetMigMode, (DeviceHandle, unsigned*, unsigned*))                                          \
  X(get_mig_count, nvmlDeviceGetMaxMigDeviceCount, (DeviceHandle, unsigned*))                                          \
  X(get_mig_handle, nvmlDeviceGetMigDeviceHandleByIndex, (DeviceHandle, unsigned, DeviceHandle*))                      \
  X(get_common_ancestor, nvmlDeviceGetTopologyCommonAncestor, (DeviceHandle, DeviceHandle, int*))                      \
  X(get_p2p_status, nvmlDeviceGetP2PStatus, (DeviceHandle, DeviceHandle, int, int*))                                   \
  X(event_set_create, nvmlEventSetCreate, (EventSet*))                                                                 \
  X(event_set_free, nvmlEventSetFree, (EventSet))                                                                      \
  X(event_set_wait, nvmlEventSetWait_v2, (EventSet, EventData*, unsigned))                                             \
  X(get_event_types, nvmlDeviceGetSupportedEventTypes, (DeviceHandle, unsigned long long*))                            \
  X(register_events, nvmlDeviceRegisterEvents, (DeviceHandle, unsigned long long, EventSet))

/// The table of functions. Filled once, then only read: any thread.
struct Library {
// The argument `parameters` has parentheses of its own.
#define GPUACTORS_NVML_MEMBER(name, function, parameters)                                                              \
  int(*name) parameters = nullptr; // NOLINT(bugprone-macro-parentheses)
  GPUACTORS_NVML_REQUIRED(GPUACTORS_NVML_MEMBER)
  GPUACTORS_NVML_OPTIONAL(GPUACTORS_NVML_MEMBER)
#undef GPUACTORS_NVML_MEMBER
  /// Returns the text for an error code; may be null.
  const char* (*error_string)(int) = nullptr;
};

/// Loads and initialises the library, which stays loaded until the process ends.
/// @returns `unsupported` with one line if there is no library or it cannot be initialised.
Result<Library> load_library();

/// Converts a result of the library: success, or an error with a text such as "nvmlDeviceGetName: GPU is lost (15)".
Result<void> check(const Library& library, int result, const char* function);

} // namespace gpuactors::nvml
