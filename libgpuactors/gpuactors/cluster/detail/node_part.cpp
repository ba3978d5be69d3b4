#include <gpuactors/agent/core/mps.hpp>
#include <gpuactors/agent/process_agent.hpp>
#include <gpuactors/base/random_id.hpp>
#include <gpuactors/cluster/detail/describe.hpp>
#include <gpuactors/cluster/detail/node_part.hpp>
#include <gpuactors/cluster/detail/offered_resources.hpp>
#include <gpuactors/cluster/detail/own_address.hpp>
#include <gpuactors/device/cuda_module.hpp>
#include <gpuactors/wire/protobuf.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <set>
#include <string_view>

namespace gpuactors::detail {

namespace {

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

/// What to start workers with. Asked once: this program's file may be replaced while it runs.
Result<std::vector<std::string>> programs_of(const NodeDaemon& options) {
  if (options.programs.empty()) {
    std::error_code error;
    return std::vector{std::filesystem::read_symlink("/proc/self/exe", error).string()};
  }
  std::set<std::string> seen;
  for (const auto& program : options.programs) {
    if (program.empty())
      return fail(Errc::invalid_argument, "the name of a program is empty");
    if (!seen.insert(program).second)
      return fail(Errc::invalid_argument, fmt::format("the program {} is named twice", program));
  }
  return options.programs;
}

/// What a program is called in messages: as short as it can be while others have other names.
std::string display_name(const std::string& program, const std::vector<std::string>& programs) {
  const auto short_name = [](const std::string& path) { return std::filesystem::path{path}.filename().string(); };
  const auto same = std::count_if(programs.begin(), programs.end(),
                                  [&](const auto& other) { return short_name(other) == short_name(program); });
  return same == 1 ? short_name(program) : program;
}

/// Absolute paths of plugins, for processes in any folder: a bare name is a file in this folder, and is not searched
/// for.
Result<std::vector<std::string>> paths_of(const std::vector<std::string>& plugins) {
  std::vector<std::string> paths;
  for (const auto& plugin : plugins) {
    if (plugin.empty())
      return fail(Errc::invalid_argument, "the name of a plugin is empty");
    std::error_code error;
    paths.push_back(std::filesystem::absolute(plugin, error).string());
  }
  return paths;
}

std::vector<std::string> uuids_of(const v1::Node& node) {
  std::vector<std::string> uuids;
  for (const auto& device : node.devices())
    uuids.push_back(device.uuid());
  return uuids;
}

/// The node's resources, with the devices that its programs see.
Result<v1::Node> node_of(const NodeDaemon& options, const std::string& name, const v1::Node& seen) {
  GPUACTORS_LET(node, describe_node({name, options.labels, options.cpus, options.resources, options.host_memory_bytes,
                                     options.accelerator_root},
                                    seen));
  GPUACTORS_TRY(check_texts(node));
  return std::move(node);
}

/// What the workers of the node are told, but for the agent's address.
v1::WorkerSetup setup_of(const LinkOptions& links, const NodeDaemon& options, std::string node) {
  v1::WorkerSetup setup;
  setup.set_node(std::move(node));
  setup.set_heartbeat_ms(to_milliseconds(links.heartbeat));
  setup.set_link_timeout_ms(to_milliseconds(links.timeout));
  setup.set_no_jit(!options.runtime_source);
  if (const auto& files = links.certificates)
    setup.set_certificates(files->certificate.parent_path().string());
  return setup;
}

/// Where others reach the agent: workers over loopback, clients at the host at which they reach the workers too.
struct Addresses {
  std::string for_workers;
  std::string for_clients;
};

Result<Addresses> publish(Links& links, const caf::strong_actor_ptr& agent, const Listening& where) {
  const Listening loopback{"127.0.0.1"};
  GPUACTORS_LET(inside, links.publish_in(loopback, agent));
  const auto own = to_string(inside);
  if (where == loopback)
    return Addresses{own, own};
  GPUACTORS_LET(outside, links.publish_in(where, agent));
  return Addresses{own, to_string(outside)};
}

/// @param broker where the node looks for the address by which others reach it, if it was not told one.
Result<Listening> listening_of(const NodeDaemon& options, const std::vector<Endpoint>& broker) {
  auto where = options.listening;
  if (is_any_address(where.host))
    return fail(Errc::invalid_argument,
                fmt::format("the host {} is no address that others reach this node by: name one, or leave it out. To "
                            "listen at all addresses, use --bind {}",
                            where.host, where.host));
  if (where.host.empty()) {
    GPUACTORS_LET(own, address_towards(broker));
    where.host = std::move(own);
  }
  return where;
}

/// A container that was given GPUs and has no driver would serve from the processor, and seem to be well.
void warn_without_driver(const v1::Node& node, const NodeDaemon& options, const DaemonOptions& daemon) {
  const char* given = std::getenv("NVIDIA_VISIBLE_DEVICES");
  const std::string_view devices{given != nullptr ? given : ""};
  const auto is_cuda = [](const v1::Device& device) { return device.kind() == "cuda"; };
  if (!options.devices.empty() || devices.empty() || devices == "none" || devices == "void"
      || std::any_of(node.devices().begin(), node.devices().end(), is_cuda))
    return;
  daemon.notice(
      fmt::format("no GPU can be used, and NVIDIA_VISIBLE_DEVICES is \"{}\": the node offers the processor. With "
                  "--devices cuda, it says why and does not start",
                  devices));
}

} // namespace

/// Forwards to the launcher, which can be made only once the agent is published: workers get the agent's port.
struct NodePart::LateLauncher : WorkerLauncher {
  std::shared_ptr<Launcher> target;
  Result<void> start(const WorkerCommand& command) override {
    return target->start(command);
  }
  void kill(std::uint64_t number) override {
    target->kill(number);
  }
};

/// The connection to the broker, as threads use it that may go on after this object.
struct NodePart::Line {
  std::mutex mutex;
  std::weak_ptr<Redial> redial;
  /// Why there was no broker since the node was registered last: each reason is said once, and not at each attempt.
  std::set<std::string> said;

  bool is_new(const std::string& reason) {
    const std::lock_guard lock{mutex};
    return said.insert(reason).second;
  }

  void forget() {
    const std::lock_guard lock{mutex};
    said.clear();
  }

  void look_elsewhere(const Error& why) {
    std::shared_ptr<Redial> dialling;
    {
      const std::lock_guard lock{mutex};
      dialling = redial.lock();
    }
    if (dialling != nullptr)
      dialling->again(why);
  }
};

NodePart::NodePart() : line_(std::make_shared<Line>()) {
  // nop
}

NodePart::~NodePart() {
  // First: what runs must not go on while this thread waits for one that is in a driver which does not answer.
  if (launcher_ != nullptr)
    launcher_->close();
  if (redial_ != nullptr)
    redial_->stop();
  watch_ = {};
}

struct NodePart::Offer {
  /// With the devices that the programs see, and no more.
  v1::Node node;
  v1::NodePrograms programs;
};

Result<NodePart::Offer> NodePart::look_at_programs(const std::atomic<bool>* given_up) const {
  Offer offer;
  for (const auto& program : programs_) {
    GPUACTORS_LET(described, describe_program(program, name_, devices_, plugins_, given_up));
    auto* each = offer.programs.add_each();
    each->set_name(display_name(program, programs_));
    *each->mutable_types() = std::move(*described.mutable_types());
    if (offer.programs.each_size() > 1 && uuids_of(described.node()) != uuids_of(offer.node))
      return fail(Errc::invalid_argument,
                  fmt::format("{} sees {} devices ({}), and {} sees {} ({}): the programs of a node must see the same",
                              programs_.front(), offer.node.devices_size(), fmt::join(uuids_of(offer.node), ", "),
                              program, described.node().devices_size(), fmt::join(uuids_of(described.node()), ", ")));
    offer.node = std::move(*described.mutable_node());
  }
  for (const auto& uuid : uuids_of(offer.node))
    offer.programs.add_uuids(uuid);
  return offer;
}

Result<void> NodePart::start(DaemonCore& core, const NodeDaemon& options, const std::vector<Endpoint>& broker,
                             const DaemonOptions& daemon, const caf::strong_actor_ptr& local) {
  if (!(options.memory_threshold >= 0 && options.memory_threshold <= 1))
    return fail(Errc::invalid_argument,
                fmt::format("the memory threshold is {}: a part from 0 to 1 is expected, such as 0.95; 0 and 1 turn it "
                            "off",
                            options.memory_threshold));
  stop_grace_ = options.stop_grace;
  notice_ = daemon.notice;
  on_registered_ = options.registered;
  on_unregistered_ = options.unregistered;
  GPUACTORS_LET(plugins, paths_of(options.plugins));
  GPUACTORS_LET(files, programs_of(options));
  plugins_ = std::move(plugins);
  programs_ = std::move(files);
  name_ = options.name.empty() ? host_name() : options.name;
  devices_ = options.devices;
  GPUACTORS_LET(offer, look_at_programs(nullptr));
  GPUACTORS_LET(programs, ProgramTable::from_wire(offer.programs));
  GPUACTORS_LET(node, node_of(options, name_, offer.node));
  GPUACTORS_LET(listening, listening_of(options, broker));
  warn_if_open(listening.local(), daemon);
  warn_without_driver(node, options, daemon);
  GPUACTORS_LET(log, NodeLog::open(node.name(), options.logs, daemon.notice));

  const auto launcher = std::make_shared<LateLauncher>();
  const auto address = std::make_shared<std::string>();
  auto setup = agent_options(core.links());
  setup.agent.node = node;
  setup.agent.programs = std::move(programs);
  setup.agent.host = listening.host;
  setup.agent.limits_queues = chose_hardware_queues();
  setup.address = [address] { return *address; };
  setup.launcher = launcher;
  setup.sources = log->sources();
  setup.read_log = log->reader();
  if (options.mps)
    setup.mps_runs = [folder = mps_folder()] { return mps_runs(folder); };
  GPUACTORS_TRY(guard_memory(options, setup));
  agent_ = core.spawn<ProcessAgent>(std::move(setup));
  failure_.watch(agent_, "node's agent");
  certificate_.emplace(core, agent_);

  LauncherOptions launch;
  launch.programs = programs_;
  launch.setup = setup_of(core.links().options(), options, node.name());
  launch.setup.set_broker(to_string(broker));
  launch.setup.set_host(listening.host);
  launch.setup.set_bind(listening.bind);
  launch.setup.set_first_port(listening.ports.first);
  launch.setup.set_last_port(listening.ports.last);
  launch.setup.mutable_plugins()->Assign(plugins_.begin(), plugins_.end());
  launch.on_line = [log, notice = notice_](const WorkerLine& line) {
    log->append(line);
    notice(fmt::format("[{}] {}", line.purpose, line.text));
  };
  GPUACTORS_LET(addresses, publish(core.links(), agent_, listening));
  launch.setup.set_agent(addresses.for_workers);
  *address = addresses.for_clients;
  launcher_ = std::make_shared<Launcher>(std::move(launch));
  launcher_->report_to(agent_);
  launcher->target = launcher_;

  if (options.watch_devices)
    watch_ = detail::watch_devices(node, agent_, notice_);
  if (local != nullptr)
    caf_version::post(agent_, v1::LinkChanged{}, local);
  else
    dial(core.links(), broker);
  return {};
}

Result<void> NodePart::guard_memory(const NodeDaemon& options, ProcessAgentOptions& setup) {
  GPUACTORS_LET(watch, MemoryWatch::make());
  memory_ = std::move(watch);
  setup.agent.memory_threshold = options.memory_threshold;
  setup.look_at_memory = [watch = memory_](MemoryQuery query, MemoryWatch::Done done) {
    watch->look(std::move(query), std::move(done));
  };
  return {};
}

ProcessAgentOptions NodePart::agent_options(const Links& links) const {
  ProcessAgentOptions options;
  options.lanes = links.lanes();
  options.agent.id = random_id();
  options.agent.heartbeat = links.options().heartbeat;
  options.agent.link_timeout = links.options().timeout;
  options.notice = notice_;
  options.registered = [state = registered_, tell = on_registered_, line = line_] {
    line->forget();
    state->complete({});
    if (tell)
      tell();
  };
  if (on_unregistered_)
    options.unregistered = on_unregistered_;
  options.emptied = [state = emptied_] { state->complete({}); };
  options.parted = [state = parted_] { state->complete({}); };
  options.look_elsewhere = [line = line_](const Error& why) { line->look_elsewhere(why); };
  return options;
}

void NodePart::dial(Links& links, const std::vector<Endpoint>& broker) {
  redial_ = std::make_shared<Redial>(
      links, broker, [agent = agent_, notice = notice_, line = line_](Result<caf::strong_actor_ptr> handle) {
        if (!handle && line->is_new(handle.error().message()))
          notice(handle.error().message());
        caf_version::post(agent, v1::LinkChanged{}, handle ? *handle : caf::strong_actor_ptr{});
      });
  {
    const std::lock_guard lock{line_->mutex};
    line_->redial = redial_;
  }
  redial_->start();
}

void NodePart::serve(Termination& termination, RenewSignal& renewals) {
  // Beside this thread, which has to end the node when that is asked for.
  Renewer renewer{[this](const std::atomic<bool>& given_up) { renew_programs(given_up); }};
  while (!termination.wait_or(RenewSignal::descriptor())) {
    if (!renewals.take())
      continue;
    if (const auto asked = renewer.ask(); !asked)
      notice_(fmt::format("the programs stay as they are: {}", asked.error().message()));
  }
}

void NodePart::renew_programs(const std::atomic<bool>& given_up) const {
  notice_("SIGUSR1: looking at the programs anew");
  const auto offer = look_at_programs(&given_up);
  if (given_up)
    return;
  const auto table = offer ? ProgramTable::from_wire(offer->programs) : Result<ProgramTable>{fail(offer.error())};
  if (!table)
    return notice_(fmt::format("the programs stay as they are: {}", table.error().message()));
  caf_version::post(agent_, offer->programs);
}

bool NodePart::await_registration(Termination& termination) const {
  constexpr std::chrono::milliseconds slice{20};
  const auto end = deadline_after(Clock::now(), limits::link_timeout);
  while (!registered_->wait_until(Clock::now() + slice) && Clock::now() < end)
    if (termination.wait_for(Duration::zero()))
      return false;
  return true;
}

void NodePart::empty(Termination& termination) const {
  if (stop_grace_ <= Duration::zero())
    return;
  constexpr std::chrono::milliseconds slice{20};
  notice_(fmt::format("leaving the cluster: what runs here has {:.1f} s to move to other nodes or to end; another "
                      "signal ends it at once",
                      to_seconds(stop_grace_)));
  v1::DrainNode message;
  message.set_deadline_ms(to_milliseconds(stop_grace_));
  caf_version::post(agent_, std::move(message));
  // Work that is asked to stop at the end of the grace gets `limits::stop_grace` on top; the broker may be a moment
  // late.
  constexpr std::chrono::seconds late{2};
  const auto end = deadline_after(Clock::now(), stop_grace_ + limits::stop_grace + late);
  while (!emptied_->wait_until(Clock::now()) && Clock::now() < end)
    if (termination.wait_for(slice))
      return;
}

void NodePart::say_goodbye() const {
  constexpr std::chrono::milliseconds patience{500};
  caf_version::post(agent_, v1::Goodbye{});
  parted_->wait_until(deadline_after(Clock::now(), patience));
}

} // namespace gpuactors::detail
