#include <gpuactors/agent/core/mps.hpp>
#include <gpuactors/agent/process_agent.hpp>
#include <gpuactors/base/random_id.hpp>
#include <gpuactors/cluster/detail/core.hpp>
#include <gpuactors/cluster/detail/describe.hpp>
#include <gpuactors/cluster/detail/node_part.hpp>
#include <gpuactors/cluster/detail/offered_resources.hpp>
#include <gpuactors/cluster/detail/own_address.hpp>
#include <gpuactors/device/discovery.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <filesystem>

namespace gpuactors::detail {

namespace {

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string program_of(const NodeDaemon& options) {
  if (!options.program.empty())
    return options.program;
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).string();
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

/// What the node offers: its resources, and the devices and types of its workers' program.
Result<v1::RegisterNode> offer_of(const NodeDaemon& options, const std::vector<std::string>& plugins) {
  const auto name = options.name.empty() ? host_name() : options.name;
  GPUACTORS_LET(described,
                node_options({name, options.labels, options.cpus, options.resources, options.accelerator_root}));
  GPUACTORS_LET(offer, describe_program(program_of(options), name, options.devices, plugins));
  auto node = describe_node(described, {});
  node.mutable_devices()->Swap(offer.mutable_node()->mutable_devices());
  std::vector<std::string> uuids;
  for (const auto& device : node.devices())
    uuids.push_back(device.uuid());
  for (const auto distance : distances_between(uuids))
    node.add_distances(distance);
  GPUACTORS_TRY(check_texts(node));
  *offer.mutable_node() = std::move(node);
  return std::move(offer);
}

std::int64_t signed_milliseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

/// What the workers of the node are told, but for the agent's address.
v1::WorkerSetup setup_of(const LinkOptions& links, const NodeDaemon& options, std::string node) {
  v1::WorkerSetup setup;
  setup.set_node(std::move(node));
  setup.set_heartbeat_ms(signed_milliseconds(links.heartbeat));
  setup.set_link_timeout_ms(signed_milliseconds(links.timeout));
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

Result<Addresses> publish(Links& links, const caf::strong_actor_ptr& agent, const std::string& host) {
  const std::string loopback{"127.0.0.1"};
  GPUACTORS_LET(port, links.publish(agent, Endpoint{loopback, 0}));
  const auto own = to_string(Endpoint{loopback, port});
  if (host == loopback)
    return Addresses{own, own};
  GPUACTORS_LET(outside, links.publish(agent, Endpoint{host, 0}));
  return Addresses{own, to_string(Endpoint{host, outside})};
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

NodePart::~NodePart() {
  watch_ = {};
  if (redial_ != nullptr)
    redial_->stop();
  if (launcher_ != nullptr)
    launcher_->close();
}

Result<void> NodePart::start(DaemonCore& core, const NodeDaemon& options, const Endpoint& broker,
                             const DaemonOptions& daemon, const caf::strong_actor_ptr& local) {
  stop_grace_ = options.stop_grace;
  notice_ = daemon.notice;
  on_registered_ = options.registered;
  GPUACTORS_LET(plugins, paths_of(options.plugins));
  GPUACTORS_LET(offer, offer_of(options, plugins));
  const auto node = offer.node();
  GPUACTORS_LET(host, options.host.empty() ? address_towards(broker) : Result<std::string>{options.host});
  warn_if_open(host, daemon);
  GPUACTORS_LET(log, NodeLog::open(node.name(), options.logs, daemon.notice));

  const auto launcher = std::make_shared<LateLauncher>();
  const auto address = std::make_shared<std::string>();
  auto setup = agent_options(core.links());
  setup.agent.node = node;
  setup.agent.types = std::move(*offer.mutable_types());
  setup.agent.host = host;
  setup.address = [address] { return *address; };
  setup.launcher = launcher;
  setup.sources = log->sources();
  setup.read_log = log->reader();
  if (options.mps)
    setup.mps_runs = [folder = mps_folder()] { return mps_runs(folder); };
  agent_ = core.spawn<ProcessAgent>(std::move(setup));
  failure_.watch(agent_, "node's agent");

  LauncherOptions launch;
  launch.program = program_of(options);
  launch.setup = setup_of(core.links().options(), options, node.name());
  launch.setup.set_broker(to_string(broker));
  launch.setup.set_host(host);
  launch.setup.mutable_plugins()->Assign(plugins.begin(), plugins.end());
  launch.on_line = [log, notice = notice_](const WorkerLine& line) {
    log->append(line);
    notice(fmt::format("[{}] {}", line.purpose, line.text));
  };
  GPUACTORS_LET(addresses, publish(core.links(), agent_, host));
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

ProcessAgentOptions NodePart::agent_options(const Links& links) const {
  ProcessAgentOptions options;
  options.lanes = links.lanes();
  options.agent.id = random_id();
  options.agent.heartbeat = links.options().heartbeat;
  options.agent.link_timeout = links.options().timeout;
  options.notice = notice_;
  options.registered = [state = registered_, tell = on_registered_] {
    state->complete({});
    if (tell)
      tell();
  };
  options.emptied = [state = emptied_] { state->complete({}); };
  options.parted = [state = parted_] { state->complete({}); };
  return options;
}

void NodePart::dial(Links& links, const Endpoint& broker) {
  // The same reason is said once, and not at each attempt.
  const auto said = std::make_shared<std::string>();
  redial_ = std::make_shared<Redial>(
      links, broker, [agent = agent_, notice = notice_, said](Result<caf::strong_actor_ptr> handle) {
        if (handle)
          said->clear();
        else if (handle.error().message() != *said)
          notice(*said = handle.error().message());
        caf_version::post(agent, v1::LinkChanged{}, handle ? *handle : caf::strong_actor_ptr{});
      });
  redial_->start();
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
