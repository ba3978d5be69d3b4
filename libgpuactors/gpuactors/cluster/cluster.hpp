// Cluster: the interface for programs. Submit tasks, spawn actors, share tensors, inspect the state.
#pragma once

#include <gpuactors/actor/tensor_store.hpp>
#include <gpuactors/cluster/actor_name.hpp>
#include <gpuactors/cluster/actor_ref.hpp>
#include <gpuactors/cluster/described_types.hpp>
#include <gpuactors/cluster/logs.hpp>
#include <gpuactors/cluster/open_options.hpp>
#include <gpuactors/cluster/owned.hpp>

#include <atomic>
#include <concepts>
#include <span>
#include <string_view>
#include <utility>

namespace caf {
class actor_system;
} // namespace caf

namespace gpuactors {

/// How `Cluster::kill` ends an actor.
struct KillOptions {
  /// Whether to restart the actor if it has restarts left. The command `gpuactors kill` does so by default.
  bool restart = false;
  /// How long a running method may take to stop before `kill` reports that it is stuck (and keeps ending the actor).
  Duration grace = limits::stop_grace;
  /// How long to wait in all, for a broker that may be away; by default a minute beyond the grace. The kill itself
  /// continues.
  std::optional<Duration> timeout{};
};

/// What `Cluster::state` returns beside nodes, devices, leases, actors, groups, clients and the queue.
struct StateOptions {
  /// The sequence number of the first of the broker's events to return, in order. 0: none; 1: all that it still has,
  /// at most `limits::event_log`.
  std::uint64_t events_from = 0;
  /// How many of the actors that have ended to return, the latest first; the broker has at most `limits::ended_actors`.
  std::uint32_t ended = 0;
  /// Whether to leave out all that there is now, for those who follow the events of a large cluster.
  bool only_past = false;
  /// How long to wait for the answer, including the time that the broker is away.
  Duration timeout = limits::call_deadline;
};

/// A connection to a cluster, or an embedded one: broker, node agents and workers in this process.
///
/// Movable. All members may be called from any thread, `close` too; only a move must not happen while another thread
/// uses one of the two objects. No member throws anything of its own. The `Cluster` that `embed` or `open` returns owns
/// the embedded cluster: its destructor asks running tasks and actors to stop and waits for them; pending requests fail
/// with `unavailable`. A callback of `Future::then` may destroy it.
class Cluster {
public:
  /// Embeds a cluster of one or more nodes in this process. Opens no port.
  /// @returns `invalid_argument` for a bad SPEC, name or registration; `already_exists` for two nodes of one name;
  ///          `unsupported` if CUDA is requested but not available; `unavailable` if the machine lacks threads.
  static Result<Cluster> embed(EmbedOptions options = {});

  /// Connects to a cluster of processes; waits for the broker's first answer.
  /// @returns `unavailable` if there is no answer or the machine lacks threads, `invalid_argument` if the two sides do
  ///          not trust each other, `not_found` if there are no certificates.
  static Result<Cluster> connect(const ConnectOptions& options);

  /// Opens the cluster that a program's command line names (`OpenOptions::from_arguments`): connects with `--broker
  /// HOST:PORT` or GPUACTORS_BROKER, otherwise embeds a cluster. If a node started the program as its worker, this call
  /// does the worker's work and does not return.
  /// @returns the errors of `connect` or `embed`.
  static Result<Cluster> open(int argc, const char* const* argv);

  /// The same for a program that reads its command line by itself, and calls `main` or `run_if_worker` first.
  static Result<Cluster> open(OpenOptions options);

  /// Returns the cluster that a task or actor runs in, for submitting and spawning from inside. If nothing else is
  /// free, children may run inside the caller's own lease, so a task may wait for its children. What is spawned, and
  /// groups that are created, end with the task or with this life of the actor, however it ends, unless they are
  /// detached. Does not own the cluster.
  static Cluster from(const HolderContext& holder);

  Cluster(Cluster&&) noexcept;
  Cluster& operator=(Cluster&&) noexcept;
  ~Cluster();

  // -- tasks -----------------------------------------------------------------------------------

  /// Runs task `task` on `input` as soon as its resources are free.
  ///
  /// Errors of the future: `not_found` (no such task, with similar names), `invalid_argument` (message types, or a
  /// request that breaks the rules of shares), `infeasible` (with the constraint that no node meets), `no_capacity`
  /// (`queue_timeout`), `deadline_exceeded`, `cancelled`, `worker_died`, and the task's own errors.
  template <ProtobufMessage Out = google::protobuf::Empty, ProtobufMessage In = google::protobuf::Empty>
  Future<Out> submit(std::string_view task, In input = {}, const Options& options = {}) {
    auto state = std::make_shared<detail::WorkState<Out, detail::PendingTask>>();
    submit(state, state.get(), task, Payload::of(std::move(input)), descriptor_of<Out>(), options);
    return Future<Out>{std::move(state)};
  }

  /// Runs a task whose messages the compiler checks.
  template <ProtobufMessage In, ProtobufMessage Out>
  Future<Out> submit(const Task<In, Out>& task, std::type_identity_t<In> input = {}, const Options& options = {}) {
    return submit<Out, In>(task.name(), std::move(input), options);
  }

  /// Runs a task whose reply is a stream of `Item`s. Reading the stream returns the errors of `submit`.
  template <ProtobufMessage Item, ProtobufMessage In = google::protobuf::Empty>
  [[nodiscard]] StreamReader<Item> stream(std::string_view task, In input = {}, const Options& options = {}) {
    auto state = std::make_shared<detail::StreamState<Item, detail::PendingTask>>();
    state->call.stream = true;
    submit(state, nullptr, task, Payload::of(std::move(input)), Item::descriptor(), options);
    return StreamReader<Item>{std::move(state)};
  }

  /// Runs a streaming task whose messages the compiler checks.
  template <ProtobufMessage In, ProtobufMessage Item>
  [[nodiscard]] StreamReader<Item> stream(const StreamTask<In, Item>& task, std::type_identity_t<In> input = {},
                                          const Options& options = {}) {
    return stream<Item, In>(task.name(), std::move(input), options);
  }

  /// Runs a task like `submit`, with messages whose C++ types this program does not know.
  Future<Payload> submit_payload(std::string_view task, Payload input, const Options& options = {});

  // -- actors ----------------------------------------------------------------------------------

  /// Starts an actor of type `type` and waits until it is constructed. The actor lives until it is killed, the cluster
  /// ends, or, unless it is detached, this program disconnects, or the task or actor ends that has spawned it
  /// (`Cluster::from`).
  ///
  /// @returns `not_found` (no such type), `invalid_argument` (configuration, or a request that does not fit the type: a
  ///          GPUActor takes whole devices, a FractionalGPUActor a share below 1), `already_exists` (name),
  ///          `infeasible`, `no_capacity` (`queue_timeout`), and errors of the constructor. While that takes long, a
  ///          line says what it waits for (`ConnectOptions::spawn_notice`).
  template <ProtobufMessage Config = google::protobuf::Empty>
  Result<ActorRef> spawn(std::string_view type, Config config = {}, const Options& options = {}) {
    return spawn_now(type, Payload::of(std::move(config)), options);
  }

  /// Starts an actor whose configuration the compiler checks.
  template <ProtobufMessage Config>
  Result<ActorRef> spawn(const ActorKind<Config>& kind, std::type_identity_t<Config> config = {},
                         const Options& options = {}) {
    return spawn<Config>(kind.name(), std::move(config), options);
  }

  /// Starts an actor without waiting for it. `Future::cancel` withdraws the request; an actor already started is ended.
  template <ProtobufMessage Config = google::protobuf::Empty>
  Future<ActorRef> spawn_async(std::string_view type, Config config = {}, const Options& options = {}) {
    return spawn_payload(type, Payload::of(std::move(config)), options);
  }

  template <ProtobufMessage Config>
  Future<ActorRef> spawn_async(const ActorKind<Config>& kind, std::type_identity_t<Config> config = {},
                               const Options& options = {}) {
    return spawn_async<Config>(kind.name(), std::move(config), options);
  }

  /// Starts an actor like `spawn_async`, with a configuration whose C++ type this program does not know.
  Future<ActorRef> spawn_payload(std::string_view type, Payload config, const Options& options = {});

  /// Finds an actor by name; waits while it is starting. `timeout` bounds the wait for the broker, which may be away,
  /// and for the actor's place and start; the connection to the actor's process, if there is none yet, is made after
  /// it.
  /// @returns `not_found` with similar names; the error of its start if it ends meanwhile; `deadline_exceeded` after
  ///          `timeout`; `unavailable` if the cluster was closed.
  Result<ActorRef> find(const ActorName& actor, Duration timeout = limits::call_deadline) {
    return find_async(actor, timeout).get();
  }

  /// Finds the actor that a reference in a message names (`ActorRef::to_message`, `Actor::own_handle`), whichever
  /// program spawned it; waits while it is starting, at most `timeout`. Any thread, also those of tasks and actors, by
  /// `Cluster::from`.
  /// @returns `not_found` if it has ended for good, with its name, type and end as far as the broker still knows, or if
  ///          it is of another cluster; `invalid_argument` for an empty reference; `deadline_exceeded` after `timeout`.
  Result<ActorRef> find(const v1::ActorHandle& actor, Duration timeout = limits::call_deadline) {
    return find_async(actor, timeout).get();
  }

  /// Look an actor up like `find`, without waiting for it. `Future::cancel` ends the look-up; the actor stays.
  Future<ActorRef> find_async(const ActorName& actor, Duration timeout = limits::call_deadline);
  Future<ActorRef> find_async(const v1::ActorHandle& actor, Duration timeout = limits::call_deadline);

  /// Returns a future of the end of the actor that a reference in a message names, as `ActorRef::when_ended` does: it
  /// need not be alive, and its end may be long ago. Also `invalid_argument` for an empty reference.
  [[nodiscard]] Future<ActorEnd> when_ended(const v1::ActorHandle& actor);

  /// The same for the actor that has the name now, or, if there is none, for the last one that had it; `not_found` if
  /// the broker does not remember any.
  [[nodiscard]] Future<ActorEnd> when_ended(const ActorName& actor);

  /// Ends an actor, for good unless `KillOptions::restart` is set. Returns when the actor has ended and its memory is
  /// free.
  /// @returns `not_found` if there is no such actor; `deadline_exceeded` if the actor is stuck in user code for longer
  ///          than the grace, or after the timeout; `permission_denied` if this program has a client's certificate, and
  ///          the actor belongs to another name; `invalid_argument` for an actor that would end itself, which is what
  ///          `Actor::end` is for.
  Result<void> kill(const ActorRef& actor, const KillOptions& options = {}) {
    return kill_async(actor, options).get();
  }
  Result<void> kill(const ActorName& actor, const KillOptions& options = {}) {
    return kill_async(actor, options).get();
  }
  /// The same for the reference that came in a message; also `not_found` if it is of another cluster, as in `find`.
  Result<void> kill(const v1::ActorHandle& actor, const KillOptions& options = {}) {
    return kill_async(actor, options).get();
  }
  /// The same for one that is known by the number that `state` tells, for it may have no name.
  Result<void> kill(ActorId actor, const KillOptions& options = {}) {
    return kill_async(actor, options).get();
  }

  /// End an actor like `kill`, without waiting for it. `Future::cancel` does not take the order back.
  Future<void> kill_async(const ActorRef& actor, const KillOptions& options = {});
  Future<void> kill_async(const ActorName& actor, const KillOptions& options = {});
  Future<void> kill_async(const v1::ActorHandle& actor, const KillOptions& options = {});
  Future<void> kill_async(ActorId actor, const KillOptions& options = {});

  /// Has an actor or a group end with the object that is returned, and not only with this program, task or actor:
  /// `GPUACTORS_LET(trainer, cluster.spawn("trainer", config)); const auto owned = cluster.own(trainer);`. Any thread.
  [[nodiscard]] OwnedActor own(ActorRef actor) const {
    return {core_, std::move(actor)};
  }

  [[nodiscard]] OwnedGroup own(PlacementGroup group) const {
    return {core_, std::move(group)};
  }

  /// The same for what is still being made: `auto trainer = cluster.own(cluster.spawn_async("trainer", config));`. A
  /// future that is destroyed before its value was taken leaves nothing behind: the request is withdrawn, as by
  /// `Future::cancel`, and what was made is ended. Consumes the future that is given. Any thread.
  template <class T>
  requires std::same_as<T, ActorRef> || std::same_as<T, PlacementGroup>
  [[nodiscard]] Future<Owned<T>> own(Future<T> made) const {
    if (!made.valid())
      return Future<Owned<T>>::ready_with(detail::taken_already());
    return Future<Owned<T>>{detail::OwningState<T>::template make<detail::OwningState<T>>(made.state(), {core_})};
  }

  // -- placement groups and nodes --------------------------------------------------------------

  /// Reserves the resources of all `bundles`, all or nothing, and waits until they are reserved. Of each bundle, only
  /// amounts, accelerator type, resources, node and labels count. Tasks and actors use the group by `Options::group`
  /// and `Options::bundle`. Bundles that are lost with a node or device are placed again as soon as there is room
  /// (`state` shows it), while work in the others continues. The group lives until it is removed, the cluster ends, or,
  /// unless it is detached, this program disconnects, or the task or actor ends that has created it. Shrinking groups
  /// behave differently: see `GroupOptions`.
  /// @returns `invalid_argument` naming the bundle and the rule, `infeasible` with the constraint, `no_capacity`
  ///          (`queue_timeout`).
  Result<PlacementGroup> create_group(const std::vector<Options>& bundles, const GroupOptions& options = {});

  /// Requests a group without waiting for it. `Future::cancel` withdraws the request; a group already placed is
  /// removed.
  Future<PlacementGroup> create_group_async(const std::vector<Options>& bundles, const GroupOptions& options = {});

  /// Ends the tasks and actors in a group, as by `kill`, refuses requests that wait for it, and releases its resources.
  /// Returns when all of them are free, at most after `timeout`; then the removal goes on.
  /// @returns `not_found` if there is no such group, `permission_denied` as `kill` does, `deadline_exceeded`.
  Result<void> remove_group(GroupId group, Duration timeout = Duration::max());

  /// Removes a group without waiting for it.
  Future<void> remove_group_async(GroupId group);

  /// Places nothing new on a node. What no other node could serve waits for `undrain`, and fails with `infeasible` when
  /// the node is gone. Without `empty_within`, running work continues. With it, actors with `max_restarts` move to
  /// other nodes as soon as there is room for them (without using up a restart; they keep what they saved), and all
  /// other work may finish. After that time, remaining work is asked to stop and ended, as by `kill`. Does not wait for
  /// that: `state` shows what is left.
  ///
  /// Blocks until the broker has answered, for at most `limits::call_deadline`, also while the broker is away.
  /// @returns `not_found` with similar names; `permission_denied` with a client's certificate; `deadline_exceeded`
  ///          without an answer (it may be done all the same); `unavailable` if the cluster was closed.
  Result<void> drain(std::string_view node, std::optional<Duration> empty_within = {});

  /// Ends the draining of a node: it takes new work again, at once also from the queue. Running work stays. Has no
  /// effect on a node that is not draining. Blocks as `drain` does.
  /// @returns the errors of `drain`.
  Result<void> undrain(std::string_view node);

  // -- quotas ----------------------------------------------------------------------------------

  /// Sets how much of devices all leases and placement groups of a client's name (that in its certificate) may hold
  /// together, in devices, in steps of 0.0001; for the name "*", that of each client without a quota of its own. A
  /// lower quota ends nothing; what no quota has room for waits. `state` shows quotas and what is held. Blocks as
  /// `drain` does.
  /// @returns `invalid_argument` for a name or an amount that is none, and for more quotas than `limits::quotas`;
  ///          `permission_denied`, `deadline_exceeded` and `unavailable` as `drain`.
  Result<void> set_quota(std::string_view owner, double gpus);

  /// Removes a quota: the one of "*" applies then, if there is one. Blocks as `drain` does.
  /// @returns `not_found` with similar names; `permission_denied`, `deadline_exceeded` and `unavailable` as `drain`.
  Result<void> remove_quota(std::string_view owner);

  // -- tensors ---------------------------------------------------------------------------------

  /// Copies `values` (as many as the shape has elements) into an immutable tensor in host memory of this process;
  /// without a shape, it has one dimension. Processes of this machine read it in place, those of others get a copy.
  /// @returns `invalid_argument` if the shape does not match the number of values, `out_of_memory`, `unavailable` if
  ///          there is no port or thread to serve it.
  template <TensorValues R>
  Result<Shared<Tensor>> put(const R& values, std::vector<std::int64_t> shape = {}) {
    const auto count = static_cast<std::size_t>(std::ranges::size(values));
    if (shape.empty())
      shape = {static_cast<std::int64_t>(count)};
    return put(std::ranges::data(values), count, dtype_of<ElementOf<R>>, std::move(shape));
  }

  /// Copies a device tensor into host memory of this process, so that it outlives the task or actor that created it.
  /// `stream` is the stream that produced it; blocks until the work queued on it is done.
  /// @returns `invalid_argument` for an empty tensor or one that was reclaimed, `out_of_memory` if this process has no
  ///          memory for the copy, `unavailable` if there is no port or thread to serve it or the cluster was closed,
  ///          and the errors of the work on `stream`.
  Result<Shared<Tensor>> put(const Tensor& tensor, Stream& stream);

  /// Returns host memory of this process for a tensor: fill it, then call `share`. For what comes in parts, and would
  /// be copied once more by `put`.
  /// @returns `invalid_argument` for a shape that is none, `out_of_memory`, or `unavailable` as `put`.
  Result<TensorDraft> draft(DType dtype, std::vector<std::int64_t> shape);

  /// Returns the tensor that a reference names, wherever in the cluster it was put; blocks until it has arrived, for at
  /// most `timeout`.
  /// @returns the errors of `TensorStore::get`: `deadline_exceeded` after `timeout`, `not_found` if no handle to the
  ///          tensor is left, `worker_died` if its process has ended, and others.
  Result<Shared<Tensor>> get(const v1::TensorRef& ref, Duration timeout = Duration::max());

  // -- state -----------------------------------------------------------------------------------

  /// Returns the current nodes, devices, leases, actors and queue, and what `options` asks for beside them. Blocks
  /// until the answer has arrived.
  /// @returns `deadline_exceeded` if the broker does not answer within `StateOptions::timeout`, `unavailable` if the
  ///          cluster was closed.
  Result<v1::ClusterState> state(const StateOptions& options = {});

  /// Requests the state without waiting for it. Each answer shows one moment; several may arrive in any order.
  Future<v1::ClusterState> state_async(const StateOptions& options = {});

  /// Calls `line` for each line that an actor's worker processes wrote, including its earlier lives on the same node;
  /// with `LogsOptions::node`, for those of them on that node, or for all its lines if the actor's name is empty.
  /// Blocks until the last line; with `follow`, until the actor has ended for good, `line` returns false, or a stop is
  /// requested by `LogsOptions::stop`. `follow` also follows the actor to other nodes. A line of a process with several
  /// actors that cannot be attributed counts for each of them.
  /// @returns `not_found` if no such actor or node exists; `unavailable` if the node cannot be reached (with `follow`,
  ///          if that lasts so long that the node counts as gone); `unsupported` in an embedded cluster, whose output
  ///          is the program's.
  Result<void> logs(const ActorName& actor, const LogsOptions& options, const LogSink& line);

  /// The same for an actor of this cluster that may have no name. One that has ended is known by its handle as well, on
  /// the node that `LogsOptions::node` names.
  Result<void> logs(const v1::ActorHandle& actor, const LogsOptions& options, const LogSink& line);

  /// Returns the types of this program; none after a move from this object.
  [[nodiscard]] const TypeRegistry& types() const;

  /// Returns descriptions of the nodes' types; in an embedded cluster, of this program's types, at once. Otherwise
  /// blocks until the broker has answered, for at most `limits::call_deadline`, also while the broker is away.
  /// @param wanted a task or actor type: if nodes of a restarted broker may still bring it, the answer waits for them.
  /// @returns `deadline_exceeded` without an answer, `unavailable` if the cluster was closed.
  Result<DescribedTypes> described_types(std::string_view wanted = {});

  /// Returns the actor system that the cluster runs in, for CAF programs. Valid only while the owner lives, and not on
  /// a moved-from object.
  [[nodiscard]] caf::actor_system& system();

  /// Closes an owned cluster now, like the destructor. Idempotent: returns at once if it is closed already, or if
  /// another thread is closing it.
  void close();

  /// Returns whether the cluster was closed, or is being closed: everything else fails with `unavailable` then, for
  /// good. So does it after a move from this object.
  [[nodiscard]] bool closed() const noexcept;

private:
  Cluster(std::shared_ptr<detail::ClusterCore> core, LeaseId parent, bool owner);

  void submit(const std::shared_ptr<detail::PendingTask>& pending, detail::FutureCore* future, std::string_view task,
              Payload input, const google::protobuf::Descriptor* output, const Options& options);
  Result<Shared<Tensor>> put(const void* values, std::size_t count, DType dtype, std::vector<std::int64_t> shape);
  Future<void> kill(v1::KillActor message, const KillOptions& options);
  Future<ActorRef> find(v1::FindActor message, std::string who, Duration timeout);
  /// Says in a request from inside whom its actor or group ends with.
  void set_spawner(v1::Spawner& spawner) const;
  /// @param origin gets the number by which the actor can be told from all others.
  Future<ActorRef> begin_spawn(std::string_view type, Payload config, const Options& options, std::uint64_t& origin);
  /// Spawns and waits, and says what it waits for.
  Result<ActorRef> spawn_now(std::string_view type, Payload config, const Options& options);

  std::shared_ptr<detail::ClusterCore> core_;
  LeaseId parent_;
  // `HolderContext::run` of the holder; 0 outside of tasks.
  std::uint64_t run_ = 0;
  // In whose quota a holder's requests count: that of its own lease. Empty outside of holders: the broker knows.
  std::string quota_owner_;
  std::atomic<bool> owner_{false};
};

} // namespace gpuactors
