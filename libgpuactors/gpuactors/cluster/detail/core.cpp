#include <gpuactors/agent/node_agent.hpp>
#include <gpuactors/base/random_id.hpp>
#include <gpuactors/base/utf8.hpp>
#include <gpuactors/base/version.hpp>
#include <gpuactors/broker/resource_broker.hpp>
#include <gpuactors/cluster/detail/actor_cell.hpp>
#include <gpuactors/cluster/detail/actor_ends.hpp>
#include <gpuactors/cluster/detail/agent_watches.hpp>
#include <gpuactors/cluster/detail/check_options.hpp>
#include <gpuactors/cluster/detail/close_notice.hpp>
#include <gpuactors/cluster/detail/core.hpp>
#include <gpuactors/cluster/detail/device_messages.hpp>
#include <gpuactors/cluster/detail/message_reply.hpp>
#include <gpuactors/cluster/detail/offered_resources.hpp>
#include <gpuactors/cluster/detail/own_address.hpp>
#include <gpuactors/cluster/detail/system_parts.hpp>
#include <gpuactors/device/discovery.hpp>
#include <gpuactors/wire/errors.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <thread>
#include <utility>
#include <vector>

namespace gpuactors::detail {

struct ClusterCore::Config : caf::actor_system_config {
  Config() {
    caf_version::add_types<caf::id_block::gpuactors>(*this);
    caf_version::set_scheduler(*this, std::clamp(std::thread::hardware_concurrency(), 1U, 4U));
  }
};

namespace {

TensorLinks tensor_links(const ConnectOptions& options, const std::vector<Endpoint>& broker, const LinkOptions& links) {
  TensorLinks result;
  result.listening = options.listening;
  // Without a route to the broker now, only processes of this machine can get this program's tensors.
  if (result.listening.host.empty())
    if (auto own = address_towards(broker))
      result.listening.host = std::move(*own);
  result.certificates = links.certificates;
  const char* shares = std::getenv("GPUACTORS_SHARED_MEMORY");
  result.shares_memory = shares == nullptr || std::string_view{shares} != "0";
  return result;
}

/// The client's name for display: "trainer on gpu-3, process 4711".
std::string describe_process() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  // The name of a file may be any bytes, and a message with others than UTF-8 cannot be read.
  return to_utf8(fmt::format("{} on {}, process {}", program_invocation_short_name, host.data(), getpid()));
}

} // namespace

// -- life -----------------------------------------------------------------------------------------

ClusterCore::ClusterCore()
  : executor_(std::make_shared<Executor>()), tensors_(std::make_shared<TensorStore>()),
    quotas_(std::make_shared<QuotaTable>()), holders_(std::make_shared<HolderTable>()),
    ends_(std::make_shared<ActorEnds>()), agent_watches_(std::make_shared<AgentWatches>()) {
  // nop
}

ClusterCore::~ClusterCore() {
  shutdown();
}

Result<std::shared_ptr<ClusterCore>> ClusterCore::embed(EmbedOptions options) {
  auto core = std::shared_ptr<ClusterCore>{new ClusterCore};
  if (auto started = core->start(std::move(options)); !started) {
    core->shutdown();
    return fail(started.error());
  }
  caf_version::forget_system();
  return core;
}

Result<std::shared_ptr<ClusterCore>> ClusterCore::connect(const ConnectOptions& options,
                                                          const std::function<Result<void>(ClusterCore&)>& on_system) {
  auto core = std::shared_ptr<ClusterCore>{new ClusterCore};
  if (auto started = core->start(options, on_system); !started) {
    core->shutdown();
    return fail(started.error());
  }
  caf_version::forget_system();
  return core;
}

Result<void> ClusterCore::open(std::shared_ptr<const TypeRegistry> registry, const std::optional<LinkOptions>& links) {
  init_message_types();
  registry_ = registry != nullptr
                  ? std::move(registry)
                  : std::shared_ptr<const TypeRegistry>{std::shared_ptr<void>{}, &TypeRegistry::global()};
  GPUACTORS_TRY(registry_->check());

  config_ = std::make_unique<Config>();
  if (links)
    configure_links(*config_, *links);
  auto on_message = [weak = weak_from_this()](MessageContent& content) {
    const auto self = weak.lock();
    if (self == nullptr)
      return;
    if (content.match_elements<v1::ReclaimLease>()) {
      self->dispatcher_->reclaim(LeaseId{content.get_as<v1::ReclaimLease>(0).lease()});
    } else if (content.match_elements<v1::CancelCall>()) {
      const auto& message = content.get_as<v1::CancelCall>(0);
      self->dispatcher_->taken_back(CallId{message.call()}, LeaseId{message.lease()});
    }
  };
  GPUACTORS_LET(parts, start_system(*config_, std::move(on_message)));
  system_ = std::move(parts.system);
  system_threads_ = system_->detached_actors();
  port_ = std::move(parts.port);
  client_ = random_id();
  if (links) {
    GPUACTORS_LET(made, Links::make(*system_, *port_, *links));
    links_ = std::move(made);
    workers_ = std::make_shared<WorkerLinks>(*port_, *links_);
  }
  broker_link_ = std::make_shared<BrokerLink>(*port_, [weak = weak_from_this(), client = client_] {
    v1::Hello hello;
    hello.set_client(client);
    hello.set_name(describe_process());
    hello.set_release(release);
    if (const auto self = weak.lock()) {
      hello.set_reconnect_grace_ms(self->reconnect_grace_ms_);
      for (const auto lease : self->dispatcher_->leases())
        hello.add_leases(lease.value());
      if (self->links_ != nullptr) {
        const auto& options = self->links_->options();
        hello.set_heartbeat_ms(to_milliseconds(options.heartbeat));
        hello.set_link_timeout_ms(to_milliseconds(options.timeout));
      }
    }
    return hello;
  });
  dispatcher_ = std::make_shared<TaskDispatcher>(*port_, broker_link_, workers_, client_);
  return {};
}

Result<void> ClusterCore::start(EmbedOptions options) {
  close_notice_ = options.close_notice;
  spawn_notice_ = options.spawn_notice;
  notice_ = std::move(options.notice);
  GPUACTORS_TRY(open(std::move(options.registry), std::nullopt));
  BrokerOptions broker;
  if (!options.record.empty()) {
    auto recording = std::make_shared<std::ofstream>(options.record, std::ios::binary);
    if (!*recording)
      return fail(Errc::invalid_argument,
                  fmt::format("the recording {} cannot be written: {}", options.record, std::strerror(errno)));
    broker.recording = std::move(recording);
  }
  broker_ = caf::actor_cast<caf::strong_actor_ptr>(system_->spawn<ResourceBroker>(std::move(broker)));
  broker_link_->attach(broker_);

  GPUACTORS_TRY(check_nodes(options));
  if (options.nodes.empty()) {
    EmbeddedNode local;
    local.name = "local";
    local.devices = options.devices;
    local.accelerator_root = options.accelerator_root;
    local.runtime_source = options.runtime_source;
    options.nodes.push_back(std::move(local));
  }
  for (const auto& node : options.nodes)
    GPUACTORS_TRY(add_node(node));
  return {};
}

Result<void> ClusterCore::start(const ConnectOptions& options,
                                const std::function<Result<void>(ClusterCore&)>& on_system) {
  GPUACTORS_TRY(check_connection(options));
  close_notice_ = options.close_notice;
  spawn_notice_ = options.spawn_notice;
  notice_ = options.notice;
  GPUACTORS_LET(broker, parse_endpoints(options.broker));
  GPUACTORS_LET(links, link_options(options.certificates, options.insecure, false));
  links.heartbeat = options.heartbeat;
  links.timeout = options.link_timeout;
  GPUACTORS_TRY(open(options.registry, links));
  tensors_ = std::make_shared<TensorStore>(tensor_links(options, broker, links));
  if (on_system)
    GPUACTORS_TRY(on_system(*this));
  if (options.reconnect_grace > Duration::zero())
    reconnect_grace_ms_ = to_milliseconds(options.reconnect_grace);
  broker_link_->connect(*links_, broker);
  // Also where processes give each other up early, a first connection takes its time.
  const auto timeout = options.timeout.value_or(2 * std::max<Duration>(options.link_timeout, limits::link_timeout));
  if (timeout <= Duration::zero())
    return {};
  if (auto up = broker_link_->wait_until_up(timeout); !up)
    return fail(up.error().code(),
                fmt::format("cannot connect to the broker at {}: {}", to_string(broker), up.error().message()));
  return {};
}

Result<void> ClusterCore::add_node(const EmbeddedNode& node) {
  GPUACTORS_LET(described, describe_node({node.name, node.labels, node.cpus, node.resources, node.host_memory_bytes,
                                          node.accelerator_root}));
  GPUACTORS_LET(specs, parse_device_specs(node.devices));
  GPUACTORS_LET(devices, make_devices(specs, discovery_options(node.name)));
  if (node.decorate)
    for (auto& device : devices)
      device = node.decorate(std::move(device));
  add_devices(devices, described);

  auto services = std::make_shared<ProcessServices>();
  services->node = node.name;
  services->devices = devices;
  services->runtime_source = node.runtime_source;
  fill(*services);
  auto agent = caf::actor_cast<caf::strong_actor_ptr>(
      system_->spawn<NodeAgent>(std::move(services), caf::actor_cast<BrokerHandle>(broker_), described));
  agents_.push_back(agent);
  v1::RegisterNode message;
  *message.mutable_node() = described;
  message.set_release(release);
  auto reply = std::make_shared<DoneReply>();
  port_->ask(reply, broker_, never, std::move(message), agent);
  GPUACTORS_TRY(Future<void>{reply}.get());
  // An embedded cluster has no operator to read the notices.
  watches_.push_back(watch_devices(described, agent, [](const std::string&) {}));
  return {};
}

void ClusterCore::fill(ProcessServices& services) {
  services.registry = registry_;
  services.tasks = std::make_shared<CallTable>(registry_->task_names());
  services.holders = holders_;
  services.quotas = quotas_;
  services.tensors = tensors_;
  tensors_->use_devices(services.devices);
  services.threads = threads_;
  services.cluster = weak_from_this();
  if (links_ != nullptr)
    services.lanes = links_->lanes();
}

void ClusterCore::shutdown() {
  std::call_once(shutdown_once_, [this] {
    if (links_ != nullptr && broker_link_ != nullptr)
      say_goodbye();
    closed_ = true;
    if (broker_link_ != nullptr)
      broker_link_->close();
    if (port_ != nullptr)
      port_->close();
    if (workers_ != nullptr)
      workers_->close();
    // Running tasks and actors may still use the links: they are closed here, and destroyed with this object.
    if (links_ != nullptr)
      links_->close();
    watches_.clear();
    for (const auto& agent : agents_)
      caf::anon_send_exit(agent, caf::exit_reason::user_shutdown);
    agents_.clear();
    if (broker_ != nullptr)
      caf::anon_send_exit(broker_, caf::exit_reason::user_shutdown);
    broker_ = nullptr;
    if (dispatcher_ != nullptr)
      dispatcher_->close();
    release_cells();
    // Ends all waits for tensors.
    tensors_->close();
    // Waits for every holder to end, and for its thread: no user code runs afterwards.
    if (system_ != nullptr)
      await_holders();
    executor_->stop();
  });
}

void ClusterCore::say_goodbye() {
  // Without the goodbye, the broker would keep the program's work for the grace, in vain. If the broker does not answer
  // in time, it does so.
  constexpr std::chrono::seconds patience{1};
  v1::Goodbye message;
  message.set_client(client_);
  // Without a grace, a broker keeps work only in the seconds after it stood still: that is not worth a wait.
  if (reconnect_grace_ms_ == 0)
    return broker_link_->tell(std::move(message));
  auto reply = std::make_shared<DoneReply>();
  broker_link_->ask(reply, deadline_after(Clock::now(), patience), std::move(message));
  static_cast<void>(Future<void>{std::move(reply)}.get());
}

void ClusterCore::ask_for_actor(const std::shared_ptr<PendingReply>& reply, TimePoint deadline, v1::FindActor message) {
  message.set_client(client_);
  if (deadline != never)
    message.set_limit_ms(to_limit_ms(deadline - Clock::now()));
  ask_broker(reply, deadline, std::move(message));
}

void ClusterCore::note_spawner(LeaseId lease, std::uint64_t run) {
  const std::lock_guard lock{spawners_mutex_};
  spawners_.emplace(lease, run);
}

void ClusterCore::task_ended(LeaseId lease, std::uint64_t run) noexcept {
  try {
    const auto has_spawned = [&] {
      const std::lock_guard lock{spawners_mutex_};
      return spawners_.erase({lease, run}) > 0;
    };
    if (closed() || !has_spawned())
      return;
    v1::Goodbye message;
    message.mutable_task()->set_lease(lease.value());
    message.mutable_task()->set_run(run);
    broker_link_->tell(std::move(message));
  } catch (const std::exception&) { // no memory for the message: what was spawned ends with the lease
  }
}

void ClusterCore::notice(std::string_view line) const noexcept {
  try {
    if (notice_)
      notice_(line);
  } catch (...) { // the program's own function
  }
}

void ClusterCore::await_holders() {
  const CloseNotice says_why{holders_, close_notice_, notice_};
  system_->await_all_actors_done();
  threads_->join();
  // The users' own detached CAF actors count as done before their threads end. Those threads still cancel timeouts at a
  // clock that the system stops before it waits for threads: thousands at once would fill the clock's queue and block
  // forever.
  const auto give_up = Clock::now() + limits::call_deadline;
  while (system_->detached_actors() > system_threads_ && Clock::now() < give_up)
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
}

void ClusterCore::locate(const v1::ActorInfo& info, HolderHandles told, WorkerLinks::OnFound done) {
  if (told.holder != nullptr)
    return done(std::move(told));
  if (workers_ == nullptr)
    return done(fail(Errc::internal, "the broker's answer has no handle"));
  v1::FindHolder wanted;
  wanted.set_lease(info.lease().id());
  wanted.set_epoch(info.lease().epoch());
  workers_->find(info.address(), wanted, std::move(done));
}

void ClusterCore::set_life(ActorCell& cell, const v1::ActorInfo& info, const HolderHandles& handles) {
  auto life = std::make_shared<const ActorLife>(ActorLife{LeaseId{info.lease().id()}, handles});
  {
    const std::lock_guard lock{cell.mutex};
    cell.info = info;
    // Found by two who looked for it at once: to calls that are under way, another life would be their end.
    if (cell.life != nullptr && cell.life->handles.holder == handles.holder
        && !cell.down.load(std::memory_order_relaxed))
      return;
    cell.ended.reset();
    cell.lives_again.store(info.max_restarts() != 0, std::memory_order_relaxed);
    cell.life = std::move(life);
    cell.lives.fetch_add(1, std::memory_order_release);
    cell.down.store(false, std::memory_order_release);
  }
  const auto address = caf::actor_cast<caf::actor_addr>(handles.holder);
  if (!add_cell(address, cell))
    return;
  // The actor is marked as down before its requests fail: a callback that calls again then looks the actor up.
  port_->on_end(handles.holder, [weak = weak_from_this(), address](const caf::error& reason) {
    const auto self = weak.lock();
    if (self == nullptr)
      return;
    const bool lost = reason == caf::exit_reason::remote_link_unreachable;
    self->mark_down(address, lost);
    // An actor that ends in order has answered what it has begun.
    self->port_->fail_receiver(address, lost ? Error{Errc::worker_died, "the process that it ran in has ended, or the "
                                                                        "connection to it is lost"}
                                             : Error{Errc::not_begun, "it ended before the call began"});
  });
}

bool ClusterCore::add_cell(const caf::actor_addr& address, ActorCell& cell) {
  const std::lock_guard lock{cells_mutex_};
  if (++cells_count_ >= cells_prune_at_) {
    cells_count_ = 0;
    for (auto& [known, cells] : cells_) {
      std::erase_if(cells, [](const auto& weak) { return weak.expired(); });
      cells_count_ += cells.size();
    }
    cells_prune_at_ = std::max<std::size_t>(64, 2 * cells_count_);
  }
  // An entry without cells stays while its actor lives, since the actor is still watched.
  const auto [entry, is_new] = cells_.try_emplace(address);
  entry->second.push_back(cell.weak_from_this());
  return is_new;
}

std::shared_ptr<std::atomic<std::size_t>> ClusterCore::pending_of(ActorId id) {
  const std::lock_guard lock{cells_mutex_};
  auto count = pending_[id].lock();
  if (count != nullptr)
    return count;
  count = std::make_shared<std::atomic<std::size_t>>(0);
  pending_[id] = count;
  if (pending_.size() >= pending_prune_at_) {
    std::erase_if(pending_, [](const auto& item) { return item.second.expired(); });
    pending_prune_at_ = std::max<std::size_t>(64, 2 * pending_.size());
  }
  return count;
}

void ClusterCore::mark_down(const caf::actor_addr& address, bool lost) {
  decltype(cells_)::node_type entry;
  {
    const std::lock_guard lock{cells_mutex_};
    entry = cells_.extract(address);
  }
  if (entry.empty())
    return;
  for (const auto& weak : entry.mapped())
    if (const auto cell = weak.lock()) {
      const std::lock_guard lock{cell->mutex};
      if (cell->life != nullptr && caf::actor_cast<caf::actor_addr>(cell->life->handles.holder) == address) {
        cell->lost.store(lost, std::memory_order_relaxed);
        cell->down.store(true, std::memory_order_release);
      }
    }
}

void ClusterCore::release_cells() {
  const std::lock_guard lock{cells_mutex_};
  for (const auto& [address, cells] : cells_)
    for (const auto& weak : cells)
      if (const auto cell = weak.lock()) {
        const std::lock_guard cell_lock{cell->mutex};
        cell->life = nullptr;
        cell->down = true;
      }
  cells_.clear();
}

} // namespace gpuactors::detail
