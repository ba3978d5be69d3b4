// The decision which worker processes end so that the node does not run out of host memory.
#pragma once

#include <gpuactors/agent/core/memory_look.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpuactors {

/// A worker process that may be ended.
struct GuardedWorker {
  std::uint64_t number = 0;
  /// "the worker for device 0", "the process of trainer": the beginning of a sentence.
  std::string name{};
  /// What its holders have asked for together; what they lend each other counts once.
  std::uint64_t asked_bytes = 0;
  /// What they have been granted of the memory of host devices, which is memory of their process, too.
  std::uint64_t device_bytes = 0;
  /// It is of one lease, which is held to what it has asked for if that is more than none.
  bool own = false;
  std::uint64_t private_bytes = 0;
  std::uint64_t shared_bytes = 0;

  [[nodiscard]] std::uint64_t used_bytes() const noexcept {
    return private_bytes + shared_bytes;
  }

  [[nodiscard]] std::uint64_t granted_bytes() const noexcept {
    return asked_bytes + device_bytes;
  }
};

struct MemoryRules {
  std::string node{};
  /// What the node offers; 0: nothing, and its workers are not bounded together.
  std::uint64_t offered_bytes = 0;
  /// The memory of its host devices, which its workers may use besides.
  std::uint64_t device_bytes = 0;
  /// The part of the machine's memory, or of the control group's, above which a worker is ended; 0 and 1: none is.
  double threshold = 0;

  [[nodiscard]] bool has_threshold() const noexcept {
    return threshold > 0 && threshold < 1;
  }

  /// What its workers may use together; 0: as much as there is.
  [[nodiscard]] std::uint64_t bound_bytes() const noexcept {
    return offered_bytes > 0 ? offered_bytes + device_bytes : 0;
  }

  /// Whether there is anything to guard.
  [[nodiscard]] bool any() const noexcept {
    return has_threshold() || offered_bytes > 0;
  }
};

struct MemoryVerdict {
  /// The worker to end.
  std::uint64_t number = 0;
  /// Why, for those whose calls fail: with the numbers, and what to do.
  std::string why{};
};

/// Returns the workers of one lease whose private memory is above what the lease has been granted, if it has asked for
/// host memory. What they share with others does not count, since whose it is cannot be said. Pure.
[[nodiscard]] std::vector<MemoryVerdict> beyond_their_own(const MemoryRules& rules,
                                                          const std::vector<GuardedWorker>& workers);

/// Returns the worker to end if the machine is fuller than the threshold, or if the workers use more together than the
/// node offers; nothing if neither is so, or none of them would help. Pure.
///
/// First the one that uses most beyond what its holders have asked for: who has asked for what he uses is ended last.
/// Among those within it, or equally beyond, the largest, then the youngest, which has done least. For a full machine
/// only workers count that use at least `limits::memory_worth` of it: if others fill it, the end of many small ones
/// would not help.
[[nodiscard]] std::optional<MemoryVerdict> beyond_the_node(const MemoryRules& rules,
                                                           const std::optional<MemoryRoom>& room,
                                                           const std::vector<GuardedWorker>& workers);

/// Whether the machine is fuller than the threshold. Pure.
[[nodiscard]] bool is_full(const MemoryRules& rules, const std::optional<MemoryRoom>& room) noexcept;

/// Returns "the machine has 23 GiB of its 24 GiB of memory in use". Pure.
[[nodiscard]] std::string describe(const MemoryRoom& room);

} // namespace gpuactors
