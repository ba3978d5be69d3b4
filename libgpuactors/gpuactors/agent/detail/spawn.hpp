// One child process, from posix_spawn to its reaping.
#pragma once

#include <gpuactors/agent/process.hpp>
#include <gpuactors/base/descriptor.hpp>
#include <gpuactors/base/result.hpp>

namespace gpuactors::detail {

/// A started child process, and the parent's descriptors for it.
struct Spawned {
  pid_t pid = 0;
  /// A pidfd: readable once the child has ended.
  Descriptor handle;
  /// Read ends of the child's outputs; reading does not block.
  Descriptor out;
  Descriptor err;
};

/// Starts a process as `ProcessTable` describes. The calling thread is its parent for `die_with_parent`.
[[nodiscard]] Result<Spawned> spawn(const Command& command);

/// Waits until the child ends, kills what is left in its process group, and reaps the child alone.
[[nodiscard]] ExitStatus reap(pid_t pid);

/// Returns whether nothing is left of the group of a child that was reaped. Reaps those of it that have become children
/// of this process, as where this is the first one of its container.
[[nodiscard]] bool is_group_gone(pid_t pid);

} // namespace gpuactors::detail
