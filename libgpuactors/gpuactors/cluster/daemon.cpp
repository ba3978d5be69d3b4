#include <gpuactors/agent/mps.hpp>
#include <gpuactors/agent/node_agent.hpp>
#include <gpuactors/agent/process_agent.hpp>
#include <gpuactors/base/units.hpp>
#include <gpuactors/broker/resource_broker.hpp>
#include <gpuactors/broker/state_store.hpp>
#include <gpuactors/cluster/detail/core.hpp>
#include <gpuactors/cluster/detail/daemon_core.hpp>
#include <gpuactors/cluster/detail/describe.hpp>
#include <gpuactors/cluster/detail/device_watch.hpp>
#include <gpuactors/cluster/detail/launcher.hpp>
#include <gpuactors/cluster/detail/node_log.hpp>
#include <gpuactors/cluster/detail/notices.hpp>
#include <gpuactors/cluster/detail/own_address.hpp>
#include <gpuactors/cluster/detail/termination.hpp>
#include <gpuactors/device/accelerators.hpp>
#include <gpuactors/device/discovery.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>

namespace gpuactors {

namespace {

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

/// The first id of a broker that starts now. A broker that starts later issues higher ids than this one, as long as
/// this one issues less than 8 million a second. Ids stay below 2^53, which JSON numbers hold exactly, for 16 years.
std::uint64_t first_id() {
  using std::chrono::milliseconds;
  using std::chrono::system_clock;
  constexpr std::int64_t epoch = 1'767'225'600'000; // 2026-01-01
  const auto now = std::chrono::duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
  constexpr int bits = 13;
  return static_cast<std::uint64_t>(std::max<std::int64_t>(1, now - epoch)) << bits;
}

/// @param make whether missing certificates are made.
Result<LinkOptions> links_of(const DaemonOptions& options, bool make) {
  GPUACTORS_LET(links, detail::link_options(options.certificates, options.insecure, make));
  if (const auto& files = links.certificates; files && files->role == CertificateRole::client)
    return fail(Errc::permission_denied,
                fmt::format("{} is a client's certificate, which may use a cluster and not serve it: brokers and nodes "
                            "need one of gpuactors certs issue NAME",
                            files->certificate.string()));
  links.notice = options.notice;
  links.heartbeat = options.heartbeat;
  links.timeout = options.link_timeout;
  return std::move(links);
}

std::int64_t milliseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

/// The error with which a control actor of this process has ended by itself, if it did.
struct FailureState {
  std::mutex mutex;
  std::optional<Error> error;
};
using ExitReason = std::shared_ptr<FailureState>;

/// Ends the process with an error when its broker or agent fails, so that its supervisor restarts it.
void watch(const caf::strong_actor_ptr& actor, std::string what, const ExitReason& failure) {
  actor->get()->attach_functor([what = std::move(what), failure](const caf::error& reason) {
    if (!reason || reason == caf::exit_reason::user_shutdown)
      return;
    {
      const std::lock_guard lock{failure->mutex};
      failure->error = Error{Errc::internal, fmt::format("the {} has ended by an error: {}", what, to_string(reason))};
    }
    ::kill(::getpid(), SIGTERM);
  });
}

/// The result of the process after a signal.
Result<void> end_of(const ExitReason& failure) {
  const std::lock_guard lock{failure->mutex};
  return failure->error ? fail(*failure->error) : Result<void>{};
}

void warn_if_open(const std::string& host, const DaemonOptions& options) {
  if (options.insecure && !is_loopback(host))
    options.notice(fmt::format("--insecure: everybody who can reach {} can run programs here. Certificates (gpuactors "
                               "certs) let in only those who have one",
                               host));
}

/// A broker in this process, and its address.
class BrokerPart {
public:
  Result<void> start(detail::DaemonCore& core, const BrokerDaemon& options) {
    GPUACTORS_LET(listen, parse_endpoint(options.listen));
    BrokerOptions config;
    config.last_id = first_id();
    config.settle = limits::settle;
    config.heartbeat = core.links().options().heartbeat;
    config.link_timeout = core.links().options().timeout;
    if (!options.store.empty()) {
      GPUACTORS_LET(store, StateStore::open(options.store));
      // If the clock was set back, ids in the store must not be issued again.
      for (const auto section : {StateSection::actors, StateSection::groups}) {
        GPUACTORS_LET(entries, store->load(section));
        for (const auto& entry : entries)
          if (const auto* id = std::get_if<std::uint64_t>(&entry.key))
            config.last_id = std::max(config.last_id, *id);
      }
      GPUACTORS_LET(ids, store->load(StateSection::ids));
      for (const auto& entry : ids)
        config.last_id = std::max<std::uint64_t>(config.last_id, std::strtoull(entry.value.c_str(), nullptr, 10));
      config.store = std::move(store);
    }
    handle_ = core.spawn<ResourceBroker>(std::move(config), core.links().lanes());
    watch(handle_, "broker", failure_);
    GPUACTORS_LET(port, core.links().publish(handle_, listen));
    listen.port = port;
    endpoint_ = std::move(listen);
    return {};
  }

  [[nodiscard]] const Endpoint& endpoint() const noexcept {
    return endpoint_;
  }

  /// The address at which processes of this machine reach the broker.
  [[nodiscard]] Endpoint local_endpoint() const {
    return endpoint_.host == "0.0.0.0" ? Endpoint{"127.0.0.1", endpoint_.port} : endpoint_;
  }

  [[nodiscard]] const caf::strong_actor_ptr& handle() const noexcept {
    return handle_;
  }

  [[nodiscard]] const ExitReason& failure() const noexcept {
    return failure_;
  }

private:
  Endpoint endpoint_;
  caf::strong_actor_ptr handle_;
  ExitReason failure_ = std::make_shared<FailureState>();
};

/// An agent in this process, with its connection to the broker.
class NodePart {
public:
  ~NodePart() {
    watch_ = {};
    if (redial_ != nullptr)
      redial_->stop();
    if (launcher_ != nullptr)
      launcher_->close();
  }

  /// @param local the broker, if it is in this process.
  Result<void> start(detail::DaemonCore& core, const NodeDaemon& options, const Endpoint& broker,
                     const DaemonOptions& daemon, const caf::strong_actor_ptr& local = {}) {
    GPUACTORS_LET(plugins, paths_of(options.plugins));
    GPUACTORS_LET(described, describe(options, plugins));
    auto& node = *described.mutable_node();
    GPUACTORS_LET(host, options.host.empty() ? detail::address_towards(broker) : Result<std::string>{options.host});
    warn_if_open(host, daemon);
    detail::LauncherOptions launch;
    launch.program = program_of(options);
    launch.setup.set_broker(to_string(broker));
    launch.setup.set_node(node.name());
    launch.setup.set_host(host);
    launch.setup.set_heartbeat_ms(milliseconds(daemon.heartbeat));
    launch.setup.set_link_timeout_ms(milliseconds(daemon.link_timeout));
    launch.setup.mutable_plugins()->Assign(plugins.begin(), plugins.end());
    launch.setup.set_no_jit(!options.runtime_source);
    if (const auto& files = core.links().options().certificates)
      launch.setup.set_certificates(files->certificate.parent_path().string());
    GPUACTORS_LET(log, detail::NodeLog::open(node.name(), options.logs, daemon.notice));
    launch.on_line = [log, notice = daemon.notice](const detail::WorkerLine& line) {
      log->append(line);
      notice(fmt::format("[{}] {}", line.purpose, line.text));
    };
    // Workers reach the agent over loopback; its port is known only once the agent is published.
    auto proxy = std::make_shared<LateLauncher>();
    ProcessAgentOptions agent_options;
    const auto address = std::make_shared<std::string>();
    agent_options.node = node;
    agent_options.lanes = core.links().lanes();
    agent_options.host = host;
    agent_options.address = [address] { return *address; };
    agent_options.sources = log->sources();
    agent_options.read_log = log->reader();
    agent_options.launcher = proxy;
    if (options.mps)
      agent_options.mps_runs = [folder = mps_folder()] { return mps_runs(folder); };
    agent_options.types = std::move(*described.mutable_types());
    agent_options.notice = daemon.notice;
    agent_options.registered = [state = registered_] { state->complete({}); };
    agent_options.emptied = [state = emptied_] { state->complete({}); };
    agent_options.parted = [state = parted_] { state->complete({}); };
    agent_options.heartbeat = daemon.heartbeat;
    agent_options.link_timeout = daemon.link_timeout;
    const auto agent = core.spawn<ProcessAgent>(std::move(agent_options));
    watch(agent, "node's agent", failure_);
    agent_ = agent;
    stop_grace_ = options.stop_grace;
    notice_ = daemon.notice;
    GPUACTORS_LET(port, core.links().publish(agent, Endpoint{"127.0.0.1", 0}));
    launch.setup.set_agent(to_string(Endpoint{"127.0.0.1", port}));
    // Clients reach the agent at the host at which they reach the workers.
    Endpoint shown{host, port};
    if (host != "127.0.0.1") {
      shown.port = 0;
      GPUACTORS_LET(chosen, core.links().publish(agent, shown));
      shown.port = chosen;
    }
    *address = to_string(shown);
    launcher_ = std::make_shared<detail::Launcher>(std::move(launch));
    launcher_->report_to(agent);
    proxy->target = launcher_;
    if (options.watch_devices)
      watch_ = detail::watch_devices(node, agent, daemon.notice);
    if (local != nullptr) {
      caf_version::post(agent, v1::LinkChanged{}, local);
      return {};
    }
    redial_ = std::make_shared<Redial>(
        core.links(), broker,
        [agent, notice = daemon.notice, said = std::make_shared<std::string>()](Result<caf::strong_actor_ptr> handle) {
          if (handle)
            said->clear();
          else if (handle.error().message() != *said)
            notice(*said = handle.error().message());
          caf_version::post(agent, v1::LinkChanged{}, handle ? *handle : caf::strong_actor_ptr{});
        });
    redial_->start();
    return {};
  }

  /// Waits until the broker has accepted the node, at most `limits::link_timeout`.
  /// @returns false if a signal ended the wait.
  bool await_registration(detail::Termination& termination) const {
    constexpr std::chrono::milliseconds slice{20};
    const auto end = deadline_after(Clock::now(), limits::link_timeout);
    while (!registered_->wait_until(Clock::now() + slice) && Clock::now() < end)
      if (termination.wait_for(Duration::zero()))
        return false;
    return true;
  }

  /// Leaves the cluster after a signal: work moves or ends within the grace, if there is one. Another signal ends that
  /// wait.
  void leave(detail::Termination& termination) const {
    if (!end_of(failure_))
      return;
    if (stop_grace_ > Duration::zero())
      empty(termination);
    // Without the goodbye, the cluster's operators would be told that a node was lost. If the broker does not answer
    // soon, so be it.
    constexpr std::chrono::milliseconds patience{500};
    caf_version::post(agent_, v1::Goodbye{});
    parted_->wait_until(deadline_after(Clock::now(), patience));
  }

  [[nodiscard]] const ExitReason& failure() const noexcept {
    return failure_;
  }

private:
  void empty(detail::Termination& termination) const {
    constexpr std::chrono::milliseconds slice{20};
    notice_(fmt::format("leaving the cluster: what runs here has {:.1f} s to move to other nodes or to end; another "
                        "signal ends it at once",
                        std::chrono::duration<double>{stop_grace_}.count()));
    v1::DrainNode message;
    message.set_deadline_ms(detail::to_milliseconds(stop_grace_));
    caf_version::post(agent_, std::move(message));
    // Work that is asked to stop at the end of the grace gets `limits::stop_grace` on top; the broker may be a moment
    // late.
    constexpr std::chrono::seconds late{2};
    const auto end = deadline_after(Clock::now(), stop_grace_ + limits::stop_grace + late);
    while (!emptied_->wait_until(Clock::now()) && Clock::now() < end)
      if (termination.wait_for(slice))
        return;
  }

  /// Forwards to the launcher, which can be made only once the agent is published.
  struct LateLauncher : WorkerLauncher {
    std::shared_ptr<detail::Launcher> target;
    Result<void> start(const WorkerCommand& command) override {
      return target->start(command);
    }
    void kill(std::uint64_t number) override {
      target->kill(number);
    }
  };

  static std::string program_of(const NodeDaemon& options) {
    if (!options.program.empty())
      return options.program;
    std::error_code error;
    return std::filesystem::read_symlink("/proc/self/exe", error).string();
  }

  /// Absolute paths of plugins, for processes in any folder: a bare name is a file in this folder, and is not searched
  /// for.
  static Result<std::vector<std::string>> paths_of(const std::vector<std::string>& plugins) {
    std::vector<std::string> paths;
    for (const auto& plugin : plugins) {
      if (plugin.empty())
        return fail(Errc::invalid_argument, "the name of a plugin is empty");
      std::error_code error;
      paths.push_back(std::filesystem::absolute(plugin, error).string());
    }
    return paths;
  }

  static Result<v1::RegisterNode> describe(const NodeDaemon& options, const std::vector<std::string>& plugins) {
    NodeOptions described;
    described.name = options.name.empty() ? host_name() : options.name;
    described.labels = options.labels;
    if (options.cpus < 0) {
      described.cpus = Share::whole(std::max(1U, std::thread::hardware_concurrency()));
    } else {
      GPUACTORS_LET(cpus, Share::from_double(options.cpus, "cpus"));
      described.cpus = cpus;
    }
    for (const auto& [name, amount] : options.resources) {
      GPUACTORS_LET(share, Share::from_double(amount, fmt::format("resource {}", name)));
      described.resources.emplace(name, share);
    }
    GPUACTORS_TRY(check_whole_units(described.resources));
    GPUACTORS_LET(found, discover_accelerators(options.accelerator_root, described.resources));
    described.resources.merge(found);
    GPUACTORS_LET(offer, detail::describe_program(program_of(options), described.name, options.devices, plugins));
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

  std::shared_ptr<detail::Launcher> launcher_;
  detail::DeviceWatch watch_;
  std::shared_ptr<Redial> redial_;
  std::shared_ptr<detail::FutureState<void>> registered_ = std::make_shared<detail::FutureState<void>>();
  std::shared_ptr<detail::FutureState<void>> emptied_ = std::make_shared<detail::FutureState<void>>();
  std::shared_ptr<detail::FutureState<void>> parted_ = std::make_shared<detail::FutureState<void>>();
  ExitReason failure_ = std::make_shared<FailureState>();
  caf::strong_actor_ptr agent_;
  Duration stop_grace_{};
  std::function<void(std::string_view)> notice_;
};

DaemonOptions with_notices(DaemonOptions options, const detail::Notices& notices) {
  options.notice = notices.entry();
  return options;
}

/// The error of broker or node, whichever has failed.
Result<void> first_of(const BrokerPart& broker, const NodePart& node) {
  GPUACTORS_TRY(end_of(broker.failure()));
  return end_of(node.failure());
}

} // namespace

Result<void> run_broker(const BrokerDaemon& broker, const DaemonOptions& daemon) {
  detail::Termination termination;
  const detail::Notices notices{daemon.notice};
  const auto options = with_notices(daemon, notices);
  GPUACTORS_LET(listen, parse_endpoint(broker.listen));
  warn_if_open(listen.host, options);
  GPUACTORS_LET(links, links_of(options, is_loopback(listen.host)));
  GPUACTORS_LET(core, detail::DaemonCore::make(links));
  BrokerPart part;
  GPUACTORS_TRY(part.start(*core, broker));
  options.ready(to_string(part.endpoint()));
  termination.wait();
  return end_of(part.failure());
}

Result<void> run_node(const NodeDaemon& node, const DaemonOptions& daemon) {
  detail::Termination termination;
  const detail::Notices notices{daemon.notice};
  const auto options = with_notices(daemon, notices);
  GPUACTORS_LET(broker, parse_endpoint(node.broker));
  GPUACTORS_LET(links, links_of(options, false));
  GPUACTORS_LET(core, detail::DaemonCore::make(links));
  NodePart part;
  GPUACTORS_TRY(part.start(*core, node, broker, options));
  options.ready(node.broker);
  termination.wait();
  part.leave(termination);
  return end_of(part.failure());
}

Result<void> run_up(const BrokerDaemon& broker, const NodeDaemon& node, const DaemonOptions& daemon) {
  detail::Termination termination;
  const detail::Notices notices{daemon.notice};
  const auto options = with_notices(daemon, notices);
  GPUACTORS_LET(listen, parse_endpoint(broker.listen));
  warn_if_open(listen.host, options);
  GPUACTORS_LET(links, links_of(options, is_loopback(listen.host)));
  GPUACTORS_LET(core, detail::DaemonCore::make(links));
  BrokerPart part;
  GPUACTORS_TRY(part.start(*core, broker));
  NodePart local;
  GPUACTORS_TRY(local.start(*core, node, part.local_endpoint(), options, part.handle()));
  // Reports ready only once the node is registered, so that whoever asks the broker then finds the node.
  if (!local.await_registration(termination))
    return first_of(part, local);
  options.ready(to_string(part.endpoint()));
  termination.wait();
  if (end_of(part.failure()))
    local.leave(termination);
  return first_of(part, local);
}

} // namespace gpuactors
