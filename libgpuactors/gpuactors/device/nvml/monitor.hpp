// Asks the management library about this machine's GPUs: names, memory, slices, distances, events.
#pragma once

#include <gpuactors/device/nvml/events.hpp>
#include <gpuactors/device/nvml/library.hpp>

#include <chrono>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace gpuactors::nvml {

/// A GPU, or a MIG device of one.
struct Gpu {
  /// The only name that CUDA and this library have in common; they number the GPUs differently.
  std::string uuid;
  std::string name;
  std::uint64_t memory_bytes = 0;
  /// SMs of a MIG device; 0: unknown.
  int sms = 0;
  /// The NUMA node of the GPU; -1: unknown.
  int numa_node = -1;
  /// Whether the GPU is divided (MIG): then its slices are the devices, not the GPU itself.
  bool mig = false;
  std::vector<Gpu> slices = {};
};

/// The current state of a GPU. Values that the device does not report are empty.
struct GpuStatus {
  std::uint64_t memory_free = 0;
  std::uint64_t memory_total = 0;
  std::optional<int> gpu_percent;
  std::optional<int> memory_percent;
  std::optional<int> milliwatts;
  /// Uncorrected ECC errors since the driver was loaded.
  std::optional<std::uint64_t> uncorrected_errors;
};

/// Something that happened to a GPU.
struct GpuEvent {
  /// The UUID of the GPU, then those of its slices; empty if the library did not say which GPU it is.
  std::vector<std::string> uuids;
  Severity severity = Severity::noted;
  std::string text;
};

/// The loaded library. Creates no CUDA context. Any thread, but only one at a time may call `wait`.
class Monitor {
public:
  /// Returns the monitor of this process; all calls return the outcome of the first.
  /// @returns `unsupported` with one line if there is no library.
  static Result<Monitor*> get();

  /// @param root the folder that contains `sys`: "/", except in tests.
  Monitor(const Library& library, std::filesystem::path root) : library_(library), root_(std::move(root)) {
    // nop
  }
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;
  ~Monitor();

  /// Returns all GPUs of the machine in the library's order, hidden ones too, but without lost ones.
  Result<std::vector<Gpu>> list();

  /// @returns `not_found` if there is no such GPU or slice.
  Result<GpuStatus> status(const std::string& uuid);

  /// Returns the distance between two GPUs, for placement: 1 over NVLink, more with each level of the machine's
  /// topology, at most 10. A slice counts as its GPU; slices of one GPU have the distance 0.
  Result<int> distance(const std::string& one, const std::string& other);

  /// Registers for the events of all GPUs, once; `wait` does it if nobody has called this before.
  /// @returns `unsupported` if no GPU reports events.
  Result<void> watch();

  /// Waits for the next event of any GPU, at most for `timeout`; returns nothing if none came. The loss of a GPU is an
  /// event, too.
  /// @returns the errors of `watch` and of the library.
  Result<std::optional<GpuEvent>> wait(std::chrono::milliseconds timeout);

private:
  /// A device's handle, the UUID that it had when it was read, and the handle of its GPU.
  struct Known {
    DeviceHandle handle;
    std::string uuid;
    DeviceHandle gpu;
  };

  /// These functions, up to `uuid_of`, are called with the mutex held.
  Result<std::vector<Gpu>> read();
  Result<Gpu> describe(DeviceHandle handle, DeviceHandle gpu);
  void describe_slices(DeviceHandle gpu, Gpu& info);
  [[nodiscard]] int numa_node_of(DeviceHandle gpu) const;
  Result<Known> find(const std::string& uuid);
  [[nodiscard]] std::string uuid_of(DeviceHandle handle) const;

  void find_lost();
  /// Registers for the events of a GPU. @returns whether it reports any.
  bool add_to(EventSet events, DeviceHandle gpu) const;
  /// Registers anew for the events of those that are not lost: a wait for a lost one ends at once, whatever comes. What
  /// has come of them meanwhile is gone: the library hands it out with the old registration only.
  void leave_lost();

  const Library library_;
  const std::filesystem::path root_;
  std::mutex mutex_;
  /// The devices that `read` found last. Handles of slices may become stale; UUIDs do not.
  std::vector<Known> known_;
  /// Made once, with the mutex held; then only `wait` uses it.
  EventSet events_ = nullptr;
  bool watches_ = false;
  /// Likewise: the GPUs whose events are registered, with their UUIDs and those of their slices.
  std::map<DeviceHandle, std::vector<std::string>> watched_;
  /// Used by `wait` only: the GPUs that were found lost, and what is to be reported of it.
  std::set<DeviceHandle> lost_;
  std::deque<GpuEvent> losses_;
};

} // namespace gpuactors::nvml
