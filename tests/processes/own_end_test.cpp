// Actors in worker processes that end themselves.
#include "fixture.hpp"

#include <support/catch.hpp>

#include <algorithm>
#include <csignal>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

/// How many ended actors have this reason.
std::ptrdiff_t ended_with(Cluster& cluster, const std::string& reason) {
  StateOptions options;
  options.ended = 100;
  const auto state = must(cluster.state(options));
  return std::count_if(state.ended().begin(), state.ended().end(), [&](const v1::EndedActor& ended) {
    return ended.reason() == "the actor has ended itself: " + reason;
  });
}

} // namespace

TEST_CASE("an actor that ends itself is not started again, and its process serves the others", "[processes]") {
  Processes processes;
  auto cluster = processes.up();
  const auto neighbour = must(cluster.spawn("counter", number(1), {.gpus = 0.25}));
  const auto shared = must(cluster.spawn("counter", number(2), {.gpus = 0.25, .max_restarts = -1}));
  const auto alone =
      must(cluster.spawn("counter", number(3), {.gpus = 0.25, .max_restarts = -1, .isolation = Isolation::process}));
  CHECK(pid_of(neighbour) == pid_of(shared));
  CHECK(must(shared.call<Number>("finish", text("done")).get(20s)).value() == 2);
  CHECK(must(alone.call<Number>("finish", text("done")).get(20s)).value() == 3);
  CHECK(eventually([&] { return must(cluster.state()).leases_size() == 1; }));
  CHECK(ended_with(cluster, "done") == 2);
  for (const auto* actor : {&shared, &alone}) {
    const auto call = actor->call<Number>("pid").get(20s);
    REQUIRE_FALSE(call);
    CHECK(call.error().code() == Errc::actor_died);
    CHECK(call.error().message().find("the actor has ended itself: done") != std::string::npos);
  }
  CHECK(must(neighbour.call<Number>("add", number(0)).get(20s)).value() == 1);
  CHECK(must(cluster.state()).counters().count("restarting") == 0);
}

TEST_CASE("what an actor answers at last arrives, though it is large and its process ends", "[processes]") {
  constexpr double bytes = 3 << 20;
  Processes processes;
  auto cluster = processes.up("host:1x64MiB");
  for (int round = 0; round < 5; ++round) {
    const auto actor = must(cluster.spawn("counter", number(3), {.gpus = 0.25, .isolation = Isolation::process}));
    std::vector<Future<Text>> texts;
    for (int i = 0; i < 8; ++i)
      texts.push_back(actor.call<Text>("text_of", number(bytes)));
    auto last = actor.call<Number>("finish", text("done"));
    for (auto& each : texts)
      CHECK(must(each.get(20s)).text().size() == static_cast<std::size_t>(bytes));
    CHECK(must(last.get(20s)).value() == 3);
  }
  CHECK(eventually([&] { return is_idle(cluster); }));
}

TEST_CASE("an actor that ends itself while the broker is away does not come back with the broker", "[processes]") {
  Processes processes;
  const TemporaryFolder folder;
  const auto store = (folder / "state.db").string();
  processes.start_broker({"--store", store});
  processes.start_node("n0");
  auto cluster = processes.connect();
  const Options always{.gpus = 0.25, .name = "shared", .max_restarts = -1, .detached = true};
  auto isolated = always;
  isolated.name = "alone";
  isolated.isolation = Isolation::process;
  auto stays = always;
  stays.name = "stays";
  std::vector<ActorRef> ends;
  for (const auto& options : {always, isolated})
    ends.push_back(must(cluster.spawn("counter", number(2), options)));
  const auto other = must(cluster.spawn("counter", number(2), stays));
  processes.signal("broker", SIGKILL);
  const auto process = pid_of(ends.back());
  for (const auto& actor : ends)
    CHECK(must(actor.call<Number>("finish", text("done")).get(20s)).value() == 2);
  // The process of its own is gone when its node has the end to tell.
  REQUIRE(eventually([&] { return ::kill(process, 0) != 0; }));
  processes.start_broker({"--store", store});
  // An actor that was taken for lost would be started again, and never be gone.
  REQUIRE(eventually([&] { return must(cluster.state()).actors_size() == 1; }));
  CHECK(must(cluster.state()).actors(0).name() == "stays");
  CHECK(ended_with(cluster, "done") == 2);
  CHECK(must(other.call<Number>("restarts").get(20s)).value() == 0);
  // Nor with the next one.
  processes.signal("broker", SIGKILL);
  processes.start_broker({"--store", store});
  REQUIRE(eventually([&] {
    const auto state = must(cluster.state());
    return state.actors_size() == 1 && state.actors(0).state() == "alive";
  }));
  CHECK(must(cluster.state()).leases_size() == 1);
}

TEST_CASE("who waits for the end of an actor hears of it over the death of the broker, and of its process",
          "[processes]") {
  Processes processes;
  const TemporaryFolder folder;
  const auto store = (folder / "state.db").string();
  processes.start_broker({"--store", store});
  processes.start_node("n0");
  auto cluster = processes.connect();
  const auto once = must(cluster.spawn("counter", number(1), {.gpus = 0.25, .isolation = Isolation::process}));
  const auto lasting = must(cluster.spawn("counter", number(1), {.gpus = 0.25, .max_restarts = -1}));
  auto end_of_once = once.when_ended();
  auto end_of_lasting = lasting.when_ended();
  processes.signal("broker", SIGKILL);
  processes.start_broker({"--store", store});
  CHECK(code_of(end_of_once.get(100ms)) == Errc::deadline_exceeded);
  // The one has no restarts left; the other one goes on.
  Processes::signal(pid_of(once), SIGKILL);
  Processes::signal(pid_of(lasting), SIGKILL);
  const auto ended = must(end_of_once.get(30s)).reason;
  CHECK(ended.code() == Errc::worker_died);
  CHECK(ended.message().find("signal 9") != std::string::npos);
  // A call may go to the process that was ended, before this program has seen that, and is lost with it.
  CHECK(eventually([&] {
    const auto restarts = lasting.call<Number>("restarts").get(30s);
    return restarts && restarts->value() == 1;
  }));
  CHECK_FALSE(end_of_lasting.ready());
  must(lasting.call<Number>("finish", text("done")).get(20s));
  CHECK(must(end_of_lasting.get(30s)).reason.message() == "the actor has ended itself: done");
}

TEST_CASE("what dies while there is no broker lives again, or is known to have died, when there is one",
          "[processes]") {
  Processes processes;
  const TemporaryFolder folder;
  const auto store = (folder / "state.db").string();
  processes.start_broker({"--store", store});
  processes.start_node("n0");
  auto cluster = processes.connect();
  const auto once = must(cluster.spawn("counter", number(1), {.gpus = 0.25, .isolation = Isolation::process}));
  const auto lasting = must(cluster.spawn("counter", number(1), {.gpus = 0.25, .max_restarts = 1}));
  auto end_of_once = once.when_ended();
  const std::vector<pid_t> workers{pid_of(once), pid_of(lasting)};
  processes.signal("broker", SIGKILL);
  // Else it would tell the connection that is lost.
  REQUIRE(eventually([&] { return processes.count("the connection to the broker is lost") > 0; }));
  for (const auto worker : workers)
    Processes::signal(worker, SIGKILL);
  // Gone for the node, too, before it can tell anybody.
  for (const auto worker : workers)
    REQUIRE(eventually([&] { return ::kill(worker, 0) != 0; }));
  processes.start_broker({"--store", store});
  const auto ended = must(end_of_once.get(30s)).reason;
  CHECK(ended.code() == Errc::worker_died);
  CHECK(ended.message().find("signal 9") != std::string::npos);
  CHECK(eventually([&] {
    const auto restarts = lasting.call<Number>("restarts").get(30s);
    return restarts && restarts->value() == 1;
  }));
}
