// A broker that stands by takes over when the active one is killed or frozen.
#include "fixture.hpp"

#include <support/catch.hpp>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

/// Says that a standby has a copy, and that it has taken over.
constexpr const char* follows = "it has a copy of its state";
constexpr const char* takes_over = "takes over from the broker";

/// A broker, one that stands by for it, two nodes and a client that know both.
struct Pair {
  Pair() {
    processes.start_broker({"--store", processes.file("first.db"), "--quota", "alice=2"});
    first = processes.broker();
    processes.start_standby("standby", first, {"--store", processes.file("second.db")});
    REQUIRE(eventually([&] { return processes.count(follows) == 1; }));
    processes.start_node("n0", "host:1x64MiB");
    processes.start_node("n1", "host:1x64MiB");
    cluster = processes.connect(60s);
    // Followers ask five times in a second.
    REQUIRE(eventually([&] { return event_of(*cluster, "standby").has_value(); }));
  }

  void await_takeover(std::size_t times) {
    REQUIRE(eventually([&] { return processes.count(takes_over) == times; }));
  }

  Processes processes{Processes::link_timeout};
  std::string first;
  std::optional<Cluster> cluster;
};

int count_of(const ActorRef& actor) {
  return static_cast<int>(must(actor.call<Number>("add", number(1)).get()).value());
}

} // namespace

TEST_CASE("when the broker dies, the one that stands by takes over, and what runs goes on", "[frozen][standby]") {
  Pair pair;
  auto& processes = pair.processes;
  auto& cluster = *pair.cluster;
  auto named = must(cluster.spawn("counter", number(0), {.gpus = 0.5, .name = "kept", .max_restarts = 1}));
  auto plain = must(cluster.spawn("counter", number(0), {.gpus = 0.5}));
  const auto worker = pid_of(named);
  CHECK(count_of(named) == 1);

  processes.signal("broker", SIGKILL);
  // Calls need no broker.
  CHECK(count_of(named) == 2);
  pair.await_takeover(1);
  CHECK(must(cluster.find("kept")).id() == named.id());
  CHECK(pid_of(named) == worker);
  CHECK(count_of(named) == 3);
  CHECK(count_of(plain) == 1);
  CHECK(eventually([&] { return must(cluster.state()).nodes_size() == 2; }));
  const auto state = must(cluster.state());
  CHECK(state.actors_size() == 2);
  REQUIRE(state.quotas_size() == 1);
  CHECK(state.quotas(0).owner() == "alice");
  // It places what is new, and what has died.
  CHECK(count_of(must(cluster.spawn("counter", number(10), {.gpus = 0.5}))) == 11);
  Processes::signal(worker, SIGKILL);
  CHECK(eventually([&] { return named.call<Number>("add", number(1)).get().has_value(); }));
  CHECK(pid_of(named) != worker);

  // The former one finds that it is not needed, stands by, and is the next one.
  processes.start_standby("broker", {}, {"--store", processes.file("first.db")}, pair.first);
  REQUIRE(eventually([&] { return processes.count(follows) == 2; }));
  processes.signal("standby", SIGSTOP);
  pair.await_takeover(2);
  CHECK(must(cluster.find("kept")).id() == named.id());
  CHECK(must(cluster.state()).quotas_size() == 1);
  // The one that has slept would still tell the other one that it was taken over: it is the one that gives way.
  processes.signal("standby", SIGCONT);
  processes.await_end("standby");
  CHECK(processes.runs("broker"));
  CHECK(must(cluster.find("kept")).id() == named.id());
}

TEST_CASE("a frozen broker that another one has replaced ends when it goes on", "[frozen][standby]") {
  Pair pair;
  auto& processes = pair.processes;
  auto& cluster = *pair.cluster;
  auto actor = must(cluster.spawn("counter", number(0), {.gpus = 0.5, .name = "kept"}));
  const auto worker = pid_of(actor);
  processes.signal("broker", SIGSTOP);
  pair.await_takeover(1);
  CHECK(must(cluster.find("kept")).id() == actor.id());
  processes.signal("broker", SIGCONT);
  processes.await_end("broker");
  CHECK(processes.count("serves this cluster, and has the later state") > 0);
  CHECK(pid_of(actor) == worker);
  CHECK(eventually([&] { return must(cluster.state()).nodes_size() == 2; }));
  CHECK(count_of(actor) == 1);
}

TEST_CASE("brokers that are started again, one after the other or both at once, agree on one that serves",
          "[frozen][standby]") {
  Pair pair;
  auto& processes = pair.processes;
  auto& cluster = *pair.cluster;
  const auto id = must(cluster.spawn("counter", number(0), {.gpus = 0.5, .name = "kept"})).id();
  const std::vector<std::string> first_store{"--store", processes.file("first.db")};
  const std::vector<std::string> second_store{"--store", processes.file("second.db")};
  const auto second = processes.broker().substr(pair.first.size() + 1);
  processes.signal("broker", SIGKILL);
  pair.await_takeover(1);
  processes.start_standby("broker", {}, first_store, pair.first);
  REQUIRE(eventually([&] { return processes.count(follows) == 2; }));
  // The active one, then the other one, which stood by.
  processes.signal("standby", SIGKILL);
  processes.restart_broker("standby", second, second_store);
  processes.signal("broker", SIGKILL);
  processes.start_standby("broker", {}, first_store, pair.first);
  CHECK(eventually([&] { return cluster.find("kept").has_value(); }));
  // Neither can ask the other one what it is.
  processes.signal("broker", SIGKILL);
  processes.signal("standby", SIGKILL);
  processes.start_process("broker", pair.first, first_store);
  processes.start_process("standby", second, second_store);
  CHECK(eventually([&] {
    const auto found = cluster.find("kept");
    return found && found->id() == id;
  }));
  CHECK(eventually([&] { return must(cluster.state()).nodes_size() == 2; }));
}

TEST_CASE("of two brokers that stand by for each other, the one that has the state serves", "[frozen][standby]") {
  Pair pair;
  auto& processes = pair.processes;
  auto& cluster = *pair.cluster;
  const auto id = must(cluster.spawn("counter", number(0), {.gpus = 0.5, .name = "kept"})).id();
  const auto second = processes.broker().substr(pair.first.size() + 1);
  processes.signal("broker", SIGKILL);
  pair.await_takeover(1);
  processes.start_standby("broker", {}, {"--store", processes.file("first.db")}, pair.first);
  REQUIRE(eventually([&] { return processes.count(follows) == 2; }));
  // The active one loses its file, and is started to stand by for the one that stands by for it.
  processes.signal("standby", SIGKILL);
  std::filesystem::remove(processes.file("second.db"));
  processes.start_standby("standby", pair.first, {"--store", processes.file("second.db")}, second);
  CHECK(eventually([&] { return processes.count(follows) == 3; }));
  CHECK(processes.count(takes_over) == 2);
  CHECK(must(cluster.find("kept")).id() == id);
}

TEST_CASE("a broker whose file is gone is not followed", "[frozen][standby]") {
  Pair pair;
  auto& processes = pair.processes;
  processes.signal("broker", SIGKILL);
  std::filesystem::remove(processes.file("first.db"));
  processes.restart_broker("broker", pair.first, {"--store", processes.file("first.db")});
  processes.await_end("standby");
  CHECK(processes.count("has the state of another cluster, or of this one anew") > 0);
}

TEST_CASE("a broker that stands by needs a broker that keeps something", "[frozen][standby]") {
  Processes processes{Processes::link_timeout};
  processes.start_broker();
  const auto first = processes.broker();
  processes.start_standby("standby", first, {"--store", processes.file("second.db")});
  processes.await_end("standby");
  CHECK(processes.count("start it with --store") == 1);
}
