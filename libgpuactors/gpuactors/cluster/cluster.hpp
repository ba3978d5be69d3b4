// Cluster: the interface for programs. Submit tasks, spawn actors, share tensors, inspect the state.
#pragma once

#include <gpuactors/actor/tensor_store.hpp>
#include <gpuactors/cluster/actor_key.hpp>
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
  /// How long to wait in all, including for a broker that is away; by default a minute beyond the grace. A kill that
  /// has reached the broker continues; an order that has not, since the broker is away, is given up.
  std::optional<Duration> timeout{};
};

/// What `Cluster::state` returns in addition to the present state.
struct StateOptions {
  /// Sequence number of the first broker event to return; events come in order. 0 returns none; 1 returns all that the
  /// broker still keeps (at most `limits::event_log`).
  std::uint64_t events_from = 0;
  /// Number of ended actors to return, most recent first; the broker keeps at most `limits::ended_actors`.
  std::uint32_t ended = 0;
  /// Omits the present state and returns only events and ended actors: for programs that follow the events of a large
  /// cluster.
  bool only_past = false;
  /// How long to wait for the answer. Time during which the broker is away counts.
  Duration timeout = limits::call_deadline;
};

/// A connection to a cluster, or an embedded one: broker, node agents and workers in this process.
///
/// Movable. Any thread may call any member, including `close`, but no thread may use either object during a move.
/// Members throw nothing of their own. An object from `embed`, `open` or `connect` is an owner: its destructor closes
/// it. Closing an embedded cluster asks running tasks and actors to stop and waits for them; pending requests fail with
/// `unavailable`. A callback of `Future::then` may destroy the owner.
class Cluster {
public:
  /// Embeds a cluster of one or more nodes in this process. Opens no port.
  /// @returns `invalid_argument` for a bad SPEC, name or registration; `already_exists` for two nodes of the same name;
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

  /// Overload for a program that parses its command line itself; such a program calls `main` or `run_if_worker` first.
  static Result<Cluster> open(OpenOptions options);

  /// Returns the cluster that a task or actor runs in, for submitting and spawning from inside. If nothing else is
  /// free, children may run inside the caller's own lease, so a task may wait for its children. Actors and groups that
  /// are created through it end with the task, or with this life of the actor, however that ends, unless they are
  /// detached. The returned object does not own the cluster.
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

  /// Starts an actor and waits until its constructor has returned. During a long wait, notices say what it waits for
  /// (`ConnectOptions::spawn_notice`). The actor lives until it is killed, ends itself, or the cluster ends. Unless it
  /// is detached, it also ends when this program disconnects and, if it was spawned through `Cluster::from`, when the
  /// spawning task or actor ends.
  ///
  /// @returns `not_found` (no such type), `invalid_argument` (configuration, or a request that does not fit the type: a
  ///          GPUActor takes whole devices, a FractionalGPUActor a share below 1), `already_exists` (name),
  ///          `infeasible`, `no_capacity` (`queue_timeout`), `deadline_exceeded` (`spawn_timeout`), and errors of the
  ///          constructor.
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

  /// Finds an actor, whichever program spawned it, and waits while it is starting. `timeout` bounds the wait for the
  /// broker (which may be away), for placement and for the start. If there is no connection to the actor's process yet,
  /// it is made afterwards, outside this bound. Any thread; tasks and actors use `Cluster::from`.
  /// @returns `not_found` with similar names, or if the actor has ended for good (with its name, type and end as far as
  ///          the broker still knows them) or belongs to another cluster; the error of the actor's start if it ends
  ///          meanwhile; `invalid_argument` for a key that names nothing; `deadline_exceeded` after `timeout`;
  ///          `unavailable` if the cluster was closed.
  Result<ActorRef> find(const ActorKey& actor, Duration timeout = limits::call_deadline) {
    return find_async(actor, timeout).get();
  }

  /// Looks an actor up like `find`, without waiting for it. `Future::cancel` ends the look-up; the actor stays.
  Future<ActorRef> find_async(const ActorKey& actor, Duration timeout = limits::call_deadline);

  /// Returns the future of `ActorRef::when_ended`. The actor need not be alive; it may have ended long ago. A name is
  /// that of the actor that has it now or, if there is none, of the last one that had it. `not_found` if the broker
  /// remembers none; `invalid_argument` for a key that names nothing.
  [[nodiscard]] Future<ActorEnd> when_ended(const ActorKey& actor);

  /// Ends an actor, and returns when it has ended and its memory is free. The actor does not restart unless
  /// `KillOptions::restart` is set.
  /// @returns `not_found` if there is no such actor, or if it belongs to another cluster; `deadline_exceeded` if it
  ///          stays in user code longer than the grace, or after `KillOptions::timeout`; `permission_denied`
  ///          if this program's certificate is a client's and the actor belongs to another owner; `invalid_argument`
  ///          for a key that names nothing, and if an actor kills itself: it must call `Actor::end`.
  Result<void> kill(const ActorKey& actor, const KillOptions& options = {}) {
    return kill_async(actor, options).get();
  }

  /// Ends an actor like `kill`, without waiting for it. `Future::cancel` does not take the order back.
  Future<void> kill_async(const ActorKey& actor, const KillOptions& options = {});

  /// Ties the life of an actor or group to the returned object, whose destructor ends it: `GPUACTORS_LET(trainer,
  /// cluster.spawn("trainer", config)); const auto owned = cluster.own(trainer);`. The actor or group still ends with
  /// its program, task or actor, if that is earlier. Any thread.
  [[nodiscard]] OwnedActor own(ActorRef actor) const {
    return {core_, std::move(actor)};
  }

  [[nodiscard]] OwnedGroup own(PlacementGroup group) const {
    return {core_, std::move(group)};
  }

  /// Overload for an actor or group that is still being created: `auto trainer =
  /// cluster.own(cluster.spawn_async("trainer", config));`. Consumes `made`. If the returned future is destroyed before
  /// its value was taken, the request is withdrawn as by `Future::cancel`, and an actor or group that is created all
  /// the same is ended. Any thread.
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
  /// (`state` shows it), while work in the others continues. The group lives until it is removed or the cluster ends.
  /// Unless it is detached, it also ends when this program disconnects and, if it was created through `Cluster::from`,
  /// when the creating task or actor ends. Shrinking groups behave differently: see `GroupOptions`.
  /// @returns `invalid_argument` naming the bundle and the rule, `infeasible` with the constraint, `no_capacity`
  ///          (`queue_timeout`).
  Result<PlacementGroup> create_group(const std::vector<Options>& bundles, const GroupOptions& options = {});

  /// Requests a group without waiting for it. `Future::cancel` withdraws the request; a group already placed is
  /// removed.
  Future<PlacementGroup> create_group_async(const std::vector<Options>& bundles, const GroupOptions& options = {});

  /// Ends the tasks and actors in a group, as by `kill`, refuses requests that wait for it, and releases its resources.
  /// Returns when all of them are free, at most after `timeout`; the removal then continues.
  /// @returns `not_found` if there is no such group, `permission_denied` as for `kill`, `deadline_exceeded`.
  Result<void> remove_group(GroupId group, Duration timeout = Duration::max());

  /// Removes a group without waiting for it.
  Future<void> remove_group_async(GroupId group);

  /// Stops placing new work on a node. Requests that no other node could serve wait for `undrain`; when the node is
  /// gone, they fail with `infeasible`. Without `empty_within`, running work continues. With it, actors that have
  /// `max_restarts` move as soon as other nodes have room (a move uses up no restart and keeps the saved state), and
  /// other work may finish; whatever is left after that time is asked to stop and ended. Actors with `max_restarts`
  /// then wait for room, which uses up no restart either; those in a placement group or under a parent's lease end. A
  /// later call without `empty_within` takes the time back. Does not wait until the node is empty: `state` shows what
  /// is left.
  ///
  /// Blocks until the broker has answered, for at most `limits::call_deadline`, also while the broker is away.
  /// @returns `not_found` with similar names; `permission_denied` with a client's certificate; `deadline_exceeded`
  ///          without an answer (the order may still be carried out); `unavailable` if the cluster was closed.
  Result<void> drain(std::string_view node, std::optional<Duration> empty_within = {});

  /// Ends the draining of a node, which then takes new work again, at once also from the queue. Running work continues;
  /// what was told to move or end does so.
  /// Has no effect on a node that is not draining. Blocks as `drain` does.
  /// @returns the errors of `drain`.
  Result<void> undrain(std::string_view node);

  // -- quotas ----------------------------------------------------------------------------------

  /// Limits how much of the devices the leases and placement groups of one owner may hold together, in devices, in
  /// steps of 0.0001. An owner is the name in a client's certificate; "*" sets the limit of each client without a quota
  /// of its own. Lowering a quota ends nothing; requests for which a quota has no room wait. `state` shows quotas and
  /// what owners hold. Blocks as `drain` does.
  /// @returns `invalid_argument` for an invalid name or amount, and for more than `limits::quotas` quotas;
  ///          `permission_denied`, `deadline_exceeded` and `unavailable` as for `drain`.
  Result<void> set_quota(std::string_view owner, double gpus);

  /// Removes a quota; that of "*" then applies, if there is one. Blocks as `drain` does.
  /// @returns `not_found` with similar names; `permission_denied`, `deadline_exceeded` and `unavailable` as for
  ///          `drain`.
  Result<void> remove_quota(std::string_view owner);

  // -- tensors ---------------------------------------------------------------------------------

  /// Copies `values` (as many as the shape has elements) into an immutable tensor in host memory of this process;
  /// without a shape, the tensor has one dimension. Processes of this machine read it in place; those of other machines
  /// get a copy.
  /// @returns `invalid_argument` if the shape does not match the number of values, `out_of_memory`, `unavailable` if
  ///          there is no port or thread to serve it.
  template <TensorValues R>
  Result<Shared<Tensor>> put(const R& values, std::vector<std::int64_t> shape = {}) {
    const auto count = static_cast<std::size_t>(std::ranges::size(values));
    if (shape.empty())
      shape = {static_cast<std::int64_t>(count)};
    return put(std::ranges::data(values), count, dtype_of<ElementOf<R>>, std::move(shape));
  }

  /// Copies a device tensor into host memory of this process; the copy outlives the task or actor that created the
  /// tensor. `stream` is the stream that produced the tensor; blocks until the work queued on `stream` is done.
  /// @returns `invalid_argument` for an empty tensor or one that was reclaimed, `out_of_memory` if this process has no
  ///          memory for the copy, `unavailable` if there is no port or thread to serve it or the cluster was closed,
  ///          and the errors of the work on `stream`.
  Result<Shared<Tensor>> put(const Tensor& tensor, Stream& stream);

  /// Returns host memory of this process for a tensor: fill it, then call `share`. Saves a copy compared with `put` for
  /// contents that arrive in parts.
  /// @returns `invalid_argument` for an invalid shape, `out_of_memory`, or `unavailable` as for `put`.
  Result<TensorDraft> draft(DType dtype, std::vector<std::int64_t> shape);

  /// Returns the tensor that a reference names, wherever in the cluster it was put; blocks until it has arrived, for at
  /// most `timeout`.
  /// @returns the errors of `TensorStore::get`: `deadline_exceeded` after `timeout`, `not_found` if no handle to the
  ///          tensor is left, `worker_died` if its process has ended, and others.
  Result<Shared<Tensor>> get(const v1::TensorRef& ref, Duration timeout = Duration::max());

  // -- state -----------------------------------------------------------------------------------

  /// Returns the current nodes, devices, leases, actors and queue, and what `options` asks for in addition. Blocks
  /// until the answer has arrived.
  /// @returns `deadline_exceeded` if the broker does not answer within `StateOptions::timeout`, `unavailable` if the
  ///          cluster was closed.
  Result<v1::ClusterState> state(const StateOptions& options = {});

  /// Requests the state without waiting for it. Each answer shows one moment; several may arrive in any order.
  Future<v1::ClusterState> state_async(const StateOptions& options = {});

  /// Calls `line` for each line that an actor's worker processes wrote, including the actor's earlier lives on the same
  /// node. With `LogsOptions::node`, reads that node's lines of the actor, or all its lines if the name is empty. For
  /// an actor without a name that has ended, name its node there.
  /// Returns after the last line. With `follow`, goes on until `line` returns false, a stop is requested, or (unless a
  /// node is named) the actor has ended for good; without a node, it also follows the actor to other nodes. If several
  /// actors share a process, a line that cannot be attributed counts for each of them.
  /// @returns `not_found` if no such actor or node exists; `unavailable` if the node cannot be reached (with `follow`,
  ///          for twice the time after which a connection counts as lost); `deadline_exceeded` if the broker does not
  ///          answer; `unsupported` in an embedded cluster, whose output is the program's; `invalid_argument` if
  ///          neither an actor nor a node is named, or for more than `limits::log_tail_lines` lines. No error after a
  ///          stop was requested.
  Result<void> logs(const ActorKey& actor, const LogsOptions& options, const LogSink& line);

  /// Returns the types of this program; none after a move from this object.
  [[nodiscard]] const TypeRegistry& types() const;

  /// Returns descriptions of the nodes' types; in an embedded cluster, of this program's types, at once. Otherwise
  /// blocks until the broker has answered, for at most `limits::call_deadline`, also while the broker is away.
  /// @param wanted a task or actor type: after a restart of the broker, the answer waits while nodes that may have this
  ///        type are still expected.
  /// @returns `deadline_exceeded` without an answer, `unavailable` if the cluster was closed.
  Result<DescribedTypes> described_types(std::string_view wanted = {}) {
    return described_types_async(wanted).get();
  }

  /// Requests the descriptions without waiting for them.
  Future<DescribedTypes> described_types_async(std::string_view wanted = {});

  /// Returns the actor system that the cluster runs in, for CAF programs. Valid only while the owner lives, and not on
  /// a moved-from object.
  [[nodiscard]] caf::actor_system& system();

  /// Closes an owned cluster now, like the destructor. Idempotent: returns at once if it is closed already, or if
  /// another thread is closing it.
  void close();

  /// Returns whether the cluster was closed or is being closed, so that all other calls fail with `unavailable` for
  /// good. Also true for a moved-from object.
  [[nodiscard]] bool closed() const noexcept;

private:
  Cluster(std::shared_ptr<detail::ClusterCore> core, LeaseId parent, bool owner);

  void submit(const std::shared_ptr<detail::PendingTask>& pending, detail::FutureCore* future, std::string_view task,
              Payload input, const google::protobuf::Descriptor* output, const Options& options);
  Result<Shared<Tensor>> put(const void* values, std::size_t count, DType dtype, std::vector<std::int64_t> shape);
  /// Names in a request from inside a task or actor the holder that the new actor or group ends with.
  void set_spawner(v1::Spawner& spawner) const;
  /// @param origin receives the number that identifies the actor among all others.
  Future<ActorRef> begin_spawn(std::string_view type, Payload config, const Options& options, std::uint64_t& origin);
  /// Spawns an actor and waits for it, with notices about what the wait is for.
  Result<ActorRef> spawn_now(std::string_view type, Payload config, const Options& options);

  std::shared_ptr<detail::ClusterCore> core_;
  LeaseId parent_;
  // `HolderContext::run` of the holder; 0 outside of tasks.
  std::uint64_t run_ = 0;
  // The owner whose quota counts a holder's requests, as for the holder's own lease. Empty outside of holders, where
  // the broker knows the owner.
  std::string quota_owner_;
  std::atomic<bool> owner_{false};
};

} // namespace gpuactors
