// LocalCluster: a cluster of real processes on this machine, which a program or a test starts, freezes and kills.
#pragma once

#include <gpuactors/cluster/cluster.hpp>

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gpuactors {

/// One node of a `LocalCluster`. Unlike the nodes of `Cluster::embed` it has processes: its own, and those of its
/// workers.
struct LocalNode {
  /// Unique in the cluster, and not "broker"; empty means the first of "n0", "n1", ... that is free.
  std::string name{};
  /// Device SPEC, for example "cuda", "host:4x1GiB@V100"; empty means CUDA if there is any, else one host device; a
  /// driver that fails or is not ready is an error. Nodes that offer the same GPU do not know of each other.
  std::string devices{};
  /// CPUs that the node offers; below 0 means the processors that this process may use.
  double cpus = -1;
  std::map<std::string, std::string> labels{};
  /// Other countable resources, for example {"neuron_cores", 2}.
  std::map<std::string, double> resources{};
  /// Host memory that the node offers, and the part of the machine's memory above which it ends a worker, as in
  /// `NodeDaemon`.
  std::optional<std::uint64_t> host_memory_bytes{};
  double memory_threshold = limits::memory_threshold;
  /// Environment variables of the node and its workers, on top of those of this program.
  std::map<std::string, std::string> environment{};
  /// The root of the file system in which accelerators other than GPUs are looked for.
  std::string accelerator_root{"/"};
  /// The programs and the plugins of the node's workers, as in `NodeDaemon`; no programs means this one.
  std::vector<std::string> programs{};
  std::vector<std::string> plugins{};
  /// Whether tasks and actors on the node may compile kernels from source.
  bool runtime_source = true;
  /// How long `LocalCluster::stop_node` lets the node's work move or end, as in `NodeDaemon`. The end of the whole
  /// cluster does not wait for work.
  Duration stop_grace{};
};

/// The configuration of a `LocalCluster`.
struct LocalClusterOptions {
  /// The initial nodes; may be empty.
  std::vector<LocalNode> nodes{LocalNode{}};
  /// Use plaintext. By default, all connections have the TLS of certificates made for this cluster alone.
  bool insecure = false;
  /// Whether the broker keeps the desired state in a file, from which it continues after `kill_broker`
  /// (`BrokerDaemon`).
  bool store = false;
  /// The times of all processes and of this program, as in `ConnectOptions`. A test that waits for a frozen process to
  /// be noticed needs short times; but on a busy machine, healthy processes may be silent for longer than that.
  Duration heartbeat = limits::heartbeat;
  Duration link_timeout = limits::link_timeout;
  /// What the broker keeps for `LocalCluster::cluster` after a lost connection, as in `ConnectOptions`.
  Duration reconnect_grace{};
  /// Called with each line that a process writes (those of workers with a mark such as "[device 0]"), on a thread of
  /// the cluster, one line at a time. Must not throw, nor call the cluster's members. By default, lines go to standard
  /// error after the name of their process; null discards them. `LocalCluster::output` keeps the last ones in any case.
  std::function<void(std::string_view process, std::string_view line)> on_line = write_line;

  /// Writes "n0: the line" to standard error.
  static void write_line(std::string_view process, std::string_view line);
};

/// A broker and nodes, each a process of this machine, for programs that need a cluster of processes for a while, and
/// for tests of what happens when one of them dies. All ports are on the loopback interface and are chosen by the
/// system. Certificates, logs and the broker's store lie in a folder of the cluster's own.
///
/// The processes and their workers run this program's own executable and therefore have its tasks and actors. So the
/// program must call `gpuactors::main`, `run_if_worker` or `Cluster::open(argc, argv)` before anything else; a test
/// program calls `run_if_worker` in a main function of its own.
///
/// The destructor ends the nodes and the broker in order, and by force if they take too long. If the program ends
/// without destroying the object, even by SIGKILL, the kernel ends the processes; the folder is then removed when a
/// program of the same user starts its next LocalCluster.
///
/// Movable; members may be called from any thread, and those that start, end or freeze something wait for each other.
/// No member throws. None may be called on a moved-from object.
class LocalCluster {
public:
  /// The name of the broker's process; nodes have names of their own.
  static constexpr std::string_view broker = "broker";

  /// Starts the processes and connects to them; returns when all nodes are registered with the broker.
  /// @returns `invalid_argument` if the program does not begin as it must, or for bad options; `already_exists` for two
  ///          nodes of one name; `unavailable` if a process cannot be started, and the errors of a process that ended
  ///          or was not ready within a minute, with its last line; errors of `Cluster::connect`.
  static Result<LocalCluster> start(LocalClusterOptions options = {});

  LocalCluster(LocalCluster&&) noexcept;
  LocalCluster& operator=(LocalCluster&&) noexcept;
  /// Ends the processes and removes the folder. Blocks meanwhile, usually for less than a second.
  ~LocalCluster();

  // -- use -------------------------------------------------------------------------------------

  /// Returns this program's connection, which ends with this object.
  [[nodiscard]] Cluster& cluster() noexcept;

  /// Returns "127.0.0.1:PORT", for `--broker`. It stays the same for the cluster's life, whatever happens to the
  /// broker.
  [[nodiscard]] std::string broker_address() const;

  /// Returns the folder with the certificates, for `--certs`; empty with plaintext. The folder also has the authority's
  /// key, which issues further certificates (`CertificateFolder::issue`).
  [[nodiscard]] std::string certificates() const;

  /// Returns options with which further clients of this program connect, without the reconnect grace of `cluster`.
  [[nodiscard]] ConnectOptions connect_options() const;

  /// Returns the names of the nodes whose processes run, sorted.
  [[nodiscard]] std::vector<std::string> nodes() const;

  /// Returns the process id of a node or of the broker. Those of workers are in `ActorInfo` and in `pids`.
  /// @returns `not_found` with similar names if there is no such process, and how it ended if it did.
  [[nodiscard]] Result<pid_t> pid(std::string_view name) const;

  /// Returns the process id of a node or of the broker, then those of all processes below it, such as its workers.
  [[nodiscard]] Result<std::vector<pid_t>> pids(std::string_view name) const;

  /// Returns the last lines that the processes wrote, each after the name of its process: for messages of failed tests.
  [[nodiscard]] std::string output() const;

  // -- change ----------------------------------------------------------------------------------
  // Each member below returns `not_found` with similar names if no process of that name runs.

  /// Starts another node, or again one that has ended; returns its name when it is registered.
  /// @returns the errors of `start`; `already_exists` if a node of that name runs, `unavailable` if the broker does not
  ///          run.
  Result<std::string> add_node(LocalNode node);

  /// Ends a node in order, as SIGTERM does, and waits for its end. Resumes a frozen node first.
  /// @returns `deadline_exceeded` if it did not end in time and was killed.
  Result<void> stop_node(std::string_view name);

  /// Kills a node and all processes below it at one moment, like a power cut. Returns when all are gone; the broker has
  /// to notice by itself.
  Result<void> kill_node(std::string_view name);

  /// Kills the broker.
  Result<void> kill_broker();

  /// Starts the broker again, at the same address and with the same store. Nodes and clients return to it by
  /// themselves, within about a second.
  /// @returns `already_exists` if the broker runs, `unavailable` if its port has been taken meanwhile.
  Result<void> start_broker();

  /// Freezes a node with all its workers, or the broker, like a paused virtual machine (SIGSTOP). Returns when none of
  /// their threads runs any more.
  Result<void> freeze(std::string_view name);

  /// Resumes a frozen node or broker (SIGCONT).
  Result<void> resume(std::string_view name);

private:
  class Impl;

  explicit LocalCluster(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

} // namespace gpuactors
