// The processes of a cluster: the broker, a node, both in one, and the workers that nodes start. For the program
// `gpuactors`, and for user programs with their own tasks and actors.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/listening.hpp>
#include <gpuactors/base/result.hpp>
#include <gpuactors/base/service_manager.hpp>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gpuactors {

/// How a process of a cluster communicates with the others and with its operator.
struct DaemonOptions {
  /// The folder of this machine's certificates; empty means the user's own (`CertificateFolder::default_path`).
  std::string certificates{};
  /// Use plaintext on all ports of this process.
  bool insecure = false;
  /// How often the process shows that it is alive, and how long another process may be silent before it counts as dead.
  /// The same in all processes of a cluster, within the limits of `ConnectOptions`.
  Duration heartbeat = limits::heartbeat;
  Duration link_timeout = limits::link_timeout;
  /// Called with a one-line message for the operator; any thread.
  std::function<void(std::string_view)> notice = [](std::string_view) {};
  /// Called once with the address when the process is ready.
  std::function<void(std::string_view)> ready = [](std::string_view) {};
  /// The service manager to notify when the daemon is ready, stands by and ends and, if the manager asks for it, that
  /// the daemon is not stuck: that its timers, its event loop and its main actor make progress. By default, there is
  /// none.
  ServiceManager service{};
};

struct BrokerDaemon {
  /// "HOST:PORT" for connections of clients and nodes; port 0 lets the system choose.
  std::string listen{"127.0.0.1:7711"};
  /// A file that keeps the desired state across restarts: actors that are named, detached or may be restarted,
  /// placement groups, drained nodes, quotas. Empty means that a restarted broker knows only what its nodes and clients
  /// report.
  std::string store{};
  /// "HOST:PORT" of a broker for which this one stands by: it keeps a copy of that broker's state in `store`, and takes
  /// over when that broker no longer answers and more than half of its nodes have asked here. Nodes and clients need
  /// both addresses. Empty: this broker serves, unless its store names another broker of the cluster that serves now,
  /// or for which this one stood by when it ended; then it stands by for that broker.
  std::string standby_of{};
  /// "HOST:PORT" by which nodes and the other broker of a pair reach this one, if that differs from `listen`: behind a
  /// container's bridge or NAT. Empty: `listen`.
  std::string advertise{};
  /// Forget the broker that stood by for this one and will not come back.
  bool forget_standby = false;
  /// How many nodes must have asked this broker before it takes over; 0: more than half of them. With fewer, a broker
  /// that is merely out of this one's sight may continue in parallel, each of the two with the nodes that it reaches.
  std::size_t standby_votes = 0;
  /// Called when the broker begins to stand by, with the address at which it listens.
  std::function<void(std::string_view)> stands_by = [](std::string_view) {};
  /// How long a broker that starts waits for the nodes and clients of its predecessor; those that have not returned by
  /// then count as ended. Choose more where others find the new broker slowly, as in Kubernetes.
  Duration settle = limits::settle;
  /// Quotas by owner, as `Cluster::set_quota` sets them. They replace those in `store`, which keeps them.
  std::map<std::string, double> quotas{};
};

struct NodeDaemon {
  /// The broker's address, "HOST:PORT"; with commas between, also those of brokers that stand by for it.
  std::string broker{};
  /// Unique in the cluster; empty means the host's name.
  std::string name{};
  /// Device SPEC; empty means CUDA if there is any, else one host device; a driver that fails or is not
  /// ready is an error.
  std::string devices{};
  /// CPUs that the node offers; below 0 means the processors that this process may use.
  double cpus = -1;
  std::map<std::string, std::string> labels{};
  /// Other countable resources, for example {"neuron_cores", 2}.
  std::map<std::string, double> resources{};
  /// Host memory that the node offers, in bytes; nothing means that of this machine, or of the control group that
  /// bounds this process. 0 offers none. If its workers together use more, the node ends one of them.
  std::optional<std::uint64_t> host_memory_bytes{};
  /// The part of the memory of the machine, or of the control group that bounds this process, above which the node ends
  /// one of its workers, so that the kernel does not end something else. From 0 to 1; 0 and 1 turn the guard off.
  double memory_threshold = limits::memory_threshold;
  /// The root of the file system in which accelerators other than GPUs are looked for.
  std::string accelerator_root{"/"};
  /// Where the node and its workers listen and clients reach them; without a host, at the address from which this
  /// machine reaches the broker. The node takes one port, and each of its workers two.
  Listening listening{};
  /// The folder that keeps the output of the node's workers, not shared with other nodes; empty means one in the user's
  /// state folder.
  std::string logs{};
  /// The programs that workers run. Each must call `gpuactors::main`, or `Cluster::open` before anything else. A task
  /// or actor runs in the first one that has its type. None means this program.
  ///
  /// Workers of different programs take turns on a GPU: with several programs, fractions of a GPU bound memory, but not
  /// SMs.
  std::vector<std::string> programs{};
  /// Files of shared libraries with tasks and actors, which the workers of each program load beside its types. A
  /// separate process tries them first; this process never loads them.
  std::vector<std::string> plugins{};
  /// Whether the node's workers compile kernels from source (`SourceTask`, `Context::compile`).
  bool runtime_source = true;
  /// Whether a GPU that reports a fault (XID and ECC events of the management library) is put out of use until the node
  /// is restarted.
  bool watch_devices = true;
  /// Whether isolated workers (`Isolation::process`) are limited to their lease's part of a GPU by the variables of
  /// CUDA MPS, if MPS runs on the machine.
  bool mps = true;
  /// How long the node may take to leave the cluster after SIGTERM or SIGINT: actors that may be restarted move to
  /// other nodes as soon as there is room, all other work may run that long and is then asked to stop (destructors of
  /// actors run). The node ends earlier when nothing is left, and at once on another signal. Zero: the node and all its
  /// work end at once.
  Duration stop_grace{};
  /// Called each time a broker has accepted the node, and each time the connection to that broker is lost. Any thread;
  /// they must not block it.
  std::function<void()> registered = [] {};
  std::function<void()> unregistered = [] {};
};

/// Runs a broker until the process gets SIGTERM or SIGINT. Call it from the main thread, before any other is started.
/// On loopback, it creates missing certificates.
/// @returns `invalid_argument` for a bad option, `unavailable` if the port is in use or the machine lacks threads,
///          `not_found` without certificates, `permission_denied` with a client's.
Result<void> run_broker(const BrokerDaemon& broker, const DaemonOptions& options);

/// Runs a node as `run_broker` runs a broker. The node registers with the broker, again after each absence of the
/// broker, and ends its workers when it ends. On SIGUSR1, it reloads its programs and plugins from their files: running
/// work continues in the old processes, which end with that work, and later work runs in new processes.
/// @returns the errors of `run_broker`; also `not_found` or `invalid_argument` for a bad plugin, naming the plugin and
///          the problem.
Result<void> run_node(const NodeDaemon& node, const DaemonOptions& options);

/// Runs a broker and one node of this machine in one process.
Result<void> run_up(const BrokerDaemon& broker, const NodeDaemon& node, const DaemonOptions& options);

/// Loads libraries with tasks and actors into this program, permanently, for the clusters that it embeds. Call it once,
/// before anything else reads the program's types and before other threads are started. A faulty library, or one whose
/// messages clash with loaded ones, may end the process; nodes try theirs in another process first
/// (`NodeDaemon::plugins`).
/// @returns `not_found` or `invalid_argument`, naming the library: it is not a plugin, was built with other versions,
///          lacks a symbol, or registers a name that is taken or nothing at all. The libraries before it stay loaded.
Result<void> load_plugins(const std::vector<std::string>& files);

/// The main function of a program with its own tasks or actors, which nodes can start as their worker:
///
///   int main(int argc, char** argv) {
///     return gpuactors::main(argc, argv, [](int argc, char** argv) { ...; return 0; });
///   }
///
/// Does a worker's work if a node started the program as a worker; otherwise runs `program`. Exceptions of `program`
/// propagate.
/// @returns the exit code of the process.
int main(int argc, char** argv, const std::function<int(int, char**)>& program);

/// Overload for a `program` that may return an error: writes the error to standard error in one line and returns exit
/// code 1.
int main(int argc, char** argv, const std::function<Result<void>(int, char**)>& program);

/// Does the first step of `main`, for programs with their own main function. If a node started this program as its
/// worker, or a `LocalCluster` as one of its processes, works until it is ended and returns the exit code of the
/// process; otherwise returns nothing. `Cluster::open` does the same, which is enough if the program calls it before
/// anything else.
std::optional<int> run_if_worker(int argc, const char* const* argv);

} // namespace gpuactors
