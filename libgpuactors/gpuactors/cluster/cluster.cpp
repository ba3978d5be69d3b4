#include <gpuactors/base/random_id.hpp>
#include <gpuactors/base/thread_cache.hpp>
#include <gpuactors/cluster/cluster.hpp>
#include <gpuactors/cluster/daemon.hpp>
#include <gpuactors/cluster/detail/actor_cell.hpp>
#include <gpuactors/cluster/detail/actor_ends.hpp>
#include <gpuactors/cluster/detail/actor_reply.hpp>
#include <gpuactors/cluster/detail/check_options.hpp>
#include <gpuactors/cluster/detail/core.hpp>
#include <gpuactors/cluster/detail/message_reply.hpp>
#include <gpuactors/cluster/detail/spawn_notice.hpp>
#include <gpuactors/wire/closed.hpp>
#include <gpuactors/wire/protobuf.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

namespace gpuactors {

namespace {

/// Refuses options that need a separate process in an embedded cluster, which has only one.
Result<void> check_process(const Options& options, const detail::ClusterCore& core) {
  if (!options.environment.empty() && !core.connected())
    return fail(Errc::unsupported, "environment: an embedded cluster is one process and has one environment");
  return {};
}

/// The shape that a thread has made last.
struct LastShape {
  Options options;
  std::string task;
  Needs needs;
  LeaseId parent;
  bool connected = false;
  std::shared_ptr<const detail::TaskShape> shape;
};

/// Converts options to a shape. Programs submit many tasks with the same options: each thread caches its last shape.
Result<std::shared_ptr<const detail::TaskShape>> shape_of(const Options& options, const std::string& task,
                                                          const Needs& needs, LeaseId parent,
                                                          const std::string& quota_owner, bool connected) {
  auto* const last = ThreadCache<LastShape, LastShape>::get();
  // The parent tells the owner of the quota.
  if (last != nullptr && last->shape != nullptr && last->parent == parent && last->connected == connected
      && last->task == task && last->needs == needs && last->options == options)
    return last->shape;
  GPUACTORS_TRY(detail::check_for_task(options));
  GPUACTORS_LET(request, detail::to_request(options, needs, task));
  auto shape = std::make_shared<detail::TaskShape>();
  shape->request = std::move(request);
  shape->request.set_parent_lease(parent.value());
  shape->request.set_quota_owner(quota_owner);
  shape->request.set_isolated(shape->request.isolated() || options.max_calls > 0);
  // Other nodes may run other programs; an embedded cluster has one program, whose tasks of one name share leases.
  if (connected)
    shape->request.set_task(task);
  shape->max_calls = options.max_calls;
  shape->key = fmt::format("{}/{}", options.max_calls, deterministic_bytes(shape->request));
  if (last != nullptr)
    *last = LastShape{options, task, needs, parent, connected, shape};
  return shape;
}

} // namespace

namespace detail {

void end_owned(const OwnersCluster& cluster, const ActorRef& actor) noexcept {
  const auto core = cluster.lock();
  if (core == nullptr || !actor)
    return;
  v1::KillActor message;
  message.set_id(actor.id().value());
  *message.mutable_handle() = actor.to_message();
  message.set_no_restart(true);
  message.set_grace_ms(to_limit_ms(limits::stop_grace));
  core->ask_broker(std::make_shared<UnheardReply>(), never, std::move(message));
}

void end_owned(const OwnersCluster& cluster, const PlacementGroup& group) noexcept {
  const auto core = cluster.lock();
  if (core == nullptr)
    return;
  v1::ReleaseGroup message;
  message.set_id(group.id.value());
  core->ask_broker(std::make_shared<UnheardReply>(), never, std::move(message));
}

} // namespace detail

// -- life -----------------------------------------------------------------------------------------

Cluster::Cluster(std::shared_ptr<detail::ClusterCore> core, LeaseId parent, bool owner)
  : core_(std::move(core)), parent_(parent), owner_(owner) {
  // nop
}

Cluster::Cluster(Cluster&& other) noexcept
  : core_(std::move(other.core_)), parent_(other.parent_), run_(other.run_),
    quota_owner_(std::move(other.quota_owner_)), owner_(other.owner_.exchange(false)) {
  // nop
}

Cluster& Cluster::operator=(Cluster&& other) noexcept {
  if (this != &other) {
    close();
    core_ = std::move(other.core_);
    parent_ = other.parent_;
    run_ = other.run_;
    quota_owner_ = std::move(other.quota_owner_);
    owner_ = other.owner_.exchange(false);
  }
  return *this;
}

void notice_to_standard_error(std::string_view line) {
  std::cerr << fmt::format("gpuactors: {}\n", line);
}

Cluster::~Cluster() {
  close();
}

bool Cluster::closed() const noexcept {
  return core_ == nullptr || core_->closed();
}

void Cluster::close() {
  if (owner_.exchange(false))
    core_->shutdown();
}

Result<Cluster> Cluster::embed(EmbedOptions options) {
  GPUACTORS_LET(core, detail::ClusterCore::embed(std::move(options)));
  return Cluster{std::move(core), LeaseId{}, true};
}

Result<Cluster> Cluster::open(OpenOptions options) {
  GPUACTORS_TRY(options.check());
  return options.connects() ? connect(options.connect) : embed(std::move(options.embed));
}

Result<Cluster> Cluster::open(int argc, const char* const* argv) {
  if (const auto code = run_if_worker(argc, argv))
    std::_Exit(*code);
  GPUACTORS_LET(options, OpenOptions::from_arguments(argc, argv));
  return open(std::move(options));
}

Result<Cluster> Cluster::connect(const ConnectOptions& options) {
  GPUACTORS_LET(core, detail::ClusterCore::connect(options));
  return Cluster{std::move(core), LeaseId{}, true};
}

Cluster Cluster::from(const HolderContext& holder) {
  Cluster cluster{std::dynamic_pointer_cast<detail::ClusterCore>(holder.cluster_link()), holder.lease().id, false};
  cluster.run_ = holder.run();
  cluster.quota_owner_ = holder.lease().quota_owner;
  return cluster;
}

// -- tasks ----------------------------------------------------------------------------------------

Future<Payload> Cluster::submit_payload(std::string_view task, Payload input, const Options& options) {
  auto state = std::make_shared<detail::WorkState<Payload, detail::PendingTask>>();
  submit(state, state.get(), task, std::move(input), nullptr, options);
  return Future<Payload>{std::move(state)};
}

void Cluster::submit(const std::shared_ptr<detail::PendingTask>& pending, detail::FutureCore* future,
                     std::string_view task, Payload input, const google::protobuf::Descriptor* output,
                     const Options& options) {
  auto* dispatcher = core_ != nullptr ? core_->dispatcher() : nullptr;
  if (dispatcher == nullptr)
    return pending->finish(fail(cluster_closed()));
  if (future != nullptr)
    future->executor = core_->executor();
  auto checked = [&]() -> Result<std::shared_ptr<const detail::TaskShape>> {
    GPUACTORS_TRY(input.check_size());
    const auto type = core_->registry().find_task(task);
    GPUACTORS_TRY(check_process(options, *core_));
    if (!type && core_->connected())
      return shape_of(options, std::string{task}, {}, parent_, quota_owner_,
                      true); // the node that has the type checks the rest
    if (!type)
      return fail(type.error());
    GPUACTORS_TRY(detail::check_call(**type, {input, output, pending->call.stream},
                                     [&] { return fmt::format("task {}", (*type)->name); }));
    return shape_of(options, (*type)->name, (*type)->needs, parent_, quota_owner_, core_->connected());
  }();
  if (!checked)
    return pending->finish(fail(checked.error()));
  pending->core = core_;
  pending->call.method = task;
  pending->call.payload = std::move(input);
  pending->begin_span(pending->call, nullptr);
  pending->retries_left = options.max_retries;
  pending->retry_errors = options.retry_errors;
  dispatcher->submit(pending, std::move(*checked), options.queue_timeout, options.deadline);
}

// -- actors ---------------------------------------------------------------------------------------

Future<ActorRef> Cluster::spawn_payload(std::string_view type, Payload config, const Options& options) {
  std::uint64_t origin = 0;
  return begin_spawn(type, std::move(config), options, origin);
}

Result<ActorRef> Cluster::spawn_now(std::string_view type, Payload config, const Options& options) {
  std::uint64_t origin = 0;
  auto future = begin_spawn(type, std::move(config), options, origin);
  const auto begun = Clock::now();
  // A wait that ends before its time is told to: nothing is said then.
  const auto waits = [&](Duration wait) {
    const auto due = deadline_after(Clock::now(), wait);
    return !future.wait(wait) && Clock::now() >= due;
  };
  for (auto wait = core_ != nullptr ? core_->spawn_notice() : Duration::zero(); wait > Duration::zero() && waits(wait);
       wait = std::min<Duration>(2 * wait, limits::notice_longest)) {
    StateOptions patience;
    patience.timeout = limits::link_timeout;
    auto looked = state_async(patience);
    constexpr std::chrono::milliseconds slice{50};
    while (!looked.ready())
      if (!waits(slice))
        return future.get();
    core_->notice(
        detail::spawn_notice(looked.get(), origin, {options.name_space, options.name, type}, Clock::now() - begun));
  }
  return future.get();
}

Future<ActorRef> Cluster::begin_spawn(std::string_view type, Payload config, const Options& options,
                                      std::uint64_t& origin) {
  if (core_ == nullptr)
    return Future<ActorRef>::ready_with(fail(cluster_closed()));
  auto request = [&]() -> Result<v1::ResourceRequest> {
    GPUACTORS_TRY(config.check_size());
    GPUACTORS_TRY(detail::check_for_actor(options));
    GPUACTORS_TRY(check_process(options, *core_));
    const auto known = core_->registry().find_actor(type);
    if (!known && core_->connected())
      return detail::to_request(options, {}, ""); // the node that has the type checks the rest
    if (!known)
      return fail(known.error());
    const auto* found = *known;
    if (config.type_name() != found->config->full_name())
      return fail(Errc::invalid_argument, fmt::format("actor type {} is configured with a {}, not with a {}", type,
                                                      found->config->full_name(), config.type_name()));
    GPUACTORS_LET(made, detail::to_request(options, found->needs, ""));
    GPUACTORS_TRY(check_ownership(found->ownership, Share{made.gpu_units()}, made.memory_bytes(), found->name));
    return std::move(made);
  }();
  if (!request)
    return Future<ActorRef>::ready_with(fail(request.error()));
  v1::SpawnActor message;
  auto* spec = message.mutable_spec();
  spec->set_type(std::string{type});
  spec->set_name(options.name);
  spec->set_max_restarts(options.max_restarts);
  spec->set_max_pending_calls(options.max_pending_calls);
  spec->set_max_task_retries(options.max_task_retries);
  spec->set_detached(options.detached);
  spec->set_isolated(request->isolated());
  if (options.restart_window)
    spec->set_restart_window_ms(detail::to_limit_ms(*options.restart_window));
  if (options.spawn_timeout)
    spec->set_spawn_timeout_ms(detail::to_limit_ms(*options.spawn_timeout));
  if (options.stuck_after)
    spec->set_stuck_after_ms(detail::to_limit_ms(*options.stuck_after));
  spec->set_name_space(options.name_space);
  origin = random_id();
  spec->set_origin(origin);
  if (parent_ && !options.detached)
    set_spawner(*spec->mutable_spawner());
  message.set_get_if_exists(options.get_if_exists);
  message.set_client(core_->client());
  message.set_client_request(core_->next_request());
  request->set_parent_lease(parent_.value());
  request->set_quota_owner(quota_owner_);
  if (options.queue_timeout)
    request->set_queue_timeout_ms(detail::to_limit_ms(*options.queue_timeout));
  *message.mutable_request() = std::move(*request);
  auto reply = std::make_shared<detail::ActorReply>(core_, message.client_request());
  reply->executor = core_->executor();
  const auto until =
      options.queue_timeout && options.spawn_timeout
          ? detail::answered_by(deadline_after(Clock::now(), *options.queue_timeout), *options.spawn_timeout)
          : never;
  core_->ask_broker(reply, until, std::move(message), std::move(config));
  return Future<ActorRef>{std::move(reply)};
}

void Cluster::set_spawner(v1::Spawner& spawner) const {
  spawner.set_lease(parent_.value());
  spawner.set_run(run_);
  if (run_ != 0)
    core_->note_spawner(parent_, run_);
}

Future<ActorRef> Cluster::find_async(const ActorKey& actor, Duration timeout) {
  if (core_ == nullptr)
    return Future<ActorRef>::ready_with(fail(cluster_closed()));
  if (auto named = actor.check(); !named)
    return Future<ActorRef>::ready_with(fail(std::move(named).error()));
  v1::FindActor message;
  actor.write_to(message);
  auto reply = std::make_shared<detail::FoundReply>(core_, to_string(actor), timeout);
  reply->executor = core_->executor();
  core_->ask_for_actor(reply, deadline_after(Clock::now(), timeout), std::move(message));
  return Future<ActorRef>{std::move(reply)};
}

Future<ActorEnd> Cluster::when_ended(const ActorKey& actor) {
  if (core_ == nullptr)
    return Future<ActorEnd>::ready_with(fail(cluster_closed()));
  if (auto named = actor.check(); !named)
    return Future<ActorEnd>::ready_with(fail(std::move(named).error()));
  return core_->ends().await(*core_, actor, nullptr);
}

Future<void> Cluster::kill_async(const ActorKey& actor, const KillOptions& options) {
  if (core_ == nullptr)
    return Future<void>::ready_with(fail(cluster_closed()));
  if (auto named = actor.check(); !named)
    return Future<void>::ready_with(fail(std::move(named).error()));
  v1::KillActor message;
  actor.write_to(message);
  message.set_no_restart(!options.restart);
  message.set_grace_ms(detail::to_limit_ms(options.grace));
  message.set_from_lease(parent_.value());
  message.set_client(core_->client());
  message.set_client_request(core_->next_request());
  const auto now = Clock::now();
  const auto until = options.timeout ? deadline_after(now, *options.timeout)
                                     : deadline_after(deadline_after(now, options.grace), limits::call_deadline);
  return detail::ask_done(*core_, until, std::move(message));
}

// -- tensors --------------------------------------------------------------------------------------

Result<Shared<Tensor>> Cluster::put(const void* values, std::size_t count, DType dtype,
                                    std::vector<std::int64_t> shape) {
  if (core_ == nullptr)
    return fail(cluster_closed());
  return core_->tensors()->put_copy(values, count, dtype, std::move(shape));
}

Result<Shared<Tensor>> Cluster::put(const Tensor& tensor, Stream& stream) {
  if (core_ == nullptr)
    return fail(cluster_closed());
  return core_->tensors()->put_copy(tensor, stream);
}

Result<TensorDraft> Cluster::draft(DType dtype, std::vector<std::int64_t> shape) {
  if (core_ == nullptr)
    return fail(cluster_closed());
  return core_->tensors()->draft(dtype, std::move(shape));
}

Result<Shared<Tensor>> Cluster::get(const v1::TensorRef& ref, Duration timeout) {
  if (core_ == nullptr)
    return fail(cluster_closed());
  return core_->tensors()->get(ref, timeout);
}

// -- state ----------------------------------------------------------------------------------------

Result<v1::ClusterState> Cluster::state(const StateOptions& options) {
  return state_async(options).get();
}

Future<v1::ClusterState> Cluster::state_async(const StateOptions& options) {
  if (core_ == nullptr)
    return Future<v1::ClusterState>::ready_with(fail(cluster_closed()));
  v1::GetState message;
  message.set_events_from(options.events_from);
  message.set_ended(options.ended);
  message.set_only_past(options.only_past);
  auto reply = std::make_shared<detail::MessageReply<v1::ClusterState>>();
  reply->executor = core_->executor();
  core_->ask_broker(reply, deadline_after(Clock::now(), options.timeout), std::move(message));
  return Future<v1::ClusterState>{std::move(reply)};
}

const TypeRegistry& Cluster::types() const {
  static const TypeRegistry none;
  return core_ != nullptr ? core_->registry() : none;
}

Future<DescribedTypes> Cluster::described_types_async(std::string_view wanted) {
  if (core_ == nullptr)
    return Future<DescribedTypes>::ready_with(fail(cluster_closed()));
  if (!core_->connected())
    return Future<DescribedTypes>::ready_with(DescribedTypes::of(core_->registry()));
  v1::GetTypes message;
  message.set_wanted(std::string{wanted});
  auto reply = std::make_shared<detail::MessageReply<v1::TypeCatalog>>();
  reply->executor = core_->executor();
  core_->ask_broker(reply, deadline_after(Clock::now(), limits::call_deadline), std::move(message));
  return Future<v1::TypeCatalog>{std::move(reply)}.transform(
      [](v1::TypeCatalog catalog) { return DescribedTypes{std::move(catalog)}; });
}

caf::actor_system& Cluster::system() {
  return core_->system();
}

} // namespace gpuactors
