// Cluster: what programs use. Submit tasks, spawn actors, share tensors, look at the state.
#pragma once

#include <gpuactors/actor/tensor_store.hpp>
#include <gpuactors/cluster/actor_ref.hpp>
#include <gpuactors/cluster/described_types.hpp>
#include <gpuactors/cluster/logs.hpp>
#include <gpuactors/cluster/options.hpp>

#include <span>
#include <string_view>

namespace gpuactors {

/// How `Cluster::kill` ends an actor.
struct KillOptions {
  /// Whether it is started anew while it has restarts left.
  bool restart = false;
  /// How long a running method may take to stop before the kill is reported as stuck (it goes on ending the actor).
  Duration grace = limits::stop_grace;
  /// How long to wait for the broker, which may be away; without a limit by default. The kill itself goes on.
  Duration timeout = Duration::max();
};

/// A connection to a cluster, or an embedded one: broker, node agents and workers in this process.
///
/// Movable; all members may be called from any thread. The `Cluster` that `embed` or `open` gave owns what it embeds:
/// when it is destroyed, running tasks and actors are asked to stop and waited for, and what is still pending fails
/// with `unavailable`. No member throws.
class Cluster {
public:
  /// Embeds a cluster of one or more nodes in this process. Opens no port.
  /// @returns `invalid_argument` for a bad SPEC, name or registration; `already_exists` for two nodes of one name;
  /// `unsupported` when CUDA is asked for and there is
  ///          none.
  static Result<Cluster> embed(EmbedOptions options = {});

  /// Connects to a cluster of processes; waits for the broker's first answer.
  /// @returns `unavailable` when nobody answers, `invalid_argument` when the two sides do not trust each other,
  /// `not_found` when there are no certificates.
  static Result<Cluster> connect(ConnectOptions options);

  /// Opens the cluster that a program's command line names: `--broker HOST:PORT` (or GPUACTORS_BROKER) connects, with
  /// `--certs DIR` or `--insecure`, and `--heartbeat` and `--link-timeout` in seconds; otherwise one is embedded, with
  /// `--devices SPEC` (may be repeated) as the devices of its node. Other arguments are left to the program. When a
  /// node started the program as its worker, this call does that work and does not return.
  /// @returns as `connect` or `embed`.
  static Result<Cluster> open(int argc, const char* const* argv);

  /// The cluster that a task or actor runs in, to submit and spawn from inside. What it submits may run inside its own
  /// lease when nothing else is free, so that a task may wait for its children. Does not own the cluster.
  static Cluster from(const TaskContext& context);
  static Cluster from(const Actor& actor);

  Cluster(Cluster&&) noexcept;
  Cluster& operator=(Cluster&&) noexcept;
  ~Cluster();

  // -- tasks -----------------------------------------------------------------------------------

  /// Runs task `task` on `input` as soon as its resources are free.
  ///
  /// Errors of the future: `not_found` (no such task, with the nearest names), `invalid_argument` (message types, or a
  /// request that breaks the rules of shares), `infeasible` (with the constraint that no node meets), `no_capacity`
  /// (`queue_timeout`), `deadline_exceeded`, `cancelled`, and what the task returns.
  template <ProtobufMessage Out = google::protobuf::Empty, ProtobufMessage In = google::protobuf::Empty>
  Future<Out> submit(std::string_view task, In input = {}, const Options& options = {}) {
    auto state = std::make_shared<detail::WorkState<Out, detail::PendingTask>>();
    submit(state, state.get(), task, Payload::of(std::move(input)), Out::descriptor(), options);
    return Future<Out>{std::move(state)};
  }

  /// Runs a task whose reply is a stream of `Item`s; the errors are those of `submit`, read from the stream.
  template <ProtobufMessage Item, ProtobufMessage In = google::protobuf::Empty>
  [[nodiscard]] StreamReader<Item> stream(std::string_view task, In input = {}, const Options& options = {}) {
    auto state = std::make_shared<detail::StreamState<Item, detail::PendingTask>>();
    state->call.stream = true;
    submit(state, nullptr, task, Payload::of(std::move(input)), Item::descriptor(), options);
    return StreamReader<Item>{std::move(state)};
  }

  /// The same with messages whose C++ types are not known here.
  Future<Payload> submit_payload(std::string_view task, Payload input, const Options& options = {});

  // -- actors ----------------------------------------------------------------------------------

  /// Starts an actor of type `type` and waits until it is constructed. It lives until it is killed or the cluster ends.
  ///
  /// @returns `not_found` (no such type), `invalid_argument` (configuration, or a request that the type does not take:
  /// a GPUActor takes whole devices, a FractionalGPUActor a share below 1), `already_exists` (name), `infeasible`,
  /// `no_capacity` (`queue_timeout`), what its constructor reports.
  template <ProtobufMessage Config = google::protobuf::Empty>
  Result<ActorRef> spawn(std::string_view type, Config config = {}, const Options& options = {}) {
    return spawn_payload(type, Payload::of(std::move(config)), options).get();
  }

  /// The same without waiting. `Future::cancel` takes the wish back: an actor that is there by then is ended.
  template <ProtobufMessage Config = google::protobuf::Empty>
  Future<ActorRef> spawn_async(std::string_view type, Config config = {}, const Options& options = {}) {
    return spawn_payload(type, Payload::of(std::move(config)), options);
  }

  Future<ActorRef> spawn_payload(std::string_view type, Payload config, const Options& options = {});

  /// Finds an actor by name; waits while it is being started. @returns `not_found` with the nearest names.
  Result<ActorRef> find(std::string_view name, std::string_view name_space = {});

  /// Ends an actor; returns when it has ended and its memory is back.
  /// @returns `not_found`; `deadline_exceeded` when it is stuck in user code longer than the grace, or after the
  /// timeout.
  Result<void> kill(const ActorRef& actor, const KillOptions& options = {});
  Result<void> kill(std::string_view name, const KillOptions& options = {}, std::string_view name_space = {});

  // -- placement groups and nodes --------------------------------------------------------------

  /// Sets aside the resources of all `bundles` together or not at all, and waits until they are. Of each bundle only
  /// amounts, accelerator type, resources, node and labels count. Tasks and actors get into it by `Options::group` and
  /// `Options::bundle`. When a node or device takes some of its bundles along, they are placed anew as soon as there
  /// is room (`state` shows it), and what runs in the others goes on. It lives until it is removed or the cluster ends.
  /// One that shrinks is another matter: see `GroupOptions`.
  /// @returns `invalid_argument` naming the bundle and the rule, `infeasible` with the constraint, `no_capacity`
  ///          (`queue_timeout`).
  Result<PlacementGroup> create_group(const std::vector<Options>& bundles, const GroupOptions& options = {});

  /// The same without waiting. `Future::cancel` takes the wish back: a group that is placed by then is removed.
  Future<PlacementGroup> create_group_async(const std::vector<Options>& bundles, const GroupOptions& options = {});

  /// Ends the tasks and actors in a group, refuses what waits for it, and gives its resources back; returns when all of
  /// it is free. @returns `not_found`.
  Result<void> remove_group(GroupId group);

  /// The same without waiting.
  Future<void> remove_group_async(GroupId group);

  /// Places nothing new on a node. Without `empty_within`, what runs there goes on. With it, actors that have
  /// `max_restarts` move to other nodes as soon as there is room for them (no restart is used up; they find what they
  /// saved), and all else may run to its end. What is still there after that time is asked to stop and ended, as by
  /// `kill`. Does not wait for that: `state` shows what is left.
  /// @returns `not_found` with the nearest names.
  Result<void> drain(std::string_view node, std::optional<Duration> empty_within = {});

  // -- tensors ---------------------------------------------------------------------------------

  /// Copies `values` into host memory of this process, immutable from then on. Others on this machine read it where it
  /// is, those on other machines get a copy.
  /// @returns `invalid_argument` when the shape does not fit the values, `out_of_memory`, `unavailable` when there is
  /// no port or thread to serve it.
  template <class T>
  Result<Shared<Tensor>> put(std::span<const T> values, std::vector<std::int64_t> shape) {
    return put(values.data(), values.size(), dtype_of<T>, std::move(shape));
  }

  template <class T>
  Result<Shared<Tensor>> put(const std::vector<T>& values, std::vector<std::int64_t> shape) {
    return put(std::span<const T>{values}, std::move(shape));
  }

  /// Copies a device tensor into host memory of this process, so that it outlives the task or actor that made it.
  /// `stream` is the one that produced it.
  Result<Shared<Tensor>> put(const Tensor& tensor, Stream& stream);

  /// The tensor that a reference names, wherever in the cluster it was put; blocks until it is here. The errors are
  /// those of `TensorStore::get`: `not_found` when nobody keeps it any more, `worker_died` when its process has ended.
  Result<Shared<Tensor>> get(const v1::TensorRef& ref);

  // -- state -----------------------------------------------------------------------------------

  /// Nodes, devices, leases, actors and queue as of now; with `events_from` above 0 also the broker's decisions from
  /// that number on, in order.
  Result<v1::ClusterState> state(std::uint64_t events_from = 0);

  /// What an actor's worker processes wrote, line by line, with the lines of its earlier lives on the same node; with
  /// `LogsOptions::node`, those of a node. Blocks until the last line, with `follow` until the actor has ended for
  /// good, `line` returns false or `LogsOptions::stop` says so; the actor is followed to other nodes. What several
  /// actors of one process wrote, and does not say whose it is, is given for each of them.
  /// @returns `not_found` for a name that there is not; `unavailable` when the node cannot be reached, with `follow`
  ///          for so long that it is gone; `unsupported` in an embedded cluster, whose output is the program's.
  Result<void> logs(std::string_view actor, const LogsOptions& options, const LogSink& line);

  /// The types that this program has; none after a move from this object.
  [[nodiscard]] const TypeRegistry& types() const;

  /// The types that the nodes have, by their descriptions; of an embedded cluster, those of this program.
  Result<DescribedTypes> described_types();

  /// For CAF programs: the actor system that the cluster runs in. Only while the owner lives, and not on an object that
  /// was moved from.
  [[nodiscard]] caf::actor_system& system();

  /// Closes an owned cluster now; see the class. Idempotent.
  void close();

private:
  Cluster(std::shared_ptr<detail::ClusterCore> core, LeaseId parent, bool owner);

  void submit(const std::shared_ptr<detail::PendingTask>& pending, detail::FutureCore* future, std::string_view task,
              Payload input, const google::protobuf::Descriptor* output, const Options& options);
  Result<Shared<Tensor>> put(const void* values, std::size_t count, DType dtype, std::vector<std::int64_t> shape);
  Result<void> kill(std::string_view name, std::string_view name_space, ActorId id, const KillOptions& options);

  std::shared_ptr<detail::ClusterCore> core_;
  LeaseId parent_;
  bool owner_ = false;
};

} // namespace gpuactors
