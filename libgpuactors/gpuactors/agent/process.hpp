// A child process: its command, identity and exit status.
#pragma once

#include <gpuactors/base/ids.hpp>

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace gpuactors {

/// Identifies a child process in its table; ids are never reused.
using ProcessId = Id<struct ProcessTag>;

/// The program to run, with its arguments and environment.
struct Command {
  /// The program's file; PATH is not searched.
  std::filesystem::path path;
  /// The arguments after the program's name.
  std::vector<std::string> arguments;
  /// Variables to set, on top of this process's environment.
  std::map<std::string, std::string> set;
  /// Variables of this process's environment that the child does not inherit; `set` takes precedence.
  std::vector<std::string> removed;
  /// The caller's name for the process; passed back in all callbacks about it.
  std::string tag;
};

/// A started child process.
struct Process {
  ProcessId id;
  pid_t pid = 0;
  /// `Command::tag`.
  std::string tag;
};

/// How a process ended.
struct ExitStatus {
  enum class Kind : std::uint8_t {
    /// The process exited with the code `number`.
    exited,
    /// The signal `number` ended the process.
    signalled,
    /// Something else in this program took the status: SIGCHLD is ignored, or other code waits for any child.
    unknown,
  };

  Kind kind = Kind::unknown;
  int number = 0;
  /// Whether a core dump was written.
  bool core = false;

  /// Whether the process exited with code 0.
  [[nodiscard]] bool succeeded() const noexcept {
    return kind == Kind::exited && number == 0;
  }

  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};

/// Renders a predicate for the process's name: "ended with exit code 3", "was ended by signal 9 (SIGKILL)".
[[nodiscard]] std::string to_string(const ExitStatus& status);

/// Has the kernel kill the calling process when the thread that started it ends, which also happens when the parent
/// process is killed. A child of a `ProcessTable` calls this first, with its parent's pid; the call kills the child if
/// the parent is gone already, or is another process: it says so then. The setting survives exec, except of set-user-ID
/// programs, and is not inherited by the child's own children.
void die_with_parent(pid_t parent) noexcept;

/// The same for the calling process and what it has started in its group. It takes the last real-time signal, and a
/// thread that sleeps; without these, it is `die_with_parent`.
void group_dies_with_parent(pid_t parent) noexcept;

/// Kills the calling process, with its group if it is the leader of that. May be called by handlers of signals.
void end_own_group() noexcept;

/// Has the kernel end the calling process before others that have not called this, such as its parent, when the machine
/// or a control group is out of memory. Inherited by its children. No effect where the system does not allow it.
void die_first_without_memory() noexcept;

} // namespace gpuactors
