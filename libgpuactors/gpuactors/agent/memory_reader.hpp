// MemoryReader: the memory of this machine, of the control groups around this process, and of other processes.
#pragma once

#include <gpuactors/agent/core/memory_look.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>

namespace gpuactors {

/// Reads what Linux tells in /proc and in the control groups (version 2, or 1). Any thread.
///
/// A process's memory comes from counters that are read in no time and without any lock (/proc/PID/status). How its
/// shared memory divides among processes is known only from a walk over its pages (/proc/PID/smaps_rollup), which takes
/// a while for many and waits for the process's lock: it is made only where it decides something.
class MemoryReader {
public:
  /// @param root where proc and sys are; another one in tests.
  explicit MemoryReader(std::filesystem::path root = "/");

  /// Returns the bytes that this process and others like it can have in all: the machine's, or the least that a control
  /// group allows. 0 if the system does not tell.
  [[nodiscard]] std::uint64_t limit_bytes() const;

  /// Returns the fullest of the machine and the control groups that bound this process; nothing if unknown.
  [[nodiscard]] std::optional<MemoryRoom> room() const;

  /// Looks at the room and at processes.
  [[nodiscard]] MemoryLook look(const MemoryQuery& query) const;

private:
  template <class Visit>
  void each_room(Visit&& visit) const;
  [[nodiscard]] std::optional<WorkerMemory> memory_of(const MemoryQuery::Process& process) const;
  [[nodiscard]] std::optional<std::uint64_t> part_of_shared(std::uint32_t pid) const;

  std::filesystem::path root_;
};

} // namespace gpuactors
