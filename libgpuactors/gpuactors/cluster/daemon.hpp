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
  /// The program that workers are: one that calls `gpuactors::main`, or opens its cluster by `Cluster::open` first of
  /// all. Empty means this program.
  std::string program{};
  /// Files of shared libraries with tasks and actors, which workers load beside what their program has. They are tried
  /// in a process of its own first; this one never loads them.
  std::vector<std::string> plugins{};
  /// Whether its workers compile kernels from source (`SourceTask`, `Context::compile`).
  bool runtime_source = true;
  /// Whether a GPU that reports a fault of its own (XID and ECC events of the management library) is put out of use,
  /// until the node is started again.
  bool watch_devices = true;
  /// Where CUDA MPS runs on the machine, whether workers of their own (`Isolation::process`) are limited by its
  /// variables to the part of a GPU that their lease has.
  bool mps = true;
};

/// Runs a broker until the process gets SIGTERM or SIGINT. Call it from the main thread, before others are started.
/// @returns `invalid_argument` for an option, `unavailable` when the port is taken, `not_found` without certificates.
///          On loopback, missing certificates are made.
Result<void> run_broker(const BrokerDaemon& broker, const DaemonOptions& options);

/// Runs a node the same way: registers it with the broker, again whenever that was away, and ends with all its workers.
/// @returns `not_found` or `invalid_argument` for a plugin, in one sentence that names it and what is wrong with it.
Result<void> run_node(const NodeDaemon& node, const DaemonOptions& options);

/// Runs a broker and one node of this machine in one process.
Result<void> run_up(const BrokerDaemon& broker, const NodeDaemon& node, const DaemonOptions& options);

/// The main function of a program with tasks or actors of its own, which nodes start as their worker:
///
///   int main(int argc, char** argv) {
///     return gpuactors::main(argc, argv, [](int argc, char** argv) { ...; return 0; });
///   }
///
/// Does a worker's work if a node started it for that, and runs `program` for any other start. Exceptions of `program`
/// pass.
/// @returns the exit code of the process.
int main(int argc, char** argv, const std::function<int(int, char**)>& program);

/// The same for a program that ends with an error: written to standard error, in one line, and exit code 1.
int main(int argc, char** argv, const std::function<Result<void>(int, char**)>& program);

/// What `main` does first, for programs that do it themselves: if the arguments say that a node started this program as
/// its worker, does that work until the node says otherwise and returns the exit code of the process; nothing for any
/// other start. `Cluster::open` does it as well, and serves where it is the first thing that a program does.
std::optional<int> run_if_worker(int argc, const char* const* argv);

} // namespace gpuactors
