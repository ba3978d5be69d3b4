// A cluster of processes in which one node has a plugin: what is of its types runs there and nowhere else.
#include "fixture.hpp"

#include <algorithm>
#include <csignal>
#include <set>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

const std::vector<std::string> with_plugin{"--plugin", GPUACTORS_TEST_PLUGIN};

/// A node with much room, and another one with the plugin and little of it.
Cluster start(Processes& processes) {
  processes.start_broker();
  processes.start_node("n0", "host:4x64MiB");
  processes.start_node("n1", "host:1x64MiB", with_plugin);
  return processes.connect();
}

/// A message of the plugin, which this program was not compiled with.
Payload message(Cluster& cluster, const std::string& name, const std::string& json) {
  const auto types = must(cluster.described_types());
  return must(types.messages().from_json(name, json));
}

/// Two words to turn around.
Future<Payload> reverse(Cluster& cluster, Options options = {.gpus = 0.1}) {
  return cluster.submit_payload("words.reverse", message(cluster, "plugintest.v1.Words", R"({"words":["a","b"]})"),
                                options);
}

Future<ActorRef> spawn_counter(Cluster& cluster, const std::string& name, double gpus, int restarts = 0) {
  return cluster.spawn_payload("words.counter", message(cluster, "plugintest.v1.Tally", "{}"),
                               {.gpus = gpus, .name = name, .max_restarts = restarts});
}

/// The nodes on which something of this name was granted.
std::set<std::string> nodes_of(Cluster& cluster, const std::string& name) {
  std::set<std::string> nodes;
  const auto state = must(cluster.state({.events_from = 1}));
  for (const auto& event : state.events())
    if (event.kind() == "granted" && event.name() == name)
      nodes.insert(event.lease().node());
  return nodes;
}

std::string home_of(Cluster& cluster, const std::string& actor) {
  const auto state = must(cluster.state());
  for (const auto& one : state.actors())
    if (one.name() == actor && one.state() == "alive")
      return one.lease().node();
  return "none";
}

Error error_of(Future<Payload> future) {
  const auto result = future.get();
  REQUIRE_FALSE(result.has_value());
  return result.error();
}

/// Whether the only request in the queue waits for this reason.
bool waits(Cluster& cluster, const std::string& reason) {
  const auto state = must(cluster.state());
  return state.queue_size() == 1 && state.queue(0).reason().find(reason) != std::string::npos;
}

} // namespace

TEST_CASE("tasks and actors of a plugin run on the node that has it, although another has more room",
          "[processes][types]") {
  Processes processes;
  auto cluster = start(processes);
  const auto types = must(cluster.described_types());
  const auto* task = must(types.find_task("words.reverse"));
  CHECK(task->node_count() == 1);
  REQUIRE(task->nodes_size() == 1);
  CHECK(task->nodes(0) == "n1");
  CHECK(must(types.find_task("pid"))->node_count() == 0);

  std::vector<Future<Payload>> answers;
  for (int i = 0; i < 40; ++i)
    answers.push_back(reverse(cluster));
  for (auto& answer : answers)
    must(answer.get());
  CHECK(nodes_of(cluster, "words.reverse") == std::set<std::string>{"n1"});
  // Under one name with tasks that run on either node, whose leases are kept for the next ones: still there.
  answers.clear();
  std::vector<Future<Number>> others;
  const Options named{.gpus = 0.1, .name = "mixed"};
  for (int i = 0; i < 40; ++i) {
    others.push_back(cluster.submit<Number>("pid", google::protobuf::Empty{}, named));
    answers.push_back(reverse(cluster, named));
  }
  for (auto& answer : answers)
    must(answer.get());
  for (auto& other : others)
    must(other.get());

  must(spawn_counter(cluster, "w0", 0.5).get());
  must(spawn_counter(cluster, "w1", 0.25).get());
  CHECK(home_of(cluster, "w0") == "n1");
  CHECK(home_of(cluster, "w1") == "n1");
  must(cluster.spawn("counter", number(1), {.gpus = 1, .name = "c"}));
  CHECK(home_of(cluster, "c") == "n0");
  // The node with the type is full, and the other one nearly empty: it waits.
  auto waiting = spawn_counter(cluster, "w2", 0.5);
  CHECK(eventually([&] { return waits(cluster, "; 1 of 2 nodes does not have the type \"actor words.counter\""); }));
  must(cluster.kill("w0"));
  must(waiting.get());
  CHECK(home_of(cluster, "w2") == "n1");
  CHECK(error_of(cluster.submit_payload("words.revers", message(cluster, "plugintest.v1.Words", "{}")))
        == Error{Errc::not_found, "no node has the type \"task words.revers\": 2 nodes are registered; did you mean "
                                  "\"task words.reverse\"?"});
}

TEST_CASE("when the node with a type dies, its tasks are not found and its actors wait for another one",
          "[processes][types]") {
  Processes processes;
  auto cluster = start(processes);
  must(spawn_counter(cluster, "w", 0.25, 5).get());
  const auto words = message(cluster, "plugintest.v1.Words", R"({"words":["a"]})");
  processes.signal("n1", SIGKILL);
  CHECK(eventually([&] {
    return waits(cluster, "it waits for new nodes: no node has the type \"actor words.counter\": 1 node is registered");
  }));
  const auto lost = error_of(cluster.submit_payload("words.reverse", words, {.gpus = 0.1}));
  CHECK(lost.code() == Errc::not_found);
  CHECK(lost.message().find("no node has the type \"task words.reverse\": 1 node is registered") == 0);
  auto patient = cluster.submit_payload("words.reverse", words, {.gpus = 0.1, .wait_for_nodes = true});
  // One without the plugin is of no use to them.
  processes.start_node("n2", "host:1x64MiB");
  CHECK_FALSE(patient.wait(200ms));
  CHECK(home_of(cluster, "w") == "none");
  processes.start_node("n3", "host:1x64MiB", with_plugin);
  must(patient.get());
  CHECK(eventually([&] { return home_of(cluster, "w") == "n3"; }));
}

TEST_CASE("a task for a bundle on a node without its type is told which node that is", "[processes][types]") {
  Processes processes;
  auto cluster = start(processes);
  const auto group = must(cluster.create_group({{.gpus = 1, .node = "n0"}, {.gpus = 0.5, .node = "n1"}}));
  CHECK(error_of(reverse(cluster, {.gpus = 0.1, .group = group.id, .bundle = 0}))
        == Error{Errc::not_found, "bundle 0: node n0 does not have the type \"task words.reverse\""});
  must(reverse(cluster, {.gpus = 0.1, .group = group.id, .bundle = 1}).get());
}
