// One child process, from posix_spawn to its reaping.
#pragma once

#include <gpuactors/agent/process.hpp>
#include <gpuactors/base/detail/descriptor.hpp>
#include <gpuactors/base/result.hpp>

namespace gpuactors::detail {

/// A child process that was started, and the ends of it that its parent holds.
struct Spawned {
  pid_t pid = 0;
  /// Readable once it has ended.
  Descriptor handle;
  /// What it writes; reading does not block.
  Descriptor out;
  Descriptor err;
};

/// Starts a process, as `ProcessTable` describes it. Its parent, for `die_with_parent`, is the calling thread.
[[nodiscard]] Result<Spawned> spawn(const Command& command);

/// Kills what is left in the process group of a child that has ended, and reaps the child alone. Waits for its end.
[[nodiscard]] ExitStatus reap(pid_t pid);

} // namespace gpuactors::detail
