// What a node sees of its host memory at one moment. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace gpuactors {

/// The memory of the machine, or of a control group that bounds the node.
struct MemoryRoom {
  /// What is in use and cannot be had back without ending something: files that the kernel has cached are not.
  std::uint64_t used_bytes = 0;
  std::uint64_t limit_bytes = 0;
  /// Whether it is a control group's.
  bool of_group = false;

  friend bool operator==(const MemoryRoom&, const MemoryRoom&) = default;
};

/// The host memory of a worker process, without the files that it maps: the kernel can have those back.
struct WorkerMemory {
  /// The worker's number.
  std::uint64_t worker = 0;
  /// What it has for itself, also where that was swapped out.
  std::uint64_t private_bytes = 0;
  /// Memory that several processes may have mapped, such as shared tensors.
  std::uint64_t shared_bytes = 0;

  friend bool operator==(const WorkerMemory&, const WorkerMemory&) = default;
};

/// What to look at.
struct MemoryQuery {
  struct Process {
    std::uint64_t worker = 0;
    std::uint32_t pid = 0;
  };

  std::vector<Process> processes;
  /// The part of the room, and the bytes of all processes together, above which it matters how memory is shared:
  /// `shared_bytes` is then a process's part of it, divided evenly among those that have it mapped. Otherwise it is all
  /// of it, which is cheaper to know.
  double threshold = 0;
  std::uint64_t bound_bytes = 0;
};

struct MemoryLook {
  /// The fullest one; nothing if the system does not tell.
  std::optional<MemoryRoom> room;
  /// Those that were there.
  std::vector<WorkerMemory> workers;
};

} // namespace gpuactors
