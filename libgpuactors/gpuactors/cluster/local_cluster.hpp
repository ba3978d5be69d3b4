// LocalCluster: a cluster of real processes on this machine, which a program or a test starts, and hurts.
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
  /// Host memory that it offers, and the part of the machine's above which it ends a worker, as `NodeDaemon` has them.
  std::optional<std::uint64_t> host_memory_bytes{};
  double memory_threshold = limits::memory_threshold;
  /// Environment variables of the node and its workers, on top of those of this program.
  std::map<std::string, std::string> environment{};
  /// The root of the file system in which accelerators other than GPUs are looked for.
  std::string accelerator_root{"/"};
  /// The programs and the plugins of its workers, as `NodeDaemon` has them; none means this program.
  std::vector<std::string> programs{};
  std::vector<std::string> plugins{};
  /// Whether tasks and actors on the node may compile kernels from source.
  bool runtime_source = true;
  /// How long `LocalCluster::stop_node` lets the node's work move or end, as `NodeDaemon` has it. The end of the whole
  /// cluster waits for nobody's work.
  Duration stop_grace{};
};

/// The configuration of a `LocalCluster`.
struct LocalClusterOptions {
  /// The nodes that are there from the start; there may be none.
  std::vector<LocalNode> nodes{LocalNode{}};
  /// Use plaintext. By default, all connections have the TLS of certificates made for this cluster alone.
  bool insecure = false;
  /// Whether the broker keeps the desired state in a file, from which it continues after `kill_broker`
  /// (`BrokerDaemon`).
  bool store = false;
  /// The times of all processes and of this program, as in `ConnectOptions`. A test that waits until a frozen process
  /// is noticed takes short ones; a busy machine keeps processes silent for longer than that now and then.
  Duration heartbeat = limits::heartbeat;
  Duration link_timeout = limits::link_timeout;
  /// What the broker keeps for `LocalCluster::cluster` after a lost connection, as in `ConnectOptions`.
  Duration reconnect_grace{};
  /// Gets each line that a process writes, the lines of workers with a mark such as "[device 0]", on a thread of the
  /// cluster, one at a time. It must not throw, nor call the cluster's members. By default, the lines go to standard
  /// error, after the name of their process; null means nowhere. `LocalCluster::output` has the last ones in any case.
  std::function<void(std::string_view process, std::string_view line)> on_line = write_line;

  /// Writes "n0: the line" to standard error.
  static void write_line(std::string_view process, std::string_view line);
};

/// A broker and nodes, each a process of this machine, for programs that need a cluster of processes for a while, and
/// for tests of what happens when one of them dies. All ports are on the loopback interface and are chosen by the
/// system. Certificates, logs and the broker's store lie in a folder of the cluster's own.
///
/// The processes and their workers are this very program, started again, and so know its tasks and actors. It must
/// therefore call `gpuactors::main`, `run_if_worker` or `Cluster::open(argc, argv)` before anything else; a program of
/// tests calls `run_if_worker` in a main function of its own.
///
/// All of it ends with the object: nodes and broker in order, what does not end within a while by force. If the program
/// ends without destroying the object, also by SIGKILL, the kernel ends the processes; the folder is then removed when
/// a program of the same user starts its next LocalCluster.
///
/// Movable; members may be called from any thread, and those that start, end or freeze something wait for each other.
/// No member throws. None may be called on a moved-from object.
class LocalCluster {
public:
  /// The name of the broker's process, beside those of the nodes.
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

  /// This program's connection, which ends with this object.
  [[nodiscard]] Cluster& cluster() noexcept;

  /// "127.0.0.1:PORT", for `--broker`. The same for the cluster's life, whatever happens to the broker.
  [[nodiscard]] std::string broker_address() const;

  /// The folder with the certificates, for `--certs`; empty with plaintext. It has the authority's key too, which
  /// issues others (`CertificateFolder::issue`).
  [[nodiscard]] std::string certificates() const;

  /// What further clients of this program connect with; without the grace of `cluster`.
  [[nodiscard]] ConnectOptions connect_options() const;

  /// The names of the nodes whose processes run, sorted.
  [[nodiscard]] std::vector<std::string> nodes() const;

  /// The process of a node or of the broker. The pids of workers are in `ActorInfo` and in `pids`.
  /// @returns `not_found` with similar names if there is none, and how it ended if it did.
  [[nodiscard]] Result<pid_t> pid(std::string_view name) const;

  /// The same with all processes below it, its workers first of all; the process itself is the first.
  [[nodiscard]] Result<std::vector<pid_t>> pids(std::string_view name) const;

  /// The last lines that the processes wrote, each after the name of its process: for messages of failed tests.
  [[nodiscard]] std::string output() const;

  // -- change ----------------------------------------------------------------------------------
  // Each member below returns `not_found` with similar names if no process of that name runs.

  /// Starts another node, or one of a name that has ended; returns its name when it is registered.
  /// @returns the errors of `start`; `already_exists` if a node of the name runs, `unavailable` if the broker does not.
  Result<std::string> add_node(LocalNode node);

  /// Ends a node in order, as SIGTERM does, and waits for its end. A frozen one is resumed first.
  /// @returns `deadline_exceeded` if it did not end in time and was killed.
  Result<void> stop_node(std::string_view name);

  /// Kills a node with everything below it, at one moment, as a power cut does. Returns when all of it is gone; the
  /// broker notices it by itself.
  Result<void> kill_node(std::string_view name);

  /// Kills the broker.
  Result<void> kill_broker();

  /// Starts the broker again, at the same address and with the same store. Nodes and clients return to it by
  /// themselves, within about a second.
  /// @returns `already_exists` if it runs, `unavailable` if its port has been taken meanwhile.
  Result<void> start_broker();

  /// Has a node with all its workers, or the broker, stand still, as a paused virtual machine does (SIGSTOP). Returns
  /// when none of its threads runs any more.
  Result<void> freeze(std::string_view name);

  /// Lets it go on (SIGCONT).
  Result<void> resume(std::string_view name);

private:
  class Impl;

  explicit LocalCluster(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

} // namespace gpuactors
