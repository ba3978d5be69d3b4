// A run of the embedded broker, recorded and put through `plan`, gives the same grants.
#include "fixtures.hpp"

#include <gpuactors/plan/plan.hpp>

#include <support/catch.hpp>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

using namespace gpuactors;
using namespace gpuactors::test;

namespace {

// The work of one client: tasks and actors of many shapes, some of which wait, time out, are withdrawn or never fit.
// What becomes of each is left open: the grants are compared.
void run_work(Cluster& cluster, unsigned seed) {
  std::mt19937 random{seed};
  const auto below = [&](int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); };
  std::vector<Future<Text>> tasks;
  std::vector<ActorRef> actors;
  for (int i = 0; i < 60; ++i) {
    static const double shares[] = {0.25, 0.5, 0.75, 1, 2};
    Options options;
    options.gpus = shares[below(5)];
    options.priority = below(3) - 1;
    options.spread = below(4) == 0;
    // All give up some time: clients hold actors while they wait for tasks, and could wait for one another.
    options.queue_timeout = std::chrono::milliseconds{below(4) == 0 ? 1 + below(3) : 100};
    if (below(5) == 0)
      options.node = "n" + std::to_string(below(3));
    if (below(5) == 0)
      options.labels = {{"rack", below(2) == 0 ? "a" : "b"}};
    if (below(6) == 0) {
      options.gpus = 0;
      options.memory_bytes = 1U << (20 + below(5));
    }
    if (below(6) == 0)
      options.resources = {{"neuron_cores", 1}};
    if (below(12) == 0)
      options.gpus = 3;
    if (below(8) == 0) {
      options.name = "actor-" + std::to_string(seed) + "-" + std::to_string(i);
      options.queue_timeout = std::chrono::milliseconds{5};
      if (auto actor = cluster.spawn("accumulator", number(0), options))
        actors.push_back(*actor);
    } else {
      tasks.push_back(cluster.submit<Text>("echo", text("x"), options));
      if (below(6) == 0)
        tasks.back().cancel();
    }
    if (below(10) == 0) {
      GroupOptions waiting{.strategy = static_cast<GroupStrategy>(below(4)), .queue_timeout = options.queue_timeout};
      if (auto group = cluster.create_group({{.gpus = 0.5}, {.gpus = 1}}, waiting)) {
        tasks.push_back(
            cluster.submit<Text>("echo", text("x"), {.gpus = 0.25, .group = group->id, .bundle = below(3) - 1}));
        static_cast<void>(cluster.remove_group(group->id));
      }
    }
    if (!actors.empty() && below(3) == 0) {
      static_cast<void>(cluster.kill(actors.back()));
      actors.pop_back();
    }
    if (tasks.size() > 8) {
      static_cast<void>(tasks.front().get());
      tasks.erase(tasks.begin());
    }
  }
  for (auto& task : tasks)
    static_cast<void>(task.get());
  for (const auto& actor : actors)
    static_cast<void>(cluster.kill(actor));
}

std::string describe(std::uint64_t request, const std::string& node,
                     const std::vector<std::tuple<int, std::int64_t, std::uint64_t>>& devices) {
  auto text = std::to_string(request) + " on " + node;
  for (const auto& [index, units, bytes] : devices)
    text += " " + std::to_string(index) + ":" + std::to_string(units) + ":" + std::to_string(bytes);
  return text;
}

std::vector<std::string> grants_of(const v1::ClusterState& state) {
  std::vector<std::string> grants;
  for (const auto& event : state.events()) {
    if (event.kind() != "granted")
      continue;
    if (event.request() == 0) {
      grants.emplace_back("a group");
      continue;
    }
    std::vector<std::tuple<int, std::int64_t, std::uint64_t>> devices;
    for (const auto& device : event.lease().devices())
      devices.emplace_back(device.index(), device.share_units(), device.memory_bytes());
    grants.push_back(describe(event.request(), event.lease().node(), devices));
  }
  return grants;
}

std::vector<std::string> grants_of(std::istream& lines) {
  std::vector<std::string> grants;
  for (std::string line; std::getline(lines, line);) {
    const auto event = nlohmann::json::parse(line);
    if (event.value("event", "") != "granted")
      continue;
    if (event.contains("bundles")) {
      grants.emplace_back("a group");
      continue;
    }
    std::vector<std::tuple<int, std::int64_t, std::uint64_t>> devices;
    for (const auto& device : event["devices"])
      devices.emplace_back(device["index"], Share::from_double(device["share"], "share")->units(),
                           std::stoull(device["memory_bytes"].get<std::string>()));
    const auto id = event["id"].get<std::string>();
    grants.push_back(describe(std::stoull(id.substr(id.rfind('#') + 1)), event["node"], devices));
  }
  return grants;
}

struct TemporaryFile {
  explicit TemporaryFile(const std::string& name)
    : path((std::filesystem::temp_directory_path() / ("gpuactors-" + std::to_string(getpid()) + "-" + name)).string()) {
    // nop
  }

  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }

  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  std::string path;
};

EmbedOptions three_nodes(const std::string& record) {
  EmbedOptions options;
  options.registry = types();
  options.record = record;
  for (int i = 0; i < 3; ++i) {
    EmbeddedNode node;
    node.name = "n" + std::to_string(i);
    node.devices = i == 0 ? "host:2x64MiB@V100" : i == 1 ? "host:2x32MiB" : "host:1x64MiB host:1x32MiB@V100";
    node.cpus = 4;
    node.labels = {{"rack", i == 2 ? "b" : "a"}};
    node.resources = {{"neuron_cores", 2}};
    options.nodes.push_back(node);
  }
  return options;
}

// The state once nothing is held and nothing waits: idle leases go back after a while, and could be granted to others
// between a look at the state and the end of the recording.
v1::ClusterState state_at_rest(Cluster& cluster) {
  while (true) {
    auto state = must(cluster.state({.events_from = 1}));
    if (state.leases_size() == 0 && state.queue_size() == 0)
      return state;
    std::this_thread::yield();
  }
}

} // namespace

TEST_CASE("a recorded run of the broker gives the same grants in plan", "[cluster]") {
  const TemporaryFile file{"replay.json"};
  v1::ClusterState state;
  {
    auto cluster = Cluster::embed(three_nodes(file.path));
    REQUIRE(cluster.has_value());
    std::vector<std::thread> clients;
    for (unsigned seed = 1; seed <= 4; ++seed)
      clients.emplace_back([&cluster, seed] { run_work(*cluster, seed); });
    for (auto& client : clients)
      client.join();
    state = state_at_rest(*cluster);
    REQUIRE(static_cast<std::size_t>(state.events_size()) < limits::event_log);
  }
  std::ifstream recording(file.path);
  std::stringstream lines;
  const auto planned = run_plan(recording, lines);
  REQUIRE((planned ? "" : planned.error().message()) == std::string{});
  const auto grants = grants_of(state);
  CHECK(grants.size() > 50);
  CHECK(grants_of(lines) == grants);
}

TEST_CASE("tasks that borrow from their parents are recorded too", "[cluster]") {
  const TemporaryFile file{"replay-parents.json"};
  v1::ClusterState state;
  {
    auto options = three_nodes(file.path);
    options.nodes.resize(1);
    auto registry = std::make_shared<TypeRegistry>();
    define_task(
        "leaf", [](TaskContext&, const Text& in) { return in; }, *registry);
    define_task(
        "parent",
        [](TaskContext& ctx, const Text& in) -> Result<Text> {
          auto cluster = Cluster::from(ctx);
          auto a = cluster.submit<Text>("leaf", in, {.gpus = 0.5});
          auto b = cluster.submit<Text>("leaf", in, {.gpus = 1});
          GPUACTORS_TRY(a.get());
          return b.get();
        },
        *registry);
    options.registry = registry;
    auto cluster = Cluster::embed(std::move(options));
    REQUIRE(cluster.has_value());
    for (int i = 0; i < 5; ++i)
      REQUIRE(cluster->submit<Text>("parent", text("x"), {.gpus = 2}).get().has_value());
    state = state_at_rest(*cluster);
  }
  std::ifstream recording(file.path);
  std::stringstream lines;
  REQUIRE(run_plan(recording, lines));
  CHECK(grants_of(lines) == grants_of(state));
}

TEST_CASE("a recording that cannot be written is an error at the start", "[cluster]") {
  const auto cluster = Cluster::embed(three_nodes("/nowhere/at/all.json"));
  REQUIRE_FALSE(cluster.has_value());
  CHECK(cluster.error()
        == Error{Errc::invalid_argument,
                 "the recording /nowhere/at/all.json cannot be written: No such file or directory"});
}
