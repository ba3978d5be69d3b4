// A process with all processes below it: found, frozen, resumed and killed together. Internal to the cluster layer.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <vector>

namespace gpuactors::detail {

/// Returns a process and its descendants, each behind its parent. What starts or ends meanwhile may be missing or be
/// there, unless the tree is frozen.
/// @param proc what the system says of its processes.
[[nodiscard]] std::vector<pid_t> process_tree(pid_t root, const std::filesystem::path& proc = "/proc");

/// Stops a process and then what is below it, and waits until no thread of it runs, though not for ever: a thread may
/// be inside of a driver. A stopped process reaps none of its children, so their pids stay theirs.
/// @param root a child of this program that it has not reaped. @returns the tree.
std::vector<pid_t> freeze_tree(pid_t root);

/// Lets all of a frozen tree go on, the root last: it finds its children awake.
void resume_tree(pid_t root);

/// Kills a tree at one moment, and waits until all but the root, which its parent reaps, are gone.
void kill_tree(pid_t root);

} // namespace gpuactors::detail
