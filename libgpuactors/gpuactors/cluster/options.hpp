// What programs may ask for: resources of a task or actor, and the shape of an embedded cluster.
#pragma once

#include <gpuactors/actor/lease_info.hpp>
#include <gpuactors/actor/registry.hpp>
#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/ledger/group.hpp>
#include <gpuactors/ledger/label.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gpuactors {

/// What an actor shares its process with.
enum class Isolation : std::uint8_t {
  /// A thread in the worker of its device: a fault of one ends all that run there.
  thread,
  /// A process of its own, which sees exactly its devices. In an embedded cluster, which has one process, the same as
  /// `thread`.
  process,
};

/// What a task or actor asks for. Everything left out is zero, or any; a type may say what it needs when `gpus` and
/// `memory_bytes`, or `cpus`, are left out (`Needs`).
struct Options {
  // -- resources -------------------------------------------------------------------------------

  /// Devices: a share below 1 in steps of 0.0001, or a whole number. Alone, it brings its share of the device's memory.
  double gpus = 0;
  /// Device memory in bytes, on each device. Alone, it brings the least share that covers it.
  std::uint64_t memory_bytes = 0;
  /// CPUs of the node, in steps of 0.0001. Counted, not enforced.
  double cpus = 0;
  /// For example "H200"; empty means any.
  std::string accelerator_type{};
  /// Other countable resources of the node, for example {"neuron_cores", 1}.
  std::map<std::string, double> resources{};

  // -- where and when --------------------------------------------------------------------------

  /// Name of the node it must run on; empty means any.
  std::string node{};
  /// `node` is a wish: that node if it fits there now, otherwise any.
  bool node_is_soft = false;
  /// What the labels of the node must be: {{"zone", "a"}} asks for exactly that value.
  LabelConditions labels{};
  /// Higher is served first.
  int priority = 0;
  /// Prefer the device with the most room instead of packing.
  bool spread = false;
  /// Give up with `no_capacity` after this time in the queue.
  std::optional<Duration> queue_timeout{};
  /// Wait for a node that could serve it instead of failing with `infeasible`.
  bool wait_for_nodes = false;

  /// Draw from a bundle of this placement group (`Cluster::create_group`) and from nothing else.
  GroupId group{};
  /// Which bundle of `group`; -1 means any.
  int bundle = 0;

  // -- identity and life -----------------------------------------------------------------------

  /// An actor's name, unique in the cluster, to find it by. A task's name in the event log: tasks share leases only
  /// with tasks of the same name and resources.
  std::string name{};
  /// Names are unique within a name space.
  std::string name_space{};
  /// Tasks: the answer must come within this time. None by default.
  std::optional<Duration> deadline{};
  /// Actors: how often one that died restarts, with what it saved; -1 means always. The first time at once, then after
  /// pauses that double from 0.1 s to 30 s (at most 1 s after a life of a second) until a life lasts for a minute. If
  /// the constructor fails, the actor ends in its first life; in later ones that counts as a death.
  int max_restarts = 0;
  /// Actors: after a life of at least this length `max_restarts` is counted from none again. None: never.
  std::optional<Duration> restart_window{};
  /// Actors: how long the first start may take, from the order to its node until its constructor is done, before
  /// `spawn` fails with `deadline_exceeded` and the actor is killed. None: no limit.
  std::optional<Duration> spawn_timeout{};
  /// Actors: how often a call that the actor's death interrupted is made again, on the actor that was started anew: the
  /// method may then have run more than once.
  int max_task_retries = 0;
  /// Actors: calls of one client that may wait; more are refused with `queue_full`. 0 means the library's limit.
  std::size_t max_pending_calls = 0;
  /// Actors: it outlives the program that spawned it, until it is killed. Others end with the program's connection.
  bool detached = false;
  /// Actors with a name: if there is one of this name and type already, that one is the result.
  bool get_if_exists = false;
  /// The process that it runs in. Tasks of one shape share a process of their own, one after the other.
  Isolation isolation = Isolation::thread;
  /// Variables of the environment of its process, for example {"NCCL_DEBUG", "INFO"}, beside those that its node was
  /// started with; implies a process of its own. Refused with `invalid_argument`: more than `limits::environment_bytes`
  /// in all, names that no variable can have, and those that the library, the loader or the device's visibility go by
  /// (GPUACTORS_*, LD_*, CUDA_VISIBLE_DEVICES, ...). An embedded cluster has one process and refuses all.
  std::map<std::string, std::string> environment{};
  /// Tasks: how often one whose worker died is run again; -1 means as often as it takes. It may then have run more than
  /// once. Streamed tasks are not run again.
  int max_retries = 0;
  /// Tasks: errors of the task itself after which it is run again too, within `max_retries`.
  std::vector<Errc> retry_errors{};
  /// Tasks: after so many of a shape a process is replaced, which implies a process of their own; 1 gives each task a
  /// fresh one. 0 means no limit.
  int max_calls = 0;

  friend bool operator==(const Options&, const Options&) = default;
};

/// How the bundles of a placement group are placed.
struct GroupOptions {
  /// Shown in states and reasons; need not be unique.
  std::string name{};
  GroupStrategy strategy = GroupStrategy::pack;
  /// Higher is served first.
  int priority = 0;
  /// Give up with `no_capacity` after this time in the queue. Once placed, it waits for bundles that it loses in any
  /// case.
  std::optional<Duration> queue_timeout{};
  /// Wait for nodes that could serve it instead of failing with `infeasible`.
  bool wait_for_nodes = false;
  /// It outlives the program that asked for it, until it is removed.
  bool detached = false;
  /// Bundles are not placed anew: one goes, and is there for others, when what ran in it has ended or its node or
  /// device is lost; the group goes with its last bundle. For actors without restarts that go on with fewer.
  bool shrinks = false;
};

/// Resources that were set aside together, and where they are. A plain value: losing it gives nothing back.
struct PlacementGroup {
  struct Bundle {
    std::string node;
    std::vector<LeasedDevice> devices;
  };

  GroupId id;
  std::string name;
  /// In the order in which they were asked for.
  std::vector<Bundle> bundles;
};

/// One node of an embedded cluster.
struct EmbeddedNode {
  std::string name{};
  /// Device SPEC, for example "cuda", "host:4x1GiB@V100"; empty means CUDA if there is any, else one host device.
  std::string devices{};
  /// CPUs it offers; below 0 means the hardware threads of this machine.
  double cpus = -1;
  std::map<std::string, std::string> labels{};
  /// Other countable resources, for example {"neuron_cores", 2}.
  std::map<std::string, double> resources{};
  /// Where accelerators other than GPUs are looked for: the root of a file system. What `resources` names is not.
  std::string accelerator_root{"/"};
  /// Puts a device of the program's own in the place of each that was found, for example one that fails on command in
  /// a test; indices must stay different. Null leaves them as they are.
  std::function<std::shared_ptr<Device>(std::shared_ptr<Device>)> decorate{};
  /// Whether tasks and actors there may compile kernels from source (`SourceTask`, `Context::compile`).
  bool runtime_source = true;
};

/// How a program connects to a cluster.
struct ConnectOptions {
  /// Where the broker listens, "host:port".
  std::string broker{};
  /// The folder with this machine's certificates; empty means the user's own (`CertificateFolder::default_path`).
  std::string certificates{};
  /// Plaintext, against a cluster that was started so.
  bool insecure = false;
  /// Under which address other machines reach this program, for the tensors that it puts; empty means that from which
  /// it reaches the broker.
  std::string host{};
  /// How long the first connection may take; zero: do not wait for it.
  Duration timeout = 2 * limits::link_timeout;
  /// How often the process shows that it is alive, and how long it waits for a sign of the others before it takes them
  /// for dead. The same in all processes of a cluster.
  Duration heartbeat = limits::heartbeat;
  Duration link_timeout = limits::link_timeout;
  /// How long the broker keeps what the program has, its running tasks, actors and groups, when their connection is
  /// lost and the program did not close it: a machine that paused or a cable that was changed then ends nothing. At
  /// most `limits::reconnect_grace_most`. Zero: it ends at once, and what it held is free at once when it is killed. A
  /// broker that was started again since waits for `limits::settle`, whatever was asked of the one before it.
  Duration reconnect_grace{};
  /// The types that it knows, so that calls are checked before they are sent; null means those of the program.
  std::shared_ptr<const TypeRegistry> registry{};
};

/// How an embedded cluster is made.
struct EmbedOptions {
  /// Device SPEC of the one node "local", when `nodes` is empty.
  std::string devices{};
  std::vector<EmbeddedNode> nodes{};
  /// Of the one node "local", when `nodes` is empty.
  std::string accelerator_root{"/"};
  bool runtime_source = true;
  /// A file that every call to the scheduler is written to, as a scenario for `gpuactors plan`, which gives the same
  /// grants again. Complete once the cluster is closed. Empty: none.
  std::string record{};
  /// The types it can run; null means those that the program registered.
  std::shared_ptr<const TypeRegistry> registry{};
};

} // namespace gpuactors
