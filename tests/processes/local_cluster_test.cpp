// LocalCluster: what a program can start, how it hurts it, and that nothing of it is left.
#include "fixture.hpp"

#include <gpuactors/cluster/local_cluster.hpp>

#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

constexpr const char* one_device = "host:1x64MiB";

/// Silent but for failures, which show what the processes wrote.
LocalClusterOptions quiet(std::vector<LocalNode> nodes) {
  LocalClusterOptions options;
  options.nodes = std::move(nodes);
  options.heartbeat = 200ms;
  options.link_timeout = Processes::patience;
  options.on_line = nullptr;
  return options;
}

LocalClusterOptions of_two() {
  return quiet({{.name = "a", .devices = one_device}, {.name = "b", .devices = one_device}});
}

bool is_gone(pid_t pid) {
  return ::kill(pid, 0) != 0;
}

/// Also where nobody reaps the children of processes that were killed.
bool is_dead(pid_t pid) {
  std::error_code gone;
  return is_gone(pid) || std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pid), gone).empty();
}

pid_t pid_on(LocalCluster& local, const std::string& node) {
  return static_cast<pid_t>(
      must(local.cluster().submit<Number>("pid", {}, {.gpus = 1, .node = node}).get(20s)).value());
}

bool serves(const ActorRef& actor) {
  return actor.call<Number>("add", number(0), 5s).get().has_value();
}

/// The state that the broker gives a node; empty for one that it does not know.
std::string state_of(LocalCluster& local, const std::string& node) {
  const auto state = local.cluster().state();
  if (state)
    for (const auto& entry : state->nodes())
      if (entry.node().name() == node)
        return entry.state();
  return {};
}

std::string node_of_counter(LocalCluster& local) {
  const auto state = local.cluster().state();
  return state && state->actors_size() == 1 ? state->actors(0).lease().node() : std::string{};
}

/// A program of its own, its standard output and its end.
class Program {
public:
  Program(std::filesystem::path path, std::vector<std::string> arguments,
          std::map<std::string, std::string> variables) {
    ProcessHandlers handlers;
    handlers.on_line = [this](const Process&, OutputStream stream, std::string_view line, LogTime) {
      const std::lock_guard lock{mutex_};
      if (stream == OutputStream::out)
        lines_.emplace_back(line);
    };
    handlers.on_exit = [this](const Process&, const ExitStatus& status) {
      const std::lock_guard lock{mutex_};
      status_ = status;
    };
    table_ = must(ProcessTable::make(std::move(handlers)));
    Command command;
    command.path = std::move(path);
    command.arguments = std::move(arguments);
    command.set = std::move(variables);
    process_ = must(table_->start(command));
  }

  std::vector<std::string> lines() {
    const std::lock_guard lock{mutex_};
    return lines_;
  }

  bool has_line(const std::string& line) {
    const auto all = lines();
    return std::find(all.begin(), all.end(), line) != all.end();
  }

  void kill() {
    must(table_->signal(process_.id, SIGKILL));
    REQUIRE(eventually([this] { return ended().has_value(); }));
  }

  /// How it ended by itself.
  ExitStatus await() {
    INFO(fmt::format("{}", fmt::join(lines(), "\n")));
    REQUIRE(eventually([this] { return ended().has_value(); }));
    return *ended();
  }

private:
  std::optional<ExitStatus> ended() {
    const std::lock_guard lock{mutex_};
    return status_;
  }

  std::mutex mutex_;
  std::vector<std::string> lines_;
  std::optional<ExitStatus> status_;
  Process process_;
  std::unique_ptr<ProcessTable> table_;
};

std::filesystem::path this_program() {
  return std::filesystem::read_symlink("/proc/self/exe");
}

} // namespace

GPUACTORS_TASK("say", [](TaskContext&, const Text& words) {
  std::cout << words.text() << std::endl;
  return words;
});
// Leaves a process of its own below the worker, without end. @returns its pid.
GPUACTORS_TASK("leave_child", [](TaskContext&, const google::protobuf::Empty&) -> Result<Number> {
  const auto child = ::fork();
  if (child == 0)
    for (;;)
      ::pause();
  if (child < 0)
    return fail(Errc::task_failed, "no child");
  return number(child);
});

TEST_CASE("a local cluster is processes of this program, and leaves nothing behind", "[local]") {
  std::vector<pid_t> pids;
  std::filesystem::path folder;
  {
    auto local = must(LocalCluster::start(of_two()));
    folder = std::filesystem::path{local.certificates()}.parent_path();
    CHECK(local.nodes() == std::vector<std::string>{"a", "b"});
    CHECK(pid_on(local, "a") != pid_on(local, "b"));
    for (const auto& name : {"broker", "a", "b"})
      for (const auto pid : must(local.pids(name)))
        pids.push_back(pid);
    CHECK(pids.size() >= 5);
    CHECK(std::count(pids.begin(), pids.end(), pid_on(local, "a")) == 1);
    CHECK(pids.front() == must(local.pid("broker")));

    // Others reach it too.
    auto other = must(Cluster::connect(local.connect_options()));
    CHECK(must(other.state()).nodes_size() == 2);
    other.close();
    Program status{this_program().replace_filename("gpuactors"),
                   {"status", "--broker", local.broker_address(), "--certs", local.certificates(), "--heartbeat", "0.2",
                    "--link-timeout", fmt::format("{}", to_seconds(Processes::patience))},
                   {}};
    CHECK(status.await().succeeded());
    CHECK(std::filesystem::exists(folder));
  }
  CHECK(std::all_of(pids.begin(), pids.end(), is_gone));
  CHECK_FALSE(std::filesystem::exists(folder));
}

TEST_CASE("an actor with restarts serves on another node when its own is killed", "[local]") {
  auto local = must(LocalCluster::start(of_two()));
  INFO(local.output());
  auto actor = must(
      local.cluster().spawn("counter", number(3), {.gpus = 1, .node = "a", .node_is_soft = true, .max_restarts = 1}));
  const auto child = must(local.cluster().submit<Number>("leave_child", {}, {.node = "a"}).get(20s)).value();
  const auto pids = must(local.pids("a"));
  CHECK(std::count(pids.begin(), pids.end(), pid_of(actor)) == 1);
  CHECK(std::count(pids.begin(), pids.end(), static_cast<pid_t>(child)) == 1);
  must(local.kill_node("a"));
  CHECK(std::all_of(pids.begin(), pids.end(), is_dead));
  CHECK(eventually([&] { return serves(actor); }));
  CHECK(node_of_counter(local) == "b");
  CHECK(local.nodes() == std::vector<std::string>{"b"});
  const auto gone = local.pid("a");
  CHECK(code_of(gone) == Errc::not_found);
  CHECK(says(gone, "a does not run: it was ended by signal 9"));
  // A node of the name can be there again.
  CHECK(must(local.add_node({.name = "a", .devices = one_device})) == "a");
  CHECK(pid_on(local, "a") > 0);
}

TEST_CASE("actors live on when the broker is killed and started again", "[local]") {
  auto options = of_two();
  options.store = GENERATE(false, true);
  auto local = must(LocalCluster::start(options));
  INFO(local.output());
  auto actor = must(local.cluster().spawn("counter", number(3), {.gpus = 1, .name = "kept", .detached = true}));
  const auto worker = pid_of(actor);
  const auto address = local.broker_address();
  CHECK(code_of(local.start_broker()) == Errc::already_exists);
  must(local.kill_broker());
  CHECK(code_of(local.kill_broker()) == Errc::not_found);
  CHECK(code_of(local.add_node({.name = "c"})) == Errc::unavailable);
  CHECK(serves(actor));
  must(local.start_broker());
  CHECK(local.broker_address() == address);
  CHECK(eventually([&] { return !state_of(local, "a").empty() && !state_of(local, "b").empty(); }));
  CHECK(pid_of(must(local.cluster().find("kept"))) == worker);
}

TEST_CASE("a frozen node is noticed, and comes back when it goes on", "[local][frozen]") {
  auto options = of_two();
  options.link_timeout = Processes::link_timeout;
  auto local = must(LocalCluster::start(options));
  INFO(local.output());
  auto actor = must(
      local.cluster().spawn("counter", number(3), {.gpus = 1, .node = "a", .node_is_soft = true, .max_restarts = 1}));
  const auto usual = state_of(local, "a");
  must(local.freeze("a"));
  CHECK(eventually([&] { return state_of(local, "a") != usual; }));
  CHECK(eventually([&] { return serves(actor); }));
  CHECK(node_of_counter(local) == "b");
  must(local.resume("a"));
  CHECK(eventually([&] { return state_of(local, "a") == usual; }));
  CHECK(pid_on(local, "a") > 0);
  // What is frozen can be killed and stopped, and ends with the cluster.
  must(local.freeze("a"));
  must(local.kill_node("a"));
  must(local.freeze("b"));
  must(local.stop_node("b"));
  must(local.freeze("broker"));
}

TEST_CASE("a call ends at its deadline also while the process of its actor cannot be reached", "[local][frozen]") {
  auto local = must(LocalCluster::start(of_two()));
  INFO(local.output());
  auto actor = must(
      local.cluster().spawn("counter", number(3), {.gpus = 1, .node = "a", .node_is_soft = true, .max_restarts = 1}));
  must(local.kill_node("a"));
  const auto lives_there = [&] {
    return node_of_counter(local) == "b" && must(local.cluster().state()).actors(0).state() == "alive";
  };
  CHECK(eventually(lives_there));
  CHECK(actor.away());
  must(local.freeze("b")); // before this program has ever connected to its worker
  const auto begin = Clock::now();
  CHECK(code_of(actor.call<Number>("add", number(0), 300ms).get()) == Errc::deadline_exceeded);
  CHECK(Clock::now() - begin < limits::connect_timeout);
  must(local.resume("b"));
  CHECK(eventually([&] { return serves(actor); }));
}

TEST_CASE("nodes of a local cluster have what their options say", "[local]") {
  auto options = quiet({});
  options.insecure = true;
  std::mutex mutex;
  std::vector<std::string> lines;
  options.on_line = [&](std::string_view process, std::string_view line) {
    const std::lock_guard lock{mutex};
    lines.push_back(fmt::format("{}: {}", process, line));
  };
  auto local = must(LocalCluster::start(options));
  CHECK(local.certificates().empty());
  CHECK(local.nodes().empty());
  auto early = local.cluster().submit<Number>("pid", {}, {.gpus = 1, .wait_for_nodes = true});
  LocalNode node;
  node.devices = "host:1x64MiB@V100";
  node.cpus = 3;
  node.labels = {{"zone", "a=b"}};
  node.resources = {{"tokens", 0.1}};
  node.environment = {{"COLOUR", "red"}};
  CHECK(must(local.add_node(node)) == "n0");
  CHECK(must(local.add_node({.devices = one_device})) == "n1");
  CHECK(early.get(20s).has_value());
  Options wanted;
  wanted.gpus = 1;
  wanted.cpus = 3;
  wanted.accelerator_type = "V100";
  wanted.labels = {{"zone", "a=b"}};
  wanted.resources = {{"tokens", 0.1}};
  CHECK(must(local.cluster().submit<Text>("variable", text("COLOUR"), wanted).get(20s)).text() == "red");
  CHECK(must(local.cluster().submit<Text>("variable", text("COLOUR"), {.node = "n1"}).get(20s)).text() == "(not set)");
  must(local.cluster().submit<Text>("say", text("good morning"), {.node = "n1"}).get(20s));
  CHECK(eventually([&] { return local.output().find("] good morning\n") != std::string::npos; }));
  must(local.stop_node("n0"));
  CHECK(eventually([&] { return state_of(local, "n0").empty(); }));
  CHECK(must(local.cluster().state()).counters().count("node_lost") == 0);
  const std::lock_guard lock{mutex};
  CHECK(std::count(lines.begin(), lines.end(), "n1: node n1 is registered with the broker") == 1);
  CHECK(local.output().find("n0: node n0 is registered with the broker\n") != std::string::npos);
}

TEST_CASE("what a local cluster cannot be is refused in words", "[local]") {
  CHECK(code_of(LocalCluster::start(quiet({{.name = "a", .devices = one_device}, {.name = "a"}})))
        == Errc::already_exists);
  CHECK(code_of(LocalCluster::start(quiet({{.name = "broker"}}))) == Errc::invalid_argument);
  auto slow = quiet({});
  slow.heartbeat = 1h;
  CHECK(code_of(LocalCluster::start(slow)) == Errc::invalid_argument);
  const auto bad = LocalCluster::start(quiet({{.devices = "hosts:1"}}));
  CHECK(code_of(bad) == Errc::invalid_argument);
  CHECK(says(bad, "hosts:1"));
  const auto strange = LocalCluster::start(quiet({{.devices = one_device, .programs = {"/bin/true"}}}));
  CHECK(says(strange, "/bin/true is no program of gpuactors"));
  const auto other = std::filesystem::path{this_program()}.replace_filename("gpuactors").string();
  const auto clash = LocalCluster::start(quiet({{.devices = one_device, .programs = {this_program(), other}}}));
  CHECK(code_of(clash) == Errc::invalid_argument);
  CHECK(says(clash, "task type say is one thing in test_processes ("));
  const auto twice = LocalCluster::start(quiet({{.devices = one_device, .programs = {other, other}}}));
  CHECK(says(twice, "is named twice"));
  const auto plugin = LocalCluster::start(quiet({{.devices = one_device, .plugins = {"first.so", "second.so"}}}));
  CHECK(says(plugin, "first.so"));

  auto local = must(LocalCluster::start(quiet({{.name = "first", .devices = one_device}})));
  const auto unknown = local.kill_node("frist");
  CHECK(code_of(unknown) == Errc::not_found);
  CHECK(says(unknown, "did you mean \"first\"?"));
  for (const auto& refused : {local.stop_node("x"), local.freeze("x"), local.resume("x"), local.kill_node("broker")})
    CHECK(code_of(refused) == Errc::not_found);
  const auto taken = local.add_node({.name = "first"});
  CHECK(code_of(taken) == Errc::already_exists);
  CHECK(pid_on(local, "first") > 0);
}

TEST_CASE("a program that does not begin as it must is told so, and starts no other", "[local]") {
  const auto error_of = [](const std::string& how) {
    Program program{this_program(), {}, {{"GPUACTORS_TEST_MISUSE", how}}};
    CHECK(program.await().succeeded());
    const auto lines = program.lines();
    return lines.empty() ? std::string{} : lines.back();
  };
  for (const auto& how : {"never", "strays", "leaves"}) {
    const auto error = error_of(how);
    INFO(error);
    CHECK(error.starts_with("invalid_argument: "));
    CHECK(error.find("gpuactors::main, run_if_worker or Cluster::open(argc, argv) before anything else")
          != std::string::npos);
  }
  CHECK(error_of("never").find("has not asked") != std::string::npos);
  CHECK(error_of("leaves").find("ended with exit code 3") != std::string::npos);
}

TEST_CASE("a node of a local cluster is stopped within its grace, or at once with the cluster", "[local]") {
  auto options = of_two();
  options.nodes.front().stop_grace = 60s;
  options.nodes.back().stop_grace = 60s;
  std::optional<LocalCluster> local{must(LocalCluster::start(options))};
  auto moves =
      must(local->cluster().spawn("counter", number(3), {.node = "a", .node_is_soft = true, .max_restarts = 1}));
  must(local->stop_node("a"));
  CHECK(eventually([&] { return serves(moves); }));
  CHECK(must(moves.call<Number>("add", number(0)).get()).value() == 3);
  CHECK(node_of_counter(*local) == "b");
  auto detached = must(local->cluster().spawn("counter", number(3), {.detached = true}));
  const auto begun = Clock::now();
  local.reset();
  CHECK(Clock::now() - begun < 10s);
}

TEST_CASE("a local cluster ends with its program, however that ends", "[local]") {
  const TemporaryFolder temporary;
  const std::map<std::string, std::string> variables{{"TMPDIR", temporary.path().string()}};
  std::filesystem::path folder;
  {
    Program program{this_program(), {"local"}, variables};
    REQUIRE(eventually([&] { return program.has_line("ready"); }));
    std::vector<pid_t> pids;
    for (const auto& line : program.lines())
      if (line.starts_with("/"))
        folder = line;
      else if (const auto pid = std::atoi(line.c_str()); pid > 0)
        pids.push_back(pid);
    REQUIRE(pids.size() >= 5);
    CHECK(std::none_of(pids.begin(), pids.end(), is_dead));
    // A frozen process, too.
    REQUIRE(::kill(pids.back(), SIGSTOP) == 0);
    program.kill();
    CHECK(eventually([&] { return std::all_of(pids.begin(), pids.end(), is_dead); }));
  }
  // The next one clears away what such an end leaves.
  CHECK(std::filesystem::exists(folder));
  Program next{this_program(), {"local"}, variables};
  REQUIRE(eventually([&] { return next.has_line("ready"); }));
  CHECK_FALSE(std::filesystem::exists(folder));
}
