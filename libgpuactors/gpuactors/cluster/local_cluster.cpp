#include <gpuactors/base/suggest.hpp>
#include <gpuactors/cluster/detail/check_options.hpp>
#include <gpuactors/cluster/detail/local_processes.hpp>
#include <gpuactors/cluster/detail/own_folder.hpp>
#include <gpuactors/cluster/detail/process_tree.hpp>
#include <gpuactors/cluster/local_cluster.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <set>

namespace gpuactors {

using detail::LocalProcesses;
using detail::LocalRole;
using detail::OwnFolder;

namespace {

/// How long a process may take to end in order, beside the grace of its node.
constexpr Duration ending_patience = std::chrono::seconds{10};

} // namespace

void LocalClusterOptions::write_line(std::string_view process, std::string_view line) {
  // In one piece, and without an exception where nobody reads.
  std::fputs(fmt::format("{}: {}\n", process, line).c_str(), stderr);
}

// -- Impl -----------------------------------------------------------------------------------------

class LocalCluster::Impl {
public:
  Impl(const LocalClusterOptions& options, OwnFolder folder, std::unique_ptr<LocalProcesses> processes)
    : store_(options.store), folder_(std::move(folder)), processes_(std::move(processes)) {
    connect_.insecure = options.insecure;
    connect_.heartbeat = options.heartbeat;
    connect_.link_timeout = options.link_timeout;
    if (!options.insecure)
      connect_.certificates = (folder_.path() / "certs").string();
  }

  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  ~Impl() {
    cluster_.reset();
    // All nodes at once, and then the broker, to which they say goodbye. What has ended already needs nothing.
    const auto running = processes_->names();
    for (const auto& name : running)
      if (name != broker)
        static_cast<void>(processes_->ask_to_end(name));
    for (const auto& name : running)
      if (name != broker)
        processes_->insist_on_end(name, ending_patience);
    if (processes_->ask_to_end(broker))
      processes_->insist_on_end(broker, ending_patience);
  }

  Result<void> begin(const LocalClusterOptions& options) {
    GPUACTORS_TRY(start_broker());
    // Each takes a while to look at its devices.
    std::vector<std::string> names;
    for (const auto& node : options.nodes) {
      GPUACTORS_LET(name, spawn_node(node));
      names.push_back(name);
    }
    for (const auto& name : names)
      GPUACTORS_TRY(processes_->await_ready(name));
    auto connect = connect_;
    connect.reconnect_grace = options.reconnect_grace;
    GPUACTORS_LET(cluster, Cluster::connect(connect));
    cluster_.emplace(std::move(cluster));
    return {};
  }

  Result<void> start_broker() {
    if (runs(broker))
      return fail(Errc::already_exists, "the broker runs");
    auto role = new_role();
    role.is_broker = true;
    role.broker.listen = connect_.broker.empty() ? "127.0.0.1:0" : connect_.broker;
    if (store_)
      role.broker.store = (folder_.path() / "broker.db").string();
    GPUACTORS_TRY(processes_->start(std::string{broker}, role, {}));
    GPUACTORS_LET(address, processes_->await_ready(std::string{broker}));
    if (connect_.broker.empty())
      connect_.broker = address;
    return {};
  }

  Result<std::string> add_node(const LocalNode& node) {
    if (!runs(broker))
      return fail(Errc::unavailable, "the broker does not run, and takes no node: start it first");
    GPUACTORS_LET(name, spawn_node(node));
    GPUACTORS_TRY(processes_->await_ready(name));
    return std::move(name);
  }

  Result<void> stop_node(std::string_view name) {
    GPUACTORS_TRY(check_node(name));
    const auto grace = graces_.find(name);
    const auto patience = ending_patience + (grace == graces_.end() ? Duration::zero() : grace->second);
    GPUACTORS_TRY(processes_->ask_to_end(name));
    return processes_->await_end(name, patience);
  }

  Result<void> kill_node(std::string_view name) {
    GPUACTORS_TRY(check_node(name));
    return processes_->kill(name);
  }

  [[nodiscard]] LocalProcesses& processes() const noexcept {
    return *processes_;
  }
  [[nodiscard]] const ConnectOptions& connection() const noexcept {
    return connect_;
  }
  [[nodiscard]] Cluster& cluster() noexcept {
    return *cluster_;
  }
  [[nodiscard]] std::mutex& turns() noexcept {
    return turns_;
  }

private:
  [[nodiscard]] bool runs(std::string_view name) const {
    const auto names = processes_->names();
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  [[nodiscard]] Result<void> check_node(std::string_view name) const {
    if (name == broker)
      return fail(Errc::not_found, "the broker is no node: it has members of its own");
    GPUACTORS_TRY(processes_->pid(name));
    return {};
  }

  [[nodiscard]] LocalRole new_role() const {
    LocalRole role;
    role.parent = ::getpid();
    role.daemon.certificates = connect_.certificates;
    role.daemon.insecure = connect_.insecure;
    role.daemon.heartbeat = connect_.heartbeat;
    role.daemon.link_timeout = connect_.link_timeout;
    return role;
  }

  Result<std::string> spawn_node(const LocalNode& node) {
    auto name = node.name;
    for (int number = 0; name.empty() || (node.name.empty() && runs(name)); ++number)
      name = fmt::format("n{}", number);
    if (name == broker)
      return fail(Errc::invalid_argument, "no node is named \"broker\": the broker is");
    if (runs(name))
      return fail(Errc::already_exists, fmt::format("the node {} runs", name));
    auto role = new_role();
    role.node.broker = connect_.broker;
    role.node.name = name;
    role.node.devices = node.devices;
    role.node.cpus = node.cpus;
    role.node.labels = node.labels;
    role.node.resources = node.resources;
    role.node.host_memory_bytes = node.host_memory_bytes;
    role.node.memory_threshold = node.memory_threshold;
    role.node.accelerator_root = node.accelerator_root;
    role.node.programs = node.programs;
    role.node.plugins = node.plugins;
    role.node.runtime_source = node.runtime_source;
    role.node.stop_grace = node.stop_grace;
    // By number, since not every name is one of a folder; a node that is added again finds its log.
    const auto number = logs_.emplace(name, logs_.size()).first->second;
    role.node.logs = (folder_.path() / "logs" / std::to_string(number)).string();
    graces_[name] = node.stop_grace;
    GPUACTORS_TRY(processes_->start(name, role, node.environment));
    return name;
  }

  const bool store_;
  OwnFolder folder_;
  std::unique_ptr<LocalProcesses> processes_;
  ConnectOptions connect_;
  std::optional<Cluster> cluster_;
  /// Held by what starts, ends or freezes something.
  std::mutex turns_;
  std::map<std::string, std::size_t> logs_;
  std::map<std::string, Duration, std::less<>> graces_;
};

// -- LocalCluster ---------------------------------------------------------------------------------

LocalCluster::LocalCluster(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
  // nop
}

LocalCluster::LocalCluster(LocalCluster&&) noexcept = default;
LocalCluster& LocalCluster::operator=(LocalCluster&&) noexcept = default;
LocalCluster::~LocalCluster() = default;

Result<LocalCluster> LocalCluster::start(LocalClusterOptions options) {
  GPUACTORS_TRY(detail::check_beginning());
  ConnectOptions times;
  times.broker = "127.0.0.1:1"; // not known yet
  times.heartbeat = options.heartbeat;
  times.link_timeout = options.link_timeout;
  times.reconnect_grace = options.reconnect_grace;
  GPUACTORS_TRY(detail::check_connection(times));
  GPUACTORS_LET(folder, OwnFolder::make());
  GPUACTORS_LET(processes, LocalProcesses::make(options.on_line));
  auto impl = std::make_unique<Impl>(options, std::move(folder), std::move(processes));
  GPUACTORS_TRY(impl->begin(options));
  return LocalCluster{std::move(impl)};
}

Cluster& LocalCluster::cluster() noexcept {
  return impl_->cluster();
}

std::string LocalCluster::broker_address() const {
  return impl_->connection().broker;
}

std::string LocalCluster::certificates() const {
  return impl_->connection().certificates;
}

ConnectOptions LocalCluster::connect_options() const {
  return impl_->connection();
}

std::vector<std::string> LocalCluster::nodes() const {
  auto names = impl_->processes().names();
  std::erase(names, std::string{broker});
  return names;
}

Result<pid_t> LocalCluster::pid(std::string_view name) const {
  return impl_->processes().pid(name);
}

Result<std::vector<pid_t>> LocalCluster::pids(std::string_view name) const {
  GPUACTORS_LET(root, pid(name));
  return detail::process_tree(root);
}

std::string LocalCluster::output() const {
  return impl_->processes().output();
}

Result<std::string> LocalCluster::add_node(LocalNode node) {
  const std::lock_guard turn{impl_->turns()};
  return impl_->add_node(node);
}

Result<void> LocalCluster::stop_node(std::string_view name) {
  const std::lock_guard turn{impl_->turns()};
  return impl_->stop_node(name);
}

Result<void> LocalCluster::kill_node(std::string_view name) {
  const std::lock_guard turn{impl_->turns()};
  return impl_->kill_node(name);
}

Result<void> LocalCluster::kill_broker() {
  const std::lock_guard turn{impl_->turns()};
  return impl_->processes().kill(broker);
}

Result<void> LocalCluster::start_broker() {
  const std::lock_guard turn{impl_->turns()};
  return impl_->start_broker();
}

Result<void> LocalCluster::freeze(std::string_view name) {
  const std::lock_guard turn{impl_->turns()};
  return impl_->processes().freeze(name);
}

Result<void> LocalCluster::resume(std::string_view name) {
  const std::lock_guard turn{impl_->turns()};
  return impl_->processes().resume(name);
}

} // namespace gpuactors
