// The processes of a cluster: the broker, a node, both in one, and the workers that nodes start. For the program
// `gpuactors`, and for programs of users that bring their own tasks and actors.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/result.hpp>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gpuactors {

/// How a process of a cluster talks to the others, and to its operator.
struct DaemonOptions {
  /// The folder with this machine's certificates; empty means the user's own (`CertificateFolder::default_path`).
  std::string certificates{};
  /// Plaintext on all ports of this process.
  bool insecure = false;
  /// How often the process shows that it is alive, and how long it waits for a sign of the others before it takes them
  /// for dead. The same in all processes of a cluster.
  Duration heartbeat = limits::heartbeat;
  Duration link_timeout = limits::link_timeout;
  /// Told in one line what an operator should know; any thread.
  std::function<void(std::string_view)> notice = [](std::string_view) {};
  /// Told once, when the process does its work: where it listens.
  std::function<void(std::string_view)> ready = [](std::string_view) {};
};

struct BrokerDaemon {
  /// "HOST:PORT" that clients and nodes connect to; port 0 lets the system choose.
  std::string listen{"127.0.0.1:7711"};
  /// A file that keeps over restarts what should be there: actors with a name or that are detached, placement groups,
  /// drained nodes. Empty means that a broker which starts again knows only what its nodes and clients tell.
  std::string store{};
};

struct NodeDaemon {
  /// Where the broker listens, "HOST:PORT".
  std::string broker{};
  /// Unique in the cluster; empty means the host's name.
  std::string name{};
  /// Device SPEC; empty means CUDA if there is any, else one host device.
  std::string devices{};
  /// CPUs it offers; below 0 means the hardware threads of this machine.
  double cpus = -1;
  std::map<std::string, std::string> labels{};
  /// Other countable resources, for example {"neuron_cores", 2}.
  std::map<std::string, double> resources{};
  /// Where accelerators other than GPUs are looked for: the root of a file system.
  std::string accelerator_root{"/"};
  /// The address that the node and its workers listen at and clients reach them by; empty means the one that this
  /// machine reaches the broker from.
  std::string host{};
  /// The folder that keeps what its workers write, which is its own; empty means one in the user's own state folder.
  std::string logs{};
  /// The program that workers are: one that calls `gpuactors::main`, or opens its cluster by `Cluster::open`. Empty
  /// means this program.
  std::string program{};
};

/// Runs a broker until the process gets SIGTERM or SIGINT. Call it from the main thread, before others are started.
/// @returns `invalid_argument` for an option, `unavailable` when the port is taken, `not_found` without certificates.
///          On loopback, missing certificates are made.
Result<void> run_broker(const BrokerDaemon& broker, const DaemonOptions& options);

/// Runs a node the same way: registers it with the broker, again whenever that was away, and ends with all its workers.
Result<void> run_node(const NodeDaemon& node, const DaemonOptions& options);

/// Runs a broker and one node of this machine in one process.
Result<void> run_up(const BrokerDaemon& broker, const NodeDaemon& node, const DaemonOptions& options);

/// If the arguments say that a node started this program as its worker, does that work until the node says otherwise
/// and returns the exit code of the process; nothing for any other start. The first thing that a program calls which
/// has tasks or actors of its own, unless it calls `Cluster::open` first of all.
std::optional<int> run_if_worker(int argc, const char* const* argv);

} // namespace gpuactors
