// What the management library knows of this machine's GPUs: names, memory, slices, distances, events.
#pragma once

#include <gpuactors/device/nvml/events.hpp>
#include <gpuactors/device/nvml/library.hpp>

#include <chrono>
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
  /// The one thing that CUDA and this library agree on; indices they count differently.
  std::string uuid;
  std::string name;
  std::uint64_t memory_bytes = 0;
  /// SMs of a MIG device; 0: unknown.
  int sms = 0;
  /// -1: unknown.
  int numa_node = -1;
  /// Whether it is divided: its slices are the devices then, not itself.
  bool mig = false;
  std::vector<Gpu> slices = {};
};

/// How a GPU does at the moment. What the device does not say is empty.
struct GpuStatus {
  std::uint64_t memory_free = 0;
  std::uint64_t memory_total = 0;
  std::optional<int> gpu_percent;
  std::optional<int> memory_percent;
  std::optional<int> milliwatts;
  /// Since the driver was loaded.
  std::optional<std::uint64_t> uncorrected_errors;
};

/// Something that happened to a GPU.
struct GpuEvent {
  /// Its own, then those of its slices; none: the library did not say which GPU it is.
  std::vector<std::string> uuids;
  Severity severity = Severity::noted;
  std::string text;
};

/// The library, loaded. Creates no CUDA context. Any thread, but `wait` one at a time.
class Monitor {
public:
  /// The one of this process; the outcome of the first call stays.
  /// @returns `unsupported` with one line when there is no library.
  static Result<Monitor*> get();

  /// @param root of the tree where `sys` is: "/", unless a test offers another.
  Monitor(const Library& library, std::filesystem::path root) : library_(library), root_(std::move(root)) {
    // nop
  }
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;
  ~Monitor();

  /// All GPUs of the machine in the library's order, hidden ones too. One that is lost is left out.
  Result<std::vector<Gpu>> list();

  /// @returns `not_found` when there is no such GPU or slice.
  Result<GpuStatus> status(const std::string& uuid);

  /// How far two GPUs are from each other, for placement: 1 by NVLink, then more with each step away on the machine, at
  /// most 10. Slices stand where their GPU is; 0 between those of one GPU.
  Result<int> distance(const std::string& one, const std::string& other);

  /// Asks for the events of all GPUs. Once, before `wait` or by it.
  /// @returns `unsupported` when no GPU reports events.
  Result<void> watch();

  /// Waits for the next event of any GPU, at most `timeout`; nothing when none came. That a GPU is lost is an event of
  /// it too.
  /// @returns as `watch`, and what the library reports.
  Result<std::optional<GpuEvent>> wait(std::chrono::milliseconds timeout);

private:
  /// A handle with the UUID that it had, and that of its GPU.
  struct Known {
    DeviceHandle handle;
    std::string uuid;
    DeviceHandle gpu;
  };

  /// All of these: the mutex is held.
  Result<std::vector<Gpu>> read();
  Result<Gpu> describe(DeviceHandle handle, DeviceHandle gpu);
  void describe_slices(DeviceHandle gpu, Gpu& info);
  [[nodiscard]] int numa_node_of(DeviceHandle gpu) const;
  Result<Known> find(const std::string& uuid);
  [[nodiscard]] std::string uuid_of(DeviceHandle handle) const;

  [[nodiscard]] std::optional<GpuEvent> find_lost();

  const Library library_;
  const std::filesystem::path root_;
  std::mutex mutex_;
  /// What was last read. Handles of slices may become stale; UUIDs do not.
  std::vector<Known> known_;
  /// Used by `watch` and `wait` alone, as what follows: the GPUs that events are asked for, with the UUIDs of each, and
  /// those that were reported as lost.
  EventSet events_ = nullptr;
  std::map<DeviceHandle, std::vector<std::string>> watched_;
  std::set<DeviceHandle> lost_;
};

} // namespace gpuactors::nvml
