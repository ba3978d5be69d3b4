#include <gpuactors/agent/node_agent.hpp>
#include <gpuactors/broker/convert.hpp>
#include <gpuactors/broker/resource_broker.hpp>
#include <gpuactors/cluster/detail/core.hpp>
#include <gpuactors/device/accelerators.hpp>
#include <gpuactors/device/discovery.hpp>
#include <gpuactors/wire/errors.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <thread>

namespace gpuactors::detail {

struct ClusterCore::Config : caf::actor_system_config {
  Config() {
    caf_version::add_types<caf::id_block::gpuactors>(*this);
    caf_version::set_scheduler(*this, std::clamp(std::thread::hardware_concurrency(), 1U, 4U));
  }
};

namespace {

/// A reply whose content nobody needs.
class DoneReply : public FutureState<bool>, public PendingReply {
public:
  void on_reply(caf_version::Content&) override {
    complete(true);
  }

  void on_error(Error error) override {
    complete(fail(std::move(error)));
  }
};

Share hardware_cpus() {
  return Share::whole(std::max(1U, std::thread::hardware_concurrency()));
}

} // namespace

// -- life -----------------------------------------------------------------------------------------

ClusterCore::ClusterCore()
  : executor_(std::make_shared<Executor>()), tensors_(std::make_shared<TensorStore>()),
    quotas_(std::make_shared<QuotaTable>()) {
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
  return core;
}

Result<void> ClusterCore::start(EmbedOptions options) {
  static const bool types_known = [] {
    caf_version::init_types<caf::id_block::gpuactors>();
    return true;
  }();
  static_cast<void>(types_known);
  registry_ = options.registry != nullptr
                  ? std::move(options.registry)
                  : std::shared_ptr<const TypeRegistry>{std::shared_ptr<void>{}, &TypeRegistry::global()};
  GPUACTORS_TRY(registry_->check());
  // The program's own tensors live in host memory, as on a device of their own that no lease is granted on.
  GPUACTORS_LET(specs, parse_device_specs("host:1"));
  GPUACTORS_LET(memory, make_devices(specs, discovery_options("client")));
  GPUACTORS_LET(context, Context::open(memory.front(), {.holder = "this program's tensors"}));
  memory_ = std::move(context);

  std::shared_ptr<std::ofstream> recording;
  if (!options.record.empty()) {
    recording = std::make_shared<std::ofstream>(options.record, std::ios::binary);
    if (!*recording)
      return fail(Errc::invalid_argument,
                  fmt::format("the recording {} cannot be written: {}", options.record, std::strerror(errno)));
  }

  config_ = std::make_unique<Config>();
  system_ = std::make_unique<caf::actor_system>(*config_);
  broker_ = caf::actor_cast<caf::strong_actor_ptr>(system_->spawn<ResourceBroker>(std::move(recording)));
  port_ = std::make_unique<RequestPort>(*system_, [weak = weak_from_this()](caf_version::Content& content) {
    const auto self = weak.lock();
    if (self != nullptr && content.match_elements<v1::ReclaimLease>())
      self->dispatcher_->reclaim(LeaseId{content.get_as<v1::ReclaimLease>(0).lease()});
  });
  dispatcher_ = std::make_shared<TaskDispatcher>(*port_, broker_);

  if (options.nodes.empty()) {
    EmbeddedNode local;
    local.name = "local";
    local.devices = options.devices;
    local.accelerator_root = options.accelerator_root;
    options.nodes.push_back(std::move(local));
  }
  for (const auto& node : options.nodes)
    GPUACTORS_TRY(add_node(node));
  return {};
}

Result<void> ClusterCore::add_node(const EmbeddedNode& node) {
  NodeOptions described;
  described.name = node.name;
  described.labels = node.labels;
  if (node.cpus < 0) {
    described.cpus = hardware_cpus();
  } else {
    GPUACTORS_LET(cpus, Share::from_double(node.cpus, fmt::format("cpus of node {}", node.name)));
    described.cpus = cpus;
  }
  for (const auto& [name, amount] : node.resources) {
    GPUACTORS_LET(share, Share::from_double(amount, fmt::format("resource {} of node {}", name, node.name)));
    described.resources.emplace(name, share);
  }
  GPUACTORS_TRY(check_whole_units(described.resources));
  GPUACTORS_LET(found, discover_accelerators(node.accelerator_root, described.resources));
  described.resources.merge(found);
  GPUACTORS_LET(specs, parse_device_specs(node.devices));
  GPUACTORS_LET(devices, make_devices(specs, discovery_options(node.name)));
  if (node.decorate)
    for (auto& device : devices)
      device = node.decorate(std::move(device));

  auto services = std::make_shared<ProcessServices>();
  services->node = node.name;
  services->devices = devices;
  services->registry = registry_;
  services->quotas = quotas_;
  services->tensors = tensors_;
  services->cluster = weak_from_this();
  auto agent = caf::actor_cast<caf::strong_actor_ptr>(
      system_->spawn<NodeAgent>(std::move(services), caf::actor_cast<BrokerHandle>(broker_), described.resources));
  agents_.push_back(agent);
  v1::RegisterNode message;
  *message.mutable_node() = describe_node(described, devices);
  auto reply = std::make_shared<DoneReply>();
  port_->ask(reply, broker_, never, std::move(message), agent);
  GPUACTORS_TRY(Future<bool>{reply}.get());
  return {};
}

void ClusterCore::shutdown() {
  std::call_once(shutdown_once_, [this] {
    if (port_ != nullptr)
      port_->close();
    for (const auto& agent : agents_)
      caf::anon_send_exit(agent, caf::exit_reason::user_shutdown);
    agents_.clear();
    if (broker_ != nullptr)
      caf::anon_send_exit(broker_, caf::exit_reason::user_shutdown);
    broker_ = nullptr;
    dispatcher_.reset();
    release_cells();
    // Waits for every holder to end: nothing of the user's runs afterwards.
    if (system_ != nullptr)
      system_->await_all_actors_done();
    executor_->stop();
    memory_.reset();
  });
}

void ClusterCore::set_place(ActorCell& cell, const v1::ActorInfo& info, const caf::strong_actor_ptr& handle,
                            const caf::strong_actor_ptr& control) {
  {
    const std::lock_guard lock{cell.mutex};
    cell.info = info;
    cell.handle = handle;
    cell.control = control;
    cell.down.store(false, std::memory_order_release);
  }
  {
    const std::lock_guard lock{cells_mutex_};
    if (cells_.size() >= cells_prune_at_) {
      std::erase_if(cells_, [](const auto& weak) { return weak.expired(); });
      cells_prune_at_ = std::max<std::size_t>(64, 2 * cells_.size());
    }
    cells_.push_back(cell.weak_from_this());
  }
  handle->get()->attach_functor([weak = std::weak_ptr{cell.shared_from_this()}, id = handle->id()] {
    if (const auto known = weak.lock()) {
      const std::lock_guard lock{known->mutex};
      if (known->handle != nullptr && known->handle->id() == id)
        known->down.store(true, std::memory_order_release);
    }
  });
  port_->watch(handle, Error{Errc::actor_died, "the actor ended before it answered"});
}

void ClusterCore::release_cells() {
  const std::lock_guard lock{cells_mutex_};
  for (const auto& weak : cells_)
    if (const auto cell = weak.lock()) {
      const std::lock_guard cell_lock{cell->mutex};
      cell->handle = nullptr;
      cell->control = nullptr;
      cell->down = true;
    }
  cells_.clear();
}

// -- helpers --------------------------------------------------------------------------------------

Result<void> check_types(std::string_view what, const std::string& name, const google::protobuf::Descriptor* takes,
                         const google::protobuf::Descriptor* gives, bool streamed, const Payload& input,
                         const google::protobuf::Descriptor* output, bool stream) {
  if (input.type_name() != takes->full_name())
    return fail(Errc::invalid_argument,
                fmt::format("{} {} takes a {}, not a {}", what, name, takes->full_name(), input.type_name()));
  if (streamed != stream)
    return fail(Errc::invalid_argument, fmt::format("{} {} answers with {}", what, name,
                                                    streamed ? "a stream of items: use stream(), not call()"
                                                             : "one message: use call(), not stream()"));
  if (output != nullptr && output->full_name() != gives->full_name())
    return fail(Errc::invalid_argument, fmt::format("{} {} answers with a {}, not with a {}", what, name,
                                                    gives->full_name(), output->full_name()));
  return {};
}

std::uint64_t to_milliseconds(Duration duration) noexcept {
  const auto count = std::chrono::ceil<std::chrono::milliseconds>(duration).count();
  return count < 1 ? 1 : static_cast<std::uint64_t>(count);
}

Result<v1::ResourceRequest> to_request(const Options& options, const Needs& needs, const std::string& default_name) {
  const bool says = options.gpus != 0 || options.memory_bytes != 0;
  GPUACTORS_LET(gpus, parse_gpus(says ? options.gpus : needs.gpus));
  GPUACTORS_LET(cpus, Share::from_double(options.cpus != 0 ? options.cpus : needs.cpus, "cpus"));
  v1::ResourceRequest request;
  request.set_name(options.name.empty() ? default_name : options.name);
  request.set_gpu_units(gpus.units());
  request.set_memory_bytes(says ? options.memory_bytes : needs.memory_bytes);
  request.set_cpu_units(cpus.units());
  request.set_accelerator_type(options.accelerator_type);
  for (const auto& [name, amount] : options.resources) {
    GPUACTORS_LET(share, Share::from_double(amount, "resource " + name));
    (*request.mutable_resource_units())[name] = share.units();
  }
  request.set_node(options.node);
  request.set_node_soft(options.node_is_soft);
  set_labels(options.labels, request);
  request.set_priority(options.priority);
  request.set_spread(options.spread);
  request.set_wait_for_nodes(options.wait_for_nodes);
  request.set_group(options.group.value());
  request.set_bundle(options.bundle);
  return request;
}

} // namespace gpuactors::detail
