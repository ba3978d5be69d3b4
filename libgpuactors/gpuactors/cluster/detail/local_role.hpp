// What a process of a LocalCluster is told on its command line, does, and tells the program that started it. Internal
// to the cluster layer.
#pragma once

#include <gpuactors/cluster/daemon.hpp>

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuactors::detail {

/// The second argument of such a process, behind "worker"; its role follows.
inline constexpr std::string_view local_role_argument = "--local-cluster";

/// The environment variable that such a process has until it plays its role: where it is set, a program has not begun
/// as it must.
inline constexpr const char* local_role_variable = "GPUACTORS_LOCAL_CLUSTER";

/// What the process is: the broker or a node.
struct LocalRole {
  /// The program that starts it, and with which it ends.
  pid_t parent = 0;
  bool is_broker = false;
  BrokerDaemon broker{};
  NodeDaemon node{};
  /// But for its functions.
  DaemonOptions daemon{};
};

/// The command line of a process with this role.
[[nodiscard]] std::vector<std::string> to_arguments(LocalRole role);

/// Plays the role that `to_arguments` has written until the process is told to end.
/// @param arguments those behind `local_role_argument`.
Result<void> play_local_role(const std::vector<std::string>& arguments);

// -- what the process tells -----------------------------------------------------------------------

/// One step of such a process, a line of its output.
struct LocalReport {
  enum class Step : std::uint8_t {
    /// The program has found its role.
    began,
    /// The broker listens at the address that is the text; the node is registered.
    ready,
    /// It ends with the error.
    failed,
    /// It went past its role: the text says how it was noticed.
    strayed,
  };

  Step step = Step::began;
  std::string text{};
  Errc error = Errc::none;
};

/// Writes a report to standard output.
void tell(const LocalReport& report);

/// Reads such a line; nothing for any other.
[[nodiscard]] std::optional<LocalReport> read_report(std::string_view line);

// -- whether a program begins as it must ----------------------------------------------------------

/// Notes that this process has asked whether it is a worker.
void note_beginning() noexcept;

/// @returns `invalid_argument` if this process could not start others of the same program: it has not asked whether it
///          is a worker, or has gone past its own role.
Result<void> check_beginning();

} // namespace gpuactors::detail
