// What actors publish, between processes.
#include "fixture.hpp"

#include <csignal>
#include <optional>

using namespace gpuactors;
using namespace gpuactors::test;

namespace {

/// What the only actor publishes under this name, by the broker's state.
std::optional<double> published(Cluster& cluster, const std::string& name) {
  const auto state = cluster.state();
  if (!state || state->actors_size() != 1)
    return std::nullopt;
  for (const auto& metric : state->actors(0).metrics())
    if (metric.name() == name)
      return metric.value();
  return std::nullopt;
}

void publish(const ActorRef& actor, double value) {
  must(actor.call<Number>("publish", number(value)).get(std::chrono::seconds{20}));
}

/// How often the task ran on the only node, by the broker's state.
std::uint64_t ran(Cluster& cluster, const std::string& task) {
  const auto state = cluster.state();
  std::uint64_t count = 0;
  if (!state || state->nodes_size() != 1)
    return 0;
  for (const auto& stats : state->nodes(0).tasks())
    if (stats.name() == task)
      for (const auto in_bound : stats.ran())
        count += in_bound;
  return count;
}

} // namespace

TEST_CASE("how the tasks of a node went is counted over its workers, and told to a broker that starts again",
          "[processes]") {
  Processes processes;
  auto cluster = processes.up();
  const auto run = [&](const Options& options) {
    const auto pid = must(cluster.submit<Number>("pid", {}, options).get(std::chrono::seconds{20}));
    return static_cast<pid_t>(pid.value());
  };
  run({.gpus = 0.25});
  const auto worker = run({.gpus = 0.25});
  CHECK(eventually([&] { return ran(cluster, "pid") == 2; }));
  // Another worker counts from its own start.
  Processes::signal(worker, SIGKILL);
  const auto runs = [&] {
    return cluster.submit<Number>("pid", {}, {.gpus = 0.25}).get(std::chrono::seconds{20}).has_value();
  };
  CHECK(eventually(runs));
  CHECK(eventually([&] { return ran(cluster, "pid") == 3; }));
  // A process for one task says what it did before it ends.
  run({.gpus = 0.25, .isolation = Isolation::process});
  CHECK(eventually([&] { return ran(cluster, "pid") == 4; }));
  processes.signal("broker", SIGKILL);
  processes.start_broker();
  CHECK(eventually([&] { return ran(cluster, "pid") == 4; }));
}

TEST_CASE("what an actor publishes is in the state, and comes back to a broker that starts again", "[processes]") {
  Processes processes;
  auto cluster = processes.up();
  auto actor = must(cluster.spawn("counter", number(0), {.name = "c"}));
  publish(actor, 0.25);
  publish(actor, 0.5);
  CHECK(eventually([&] { return published(cluster, "published_total") == 2; }));
  CHECK(published(cluster, "published") == 0.5);
  processes.signal("broker", SIGKILL);
  processes.start_broker();
  // Nothing has changed since: the node tells it once more.
  CHECK(eventually([&] { return published(cluster, "published_total") == 2; }));
  CHECK(published(cluster, "published") == 0.5);
  publish(actor, 1);
  CHECK(eventually([&] { return published(cluster, "published_total") == 3; }));
}

TEST_CASE("counters of an actor begin at 0 in its next life", "[processes]") {
  Processes processes;
  auto cluster = processes.up();
  auto actor = must(cluster.spawn("counter", number(0), {.max_restarts = 1, .max_task_retries = 1}));
  publish(actor, 5);
  publish(actor, 5);
  CHECK(eventually([&] { return published(cluster, "published_total") == 2; }));
  Processes::signal(pid_of(actor), SIGKILL);
  publish(actor, 7);
  CHECK(eventually([&] { return published(cluster, "published") == 7; }));
  CHECK(published(cluster, "published_total") == 1);
}
