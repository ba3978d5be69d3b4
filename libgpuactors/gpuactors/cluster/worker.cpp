// The worker process: runs tasks and actors for the agent that started it, and ends with it.
#include <gpuactors/actor/catalog.hpp>
#include <gpuactors/agent/process.hpp>
#include <gpuactors/agent/worker.hpp>
#include <gpuactors/agent/worker_output.hpp>
#include <gpuactors/base/descriptor.hpp>
#include <gpuactors/cluster/daemon.hpp>
#include <gpuactors/cluster/detail/core.hpp>
#include <gpuactors/cluster/detail/daemon_core.hpp>
#include <gpuactors/cluster/detail/device_messages.hpp>
#include <gpuactors/cluster/detail/kept_connections.hpp>
#include <gpuactors/cluster/detail/local_role.hpp>
#include <gpuactors/cluster/detail/plugins.hpp>
#include <gpuactors/cluster/detail/termination.hpp>
#include <gpuactors/device/discovery.hpp>
#include <gpuactors/trace/span.hpp>
#include <gpuactors/wire/greeting.hpp>
#include <gpuactors/wire/json.hpp>

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <future>
#include <memory>
#include <thread>

namespace gpuactors {

namespace {

/// The agent's answer to `WorkerHello`.
class Welcome : public OwnReply {
public:
  void on_reply(MessageContent&) override {
    result_.set_value({});
  }
  void on_error(Error error) override {
    result_.set_value(fail(std::move(error)));
  }
  Result<void> wait() {
    return result_.get_future().get();
  }

private:
  std::promise<Result<void>> result_;
};

Listening listening_of(const v1::WorkerSetup& setup) {
  return {setup.host(),
          setup.bind(),
          {static_cast<std::uint16_t>(setup.first_port()), static_cast<std::uint16_t>(setup.last_port())}};
}

/// One worker from its start to its end.
class WorkerProcess {
public:
  Result<void> run(const v1::WorkerSetup& setup) {
    mark_worker_output();
    // Before anything that takes its time: a signal finds somebody who knows what to do.
    detail::Termination termination;
    GPUACTORS_TRY(detail::load_plugins({setup.plugins().begin(), setup.plugins().end()}, [](const std::string&) {}));
    ConnectOptions options;
    options.broker = setup.broker();
    options.certificates = setup.certificates();
    options.insecure = setup.certificates().empty();
    options.listening = listening_of(setup);
    // Does not wait for the broker: the worker serves its agent even while the broker is out of reach.
    options.timeout = Duration::zero();
    options.heartbeat = std::chrono::milliseconds{setup.heartbeat_ms()};
    options.link_timeout = std::chrono::milliseconds{setup.link_timeout_ms()};
    GPUACTORS_LET(core,
                  detail::ClusterCore::connect(options, [&](detail::ClusterCore& made) { return start(made, setup); }));
    const bool was_asked = termination.wait_or(leaves_->get());
    *agent_needed_ = false;
    // Connections send what is left meanwhile.
    if (!was_asked)
      flush_traces(Duration{limits::last_words} / 2);
    caf::anon_send_exit(worker_, caf::exit_reason::user_shutdown);
    worker_ = nullptr;
    core->shutdown();
    // Whoever called `Cluster::open` has this process end without its exit functions.
    if (was_asked)
      flush_traces(limits::trace_flush);
    if (was_asked)
      return {};
    const detail::KeptConnections connections;
    // With it, connections end once they have left the rest to the system.
    core.reset();
    connections.await_taken(limits::last_words);
    // There are many such ends: not with the exit functions of user code and drivers.
    ::_exit(0);
  }

private:
  Result<void> start(detail::ClusterCore& core, const v1::WorkerSetup& setup) {
    GPUACTORS_LET(agent, reach_agent(core, setup));
    // Without its agent the node is lost, and the broker restarts its work elsewhere: the worker must not go on.
    agent->get()->attach_functor([needed = agent_needed_] {
      if (*needed)
        end_own_group();
    });

    auto services = std::make_shared<ProcessServices>();
    if (auto opened = open(setup, *services); !opened) {
      *agent_needed_ = false; // the end of this process's own connection is not the agent's
      return opened;
    }
    core.fill(*services);
    // Without a descriptor left, the node kills the process later.
    auto leave = [leaves = leaves_] { static_cast<void>(::eventfd_write(leaves->get(), 1)); };
    worker_ = caf::actor_cast<caf::strong_actor_ptr>(
        core.system().spawn<Worker>(std::move(services), agent, false, std::move(leave)));
    auto registered = register_with(agent, core, setup);
    // The core's shutdown waits for all actors, so the worker must end.
    if (!registered) {
      *agent_needed_ = false;
      caf::anon_send_exit(std::exchange(worker_, nullptr), caf::exit_reason::user_shutdown);
    }
    return registered;
  }

  Result<void> register_with(const caf::strong_actor_ptr& agent, detail::ClusterCore& core,
                             const v1::WorkerSetup& setup) {
    GPUACTORS_LET(endpoint, core.links()->publish_in(listening_of(setup), worker_));
    core.workers()->add_own(to_string(endpoint), worker_);
    v1::WorkerHello hello;
    hello.set_worker(setup.number());
    hello.set_pid(static_cast<std::uint32_t>(::getpid()));
    hello.set_port(endpoint.port);
    auto welcome = std::make_shared<Welcome>();
    core.port().ask(welcome, agent, deadline_after(Clock::now(), 2 * limits::link_timeout), std::move(hello), worker_);
    return welcome->wait();
  }

  /// Connects to the agent, with retries for a while: among a crowd of unauthenticated connections, the agent may
  /// refuse this one.
  static Result<caf::strong_actor_ptr> reach_agent(detail::ClusterCore& core, const v1::WorkerSetup& setup) {
    GPUACTORS_LET(endpoint, parse_endpoint(setup.agent()));
    const auto until = deadline_after(Clock::now(), limits::link_timeout);
    for (;;) {
      std::promise<Result<caf::strong_actor_ptr>> reached;
      core.links()->connect(endpoint, limits::connect_timeout,
                            [&](Result<caf::strong_actor_ptr> agent) { reached.set_value(std::move(agent)); });
      auto agent = reached.get_future().get();
      if (agent || agent.error().code() != Errc::unavailable || Clock::now() >= until)
        return agent;
      std::this_thread::sleep_for(limits::redial_shortest);
    }
  }

  static Result<void> open(const v1::WorkerSetup& setup, ProcessServices& services) {
    std::vector<DeviceInfo> described;
    for (const auto& device : setup.devices()) {
      GPUACTORS_LET(info, detail::from_wire(device));
      described.push_back(std::move(info));
    }
    GPUACTORS_LET(devices, open_devices(described, discovery_options(setup.node())));
    services.node = setup.node();
    services.worker = setup.number();
    services.devices = std::move(devices);
    services.runtime_source = !setup.no_jit();
    return {};
  }

  caf::strong_actor_ptr worker_;
  // Readable once the node has no more use for this process.
  std::shared_ptr<detail::Descriptor> leaves_ =
      std::make_shared<detail::Descriptor>(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  // Until this process ends by itself, and with it the connection.
  std::shared_ptr<std::atomic<bool>> agent_needed_ = std::make_shared<std::atomic<bool>>(true);
};

/// `worker --describe NODE SPEC FILE PLUGIN...`: writes the devices and types to FILE as JSON, behind a line that says
/// what this program speaks.
Result<void> describe(const std::string& node, const std::string& spec, const std::string& file,
                      const std::vector<std::string>& plugins) {
  const auto say = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  // The file is one of the node's own. A script that the node has as its program may be in between.
  int node_process = 0;
  if (std::sscanf(file.c_str(), "/proc/%d/fd/", &node_process) == 1
      && ::getppid() == node_process) // NOLINT(cert-err34-c)
    die_with_parent(node_process);
  // Plugins are loaded before any device is opened: a plugin may end the process.
  GPUACTORS_TRY(detail::load_plugins(plugins, say));
  v1::RegisterNode offer;
  *offer.mutable_types() = describe_types(TypeRegistry::global());
  GPUACTORS_TRY(check_catalog(offer.types()));
  GPUACTORS_LET(specs, parse_device_specs(spec));
  GPUACTORS_LET(devices, make_devices(specs, discovery_options(node)));
  offer.mutable_node()->set_name(node);
  detail::add_devices(devices, *offer.mutable_node());
  GPUACTORS_LET(json, message_to_json(offer));
  std::ofstream out{file};
  if (!(out << detail::to_line(detail::own_greeting()) << json).flush())
    return fail(Errc::unavailable, fmt::format("{} cannot be written", file));
  return {};
}

Result<void> run(int argc, const char* const* argv) {
  constexpr int describe_arguments = 6;
  if (argc >= describe_arguments && std::string_view{argv[2]} == "--describe")
    return describe(argv[3], argv[4], argv[5], {argv + describe_arguments, argv + argc});
  if (argc > 2 && argv[2] == detail::local_role_argument)
    return detail::play_local_role({argv + 3, argv + argc});
  constexpr int worker_arguments = 3;
  if (argc != worker_arguments)
    return fail(Errc::invalid_argument, "a worker is started by its node");
  v1::WorkerSetup setup;
  GPUACTORS_TRY(message_from_json(setup, argv[2], UnknownFields::ignored));
  group_dies_with_parent(static_cast<pid_t>(setup.parent()));
  die_first_without_memory();
  WorkerProcess process;
  return process.run(setup);
}

} // namespace

std::optional<int> run_if_worker(int argc, const char* const* argv) {
  detail::note_beginning();
  if (argc < 2 || std::string_view{argv[1]} != "worker")
    return std::nullopt;
  const auto done = run(argc, argv);
  if (done)
    return 0;
  std::fprintf(stderr, "%s\n", done.error().message().c_str());
  return 1;
}

} // namespace gpuactors
