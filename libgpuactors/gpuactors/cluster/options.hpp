// Options of programs: resources of a task or actor, connections, and the nodes of an embedded cluster.
#pragma once

#include <gpuactors/actor/lease_info.hpp>
#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/listening.hpp>
#include <gpuactors/ledger/group.hpp>
#include <gpuactors/ledger/label.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuactors {

class TypeRegistry;

/// What an actor shares its process with.
enum class Isolation : std::uint8_t {
  /// A thread in the worker of its device, shared with others: a fault of one of them ends all.
  thread,
  /// A separate process, which sees exactly its own devices. In an embedded cluster, which has one process, the same as
  /// `thread`.
  process,
};

/// The request of a task or actor. Amounts left out are zero, conditions left out mean any; a type may provide defaults
/// for `gpus` and `memory_bytes`, or `cpus`, when they are left out (`Needs`).
struct Options {
  // -- resources -------------------------------------------------------------------------------

  /// Devices: a share below 1 in steps of 0.0001, or a whole number. Without `memory_bytes`, it includes the same share
  /// of the device's memory.
  double gpus = 0;
  /// Device memory in bytes, on each device. Without `gpus`, it includes the least share that covers it.
  std::uint64_t memory_bytes = 0;
  /// CPUs of the node, in steps of 0.0001. Counted, not enforced.
  double cpus = 0;
  /// The type of the devices, for example "H200"; empty means any.
  std::string accelerator_type{};
  /// Other countable resources of the node, for example {"neuron_cores", 1}.
  std::map<std::string, double> resources{};
  /// Host memory of the node in bytes, counted when the work is placed. In a cluster of processes, it is also enforced
  /// for work with a process of its own (`Isolation::process`, or several devices): a process whose private memory
  /// exceeds it is ended, with `worker_died` and the numbers. The node checks a few times a second, so a process can
  /// exceed it for a moment. Work that shares a process is bounded only by the node's guard
  /// (`NodeDaemon::memory_threshold`).
  std::uint64_t host_memory_bytes = 0;

  // -- where and when --------------------------------------------------------------------------

  /// The name of the required node; empty means any.
  std::string node{};
  /// Makes `node` a preference: that node if the request fits there now, otherwise any.
  bool node_is_soft = false;
  /// Conditions on the node's labels: {{"zone", "a"}} requires exactly that value.
  LabelConditions labels{};
  /// Higher is served first; -100 to 100.
  int priority = 0;
  /// Prefer the device with the most room instead of packing.
  bool spread = false;
  /// Give up with `no_capacity` after this time in the queue. For a task, the time starts anew whenever it is queued
  /// again. For an actor, it applies before the first life only: a restarting actor waits without limit.
  std::optional<Duration> queue_timeout{};
  /// Wait for a node that could serve the request instead of failing with `infeasible`, or `not_found` if no node has
  /// its type.
  bool wait_for_nodes = false;

  /// Draw from a bundle of this placement group (`Cluster::create_group`) and from nothing else.
  GroupId group{};
  /// Which bundle of `group`; -1 means any with room.
  int bundle = -1;

  // -- identity and life -----------------------------------------------------------------------

  /// Actors: a name, unique in its name space, by which the actor can be found. Tasks: a name for the event log. Tasks
  /// share a lease only if their names and resources are equal and, in a cluster of processes, also their task types.
  std::string name{};
  /// Actors: the name space of `name`.
  std::string name_space{};
  /// Tasks: the answer must come within this time. None by default.
  std::optional<Duration> deadline{};
  /// Actors: how often a dead actor restarts, with its saved state; -1 means always. The first restart is immediate,
  /// then pauses double from 0.1 s to 30 s (at most 1 s after a life of a second) until a life lasts for a minute. If
  /// the constructor fails in the first life, the actor ends; in later lives, that counts as a death.
  int max_restarts = 0;
  /// Actors: a life of at least this length resets the count of restarts. None: never.
  std::optional<Duration> restart_window{};
  /// Actors: how long the first start may take, from the order to its node until its constructor is done, before
  /// `spawn` fails with `deadline_exceeded` and the actor is killed. None: no limit.
  std::optional<Duration> spawn_timeout{};
  /// Actors: a method or posted function that runs this long without progress counts as stuck, even while it waits for
  /// others or for the reader of its stream. A stream item, `save` and `Actor::alive` are progress. The worker checks
  /// about once a second, and ends its process with everything in it (`Isolation::process` gives an actor its own):
  /// callers get `worker_died`, and the actor restarts if restarts are left. An embedded cluster cannot end a thread:
  /// it only logs an event. None: never.
  std::optional<Duration> stuck_after{};
  /// Actors: how often a call that the actor's death interrupted is repeated on the restarted actor, -1 meaning as
  /// often as it is restarted; the method may then run more than once.
  int max_task_retries = 0;
  /// Actors: how many calls of one client may be pending; further calls fail with `queue_full`. 0 means the library's
  /// limit.
  std::size_t max_pending_calls = 0;
  /// Actors: the actor outlives the program, task or actor that spawned it, until it is killed. Other actors end with
  /// the program's connection, and with the task or life of an actor that spawned them.
  bool detached = false;
  /// Actors with a name: if an actor of this name and type exists already, the result is that actor.
  bool get_if_exists = false;
  /// The process to run in. With `Isolation::process`, tasks of one shape share a process, one after the other.
  Isolation isolation = Isolation::thread;
  /// Environment variables of the process, for example {"NCCL_DEBUG", "INFO"}, in addition to those of its node;
  /// implies `Isolation::process`. Fails with `invalid_argument` for more than `limits::environment_bytes` in all,
  /// malformed names, and variables that control the library, the loader or the visibility of devices, or name files or
  /// peers (GPUACTORS_*, LD_*, CUDA_VISIBLE_DEVICES, NCCL_DEBUG_FILE, OTEL_*, HOME, ...; all of them:
  /// docs/guide/cluster.md). An embedded cluster has one process and refuses any (`unsupported`).
  std::map<std::string, std::string> environment{};
  /// Tasks: how often a task whose worker died is repeated; -1 means any number of times. The task may then run more
  /// than once. Streamed tasks are not repeated.
  int max_retries = 0;
  /// Tasks: errors of the task itself after which it is repeated, too, within `max_retries`.
  std::vector<Errc> retry_errors{};
  /// Tasks: how many tasks of a shape a process runs before it is replaced; implies `Isolation::process`. 1 gives each
  /// task a fresh process; 0 means no limit. No effect in an embedded cluster, which has one process.
  int max_calls = 0;

  friend bool operator==(const Options&, const Options&) = default;
};

/// How the bundles of a placement group are placed.
struct GroupOptions {
  /// Shown in the state and in reasons; need not be unique.
  std::string name{};
  GroupStrategy strategy = GroupStrategy::pack;
  /// Higher is served first; -100 to 100.
  int priority = 0;
  /// Give up with `no_capacity` after this time in the queue. Once placed, the group waits without limit for bundles
  /// that it loses.
  std::optional<Duration> queue_timeout{};
  /// Wait for nodes that could serve the group instead of failing with `infeasible`.
  bool wait_for_nodes = false;
  /// The group outlives the program, task or actor that created it, until it is removed.
  bool detached = false;
  /// Bundles are not placed again: a bundle ends, and its resources are free, with the last lease in it, or when its
  /// node or device is lost; the group ends with its last bundle. For actors without restarts that can continue with
  /// fewer.
  bool shrinks = false;
};

/// Resources that are reserved together, and where they are. A plain value: destroying it releases nothing.
struct PlacementGroup {
  struct Bundle {
    std::string node;
    std::vector<LeasedDevice> devices;
  };

  GroupId id;
  std::string name;
  /// In the order of the request.
  std::vector<Bundle> bundles;
};

/// Writes a line for the person who runs the program to standard error: "gpuactors: LINE".
void notice_to_standard_error(std::string_view line);

/// One node of an embedded cluster.
struct EmbeddedNode {
  std::string name{};
  /// Device SPEC, for example "cuda", "host:4x1GiB@V100"; empty means CUDA if there is any, else one host device; a
  /// driver that fails or is not ready is an error.
  std::string devices{};
  /// CPUs that the node offers; below 0 means the processors that this process may use.
  double cpus = -1;
  std::map<std::string, std::string> labels{};
  /// Other countable resources, for example {"neuron_cores", 2}.
  std::map<std::string, double> resources{};
  /// Host memory that the node offers, in bytes; nothing means that of this machine, or of the control group that
  /// bounds this process. 0 offers none. Counted, but not enforced, as no part of the program can be ended.
  std::optional<std::uint64_t> host_memory_bytes{};
  /// The root of the file system in which accelerators other than GPUs are looked for, except for those that
  /// `resources` names.
  std::string accelerator_root{"/"};
  /// Replaces each device that was found, for example by one that fails on command in a test; indices must stay
  /// distinct. Null keeps the devices.
  std::function<std::shared_ptr<Device>(std::shared_ptr<Device>)> decorate{};
  /// Whether tasks and actors on the node may compile kernels from source (`SourceTask`, `Context::compile`).
  bool runtime_source = true;
};

/// How a program connects to a cluster.
struct ConnectOptions {
  /// The broker's address, "HOST:PORT"; with commas between, also those of brokers that stand by for it.
  std::string broker{};
  /// The folder with this machine's certificates; empty means the user's own (`CertificateFolder::default_path`).
  std::string certificates{};
  /// Use plaintext, for a cluster that was started with plaintext.
  bool insecure = false;
  /// Where this program listens, and other machines reach it, for the tensors that it puts; without a host, at the
  /// address from which this machine reaches the broker. It takes one port.
  Listening listening{};
  /// How long to wait for the first connection: if left out, twice `link_timeout` and at least 10 s; zero: do not wait.
  std::optional<Duration> timeout{};
  /// How often the process shows that it is alive, and how long another process may be silent before it counts as dead.
  /// The same in all processes of a cluster. From `limits::heartbeat_least` to `heartbeat_most` and from
  /// `limits::link_timeout_least` to `link_timeout_most`, the second at least twice the first.
  Duration heartbeat = limits::heartbeat;
  Duration link_timeout = limits::link_timeout;
  /// How long the broker keeps the program's running tasks, actors and groups after the program's connection is lost
  /// without having been closed, so that a paused machine or a replaced cable ends nothing. At most
  /// `limits::reconnect_grace_most`. Zero: they end at once, so that the resources of a killed program are free at
  /// once. A broker that was restarted meanwhile waits for its own `BrokerDaemon::settle` instead.
  Duration reconnect_grace{};
  /// The types known here, so that calls are checked before they are sent; null means the types that the program
  /// registered.
  std::shared_ptr<const TypeRegistry> registry{};
  /// How long `Cluster::close` and `Cluster::spawn` wait before a notice says what they wait for. The interval doubles
  /// with each notice, up to `limits::notice_longest`; zero: no notices.
  Duration close_notice = limits::close_notice;
  Duration spawn_notice = limits::spawn_notice;
  /// Called with each notice, on any thread. Exceptions are ignored.
  std::function<void(std::string_view)> notice = notice_to_standard_error;
};

/// The configuration of an embedded cluster.
struct EmbedOptions {
  /// Device SPEC of the one node "local", when `nodes` is empty.
  std::string devices{};
  std::vector<EmbeddedNode> nodes{};
  /// Options of the one node "local", when `nodes` is empty.
  std::string accelerator_root{"/"};
  bool runtime_source = true;
  /// A file that records every call to the scheduler as a scenario for `gpuactors plan`, which reproduces the same
  /// grants. Complete once the cluster is closed. Empty: no recording.
  std::string record{};
  /// The types that the cluster can run; null means the types that the program registered.
  std::shared_ptr<const TypeRegistry> registry{};
  /// How long `Cluster::close` and `Cluster::spawn` wait before a notice says what they wait for. The interval doubles
  /// with each notice, up to `limits::notice_longest`; zero: no notices.
  Duration close_notice = limits::close_notice;
  Duration spawn_notice = limits::spawn_notice;
  /// Called with each notice, on any thread. Exceptions are ignored.
  std::function<void(std::string_view)> notice = notice_to_standard_error;
};

} // namespace gpuactors
