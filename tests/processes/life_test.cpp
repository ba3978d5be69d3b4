// What an actor keeps over its lives, how a node is emptied, and how calls are ended by force.
#include "fixture.hpp"

#include <algorithm>
#include <csignal>
#include <future>
#include <vector>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

std::vector<std::string> leases_on(Cluster& cluster, const std::string& node) {
  std::vector<std::string> result;
  const auto state = must(cluster.state());
  for (const auto& lease : state.leases())
    if (lease.node() == node)
      result.push_back(lease.name());
  return result;
}

std::string node_of(Cluster& cluster, const std::string& actor) {
  const auto state = must(cluster.state());
  for (const auto& info : state.actors())
    if (info.name() == actor)
      return info.lease().node();
  return "(none)";
}

double sum_of(const ActorRef& actor) {
  return must(actor.call<Number>("add", number(0)).get(20s)).value();
}

} // namespace

TEST_CASE("an actor finds what it saved when it is started anew, on whatever node", "[processes]") {
  Processes processes;
  const TemporaryFolder folder;
  const auto store = (folder / "state.db").string();
  processes.start_broker({"--store", store});
  processes.start_node("n0");
  auto cluster = processes.connect();
  auto actor = must(cluster.spawn("counter", number(1), {.name = "c", .max_restarts = 5, .detached = true}));
  must(actor.call<Number>("add_for_good", number(10)).get());
  must(actor.call<Number>("add", number(100)).get());
  Processes::signal(pid_of(actor), SIGKILL);
  CHECK(eventually([&] { return actor.call<Number>("restarts").get(5s).has_value(); }));
  CHECK(sum_of(actor) == 11);

  // Its node and the broker go; what is left of it is in the store.
  must(actor.call<Number>("add_for_good", number(1)).get());
  // The third call of this life: when the broker has heard of it, it has heard of what was saved in it.
  CHECK(eventually([&] { return must(cluster.state()).actors(0).calls() == 3; }));
  const auto kept = [&] { return must(cluster.find("c")).call<Number>("add", number(0)).get(5s).has_value(); };
  processes.signal("n0", SIGKILL);
  processes.start_node("n1");
  CHECK(eventually(kept));
  CHECK(sum_of(must(cluster.find("c"))) == 12);
  CHECK(node_of(cluster, "c") == "n1");
  processes.signal("n1", SIGKILL);
  processes.signal("broker", SIGKILL);
  processes.start_broker({"--store", store});
  processes.start_node("n2");
  CHECK(eventually(kept));
  CHECK(sum_of(must(cluster.find("c"))) == 12);
}

TEST_CASE("a node comes back with whatever its actors saved, be it more than one message may hold", "[processes]") {
  Processes processes;
  auto cluster = processes.up("host:2x64MiB");
  constexpr std::size_t each = 256'000;
  constexpr int count = limits::link_message_bytes / each + 1;
  std::vector<Future<ActorRef>> starting;
  for (int i = 0; i < count; ++i)
    starting.push_back(cluster.spawn_async("counter", number(i), {.max_restarts = 1}));
  std::vector<ActorRef> actors;
  for (auto& actor : starting)
    actors.push_back(must(actor.get(20s)));
  for (auto& actor : actors)
    must(actor.call<Number>("save_bytes", number(each)).get(20s));
  processes.signal("broker", SIGKILL);
  processes.start_broker();
  REQUIRE(eventually([&] { return must(cluster.state()).actors_size() == count; }));
  // Each has restarts left, and what it saved is there for its next life.
  Processes::signal(pid_of(actors.front()), SIGKILL);
  CHECK(eventually([&] {
    const auto bytes = actors.back().call<Number>("saved_bytes").get(5s);
    return bytes && bytes->value() == each;
  }));
}

TEST_CASE("of many saves in a row the last one is there in the next life", "[processes]") {
  Processes processes;
  auto cluster = processes.up();
  auto actor = must(cluster.spawn("counter", number(0), {.max_restarts = 1}));
  const auto pid = pid_of(actor);
  constexpr int count = 500;
  std::vector<Future<Number>> saves;
  for (int i = 0; i < count; ++i)
    saves.push_back(actor.call<Number>("add_for_good", number(1)));
  for (auto& save : saves)
    must(save.get(20s));
  CHECK(eventually([&] { return must(cluster.state()).actors(0).calls() > count; }));
  Processes::signal(pid, SIGKILL);
  CHECK(eventually([&] { return actor.call<Number>("restarts").get(5s).has_value(); }));
  CHECK(sum_of(actor) == count);
}

TEST_CASE("too much to save is refused with the numbers", "[processes]") {
  Processes processes;
  auto cluster = processes.up();
  auto actor = must(cluster.spawn("counter", number(1)));
  must(actor.call<Number>("save_bytes", number(200'000)).get());
  const auto refused = actor.call<Number>("save_bytes", number(300'000)).get();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == Errc::invalid_argument);
  CHECK(refused.error().message().find("256 KiB are allowed") != std::string::npos);
}

TEST_CASE("a node is emptied by a deadline: actors move with what they saved, the rest ends", "[processes]") {
  Processes processes;
  processes.start_broker();
  processes.start_node("n0");
  auto cluster = processes.connect();
  auto moves = must(cluster.spawn("counter", number(1), {.gpus = 0.5, .name = "moves", .max_restarts = 1}));
  auto stays = must(cluster.spawn("counter", number(1), {.gpus = 0.5, .name = "stays"}));
  must(moves.call<Number>("add_for_good", number(4)).get());
  auto task = cluster.submit<Number>("nap", number(60), {.gpus = 1});
  CHECK(eventually([&] { return leases_on(cluster, "n0").size() == 3; }));
  // There is no other place yet: what runs goes on.
  must(cluster.drain("n0", 12s));
  CHECK(sum_of(moves) == 5);
  CHECK(node_of(cluster, "moves") == "n0");
  processes.start_node("n1");
  CHECK(eventually([&] { return node_of(cluster, "moves") == "n1"; }));
  CHECK(eventually([&] { return moves.call<Number>("add", number(0)).get(5s).has_value(); }));
  CHECK(sum_of(moves) == 5);
  CHECK(sum_of(stays) == 1);
  CHECK(eventually([&] { return leases_on(cluster, "n0").empty(); }));
  // Asked to stop, it has answered long before its minute was over.
  CHECK(task.get(10s).has_value());
  CHECK_FALSE(stays.call<Number>("add", number(0)).get(10s));
  // The move has not used up its restart.
  Processes::signal(pid_of(moves), SIGKILL);
  CHECK(eventually([&] { return moves.call<Number>("restarts").get(5s).has_value(); }));
  CHECK(must(moves.call<Number>("restarts").get()).value() == 2);
}

TEST_CASE("no call that has not begun is lost when an actor moves, whenever it comes", "[processes]") {
  Processes processes;
  processes.start_broker();
  processes.start_node("n0");
  auto cluster = processes.connect();
  const auto isolation = GENERATE(Isolation::thread, Isolation::process);
  const auto actor = must(
      cluster.spawn("counter", number(1), {.gpus = 0.5, .name = "moves", .max_restarts = 1, .isolation = isolation}));
  processes.start_node("n1");
  // It waits for a reader until it is asked to stop, and whatever comes waits behind it.
  auto running = actor.stream<Number>("count", number(1e9));
  REQUIRE(must(running.next(20s)));
  std::vector<Future<Number>> behind;
  for (int i = 0; i < 3; ++i)
    behind.push_back(actor.call<Number>("add", number(1)));
  must(cluster.drain("n0", 12s));
  while (node_of(cluster, "moves") != "n1")
    behind.push_back(actor.call<Number>("add", number(1)));
  double last = 1;
  for (auto& call : behind)
    last = std::max(last, must(call.get(20s)).value());
  CHECK(last == 1 + static_cast<double>(behind.size()));
}

TEST_CASE("a service is started again under its name while the one before it is ending", "[processes]") {
  Processes processes;
  auto cluster = processes.up();
  const auto first = must(cluster.spawn("counter", number(1), {.gpus = 1, .name = "service"}));
  auto running = first.stream<Number>("count", number(1e9));
  REQUIRE(must(running.next(20s)));
  auto killed = cluster.kill_async(first);
  const auto second = must(cluster.spawn("counter", number(5), {.gpus = 1, .name = "service"}));
  CHECK(sum_of(second) == 5);
  CHECK(second.id() != first.id());
  CHECK(killed.get().has_value());
}

TEST_CASE("what is withdrawn while the broker is away is not made when it is back", "[processes]") {
  Processes processes;
  const TemporaryFolder folder;
  const auto store = (folder / "state.db").string();
  processes.start_broker({"--store", store});
  processes.start_node("n0", "host:1x64MiB");
  auto cluster = processes.connect();
  auto holder = must(cluster.spawn("counter", number(0), {.gpus = 1}));
  auto actor = cluster.spawn_async("counter", number(0), {.gpus = 1, .name = "waiting"});
  auto group = cluster.create_group_async({{.gpus = 1}}, {.name = "waiting too"});
  const auto waits = [&] {
    const auto state = cluster.state();
    return state && state->groups_size() == 1 && state->actors_size() == 2;
  };
  REQUIRE(eventually(waits));
  processes.signal("broker", SIGKILL);
  actor.cancel();
  group.cancel();
  CHECK(actor.get(20s).error().code() == Errc::cancelled);
  CHECK(group.get(20s).error().code() == Errc::cancelled);
  processes.start_broker({"--store", store});
  CHECK(eventually([&] {
    const auto state = cluster.state();
    return state && state->groups().empty() && state->actors_size() == 1 && state->nodes_size() == 1;
  }));
  must(cluster.kill(holder));
  CHECK(must(cluster.submit<Number>("pid", {}, {.gpus = 1}).get(20s)).value() > 0);
  CHECK(eventually([&] { return is_idle(cluster); }));
}

TEST_CASE("an actor whose node is not back yet can be killed at a broker that has just begun", "[processes]") {
  Processes processes;
  auto cluster = processes.up("host:1x64MiB");
  auto actor = must(cluster.spawn("counter", number(0), {.gpus = 1}));
  const auto pid = pid_of(actor);
  processes.signal("broker", SIGKILL);
  processes.signal("n0", SIGSTOP);
  processes.start_broker();
  REQUIRE(eventually([&] { return cluster.state().has_value(); }));
  auto killing = std::async(std::launch::async, [&] { return cluster.kill(actor); });
  // It is neither refused nor said to be done.
  CHECK(killing.wait_for(300ms) == std::future_status::timeout);
  processes.signal("n0", SIGCONT);
  CHECK(killing.get().has_value());
  CHECK(eventually([&] { return is_idle(cluster); }));
  CHECK(must(cluster.submit<Number>("pid", {}, {.gpus = 1}).get(20s)).value() == pid);
}

TEST_CASE("a lease that is given back before its node is back does not stay", "[processes]") {
  Processes processes;
  auto cluster = processes.up("host:1x64MiB");
  const TemporaryFolder folder;
  const auto held = folder / "held";
  auto task = cluster.submit<Number>("hold", text(held.string()), {.gpus = 1});
  REQUIRE(eventually([&] { return std::filesystem::exists(held); }));
  processes.signal("broker", SIGKILL);
  processes.signal("n0", SIGSTOP);
  processes.start_broker();
  REQUIRE(eventually([&] { return cluster.state().has_value(); }));
  std::filesystem::remove(held);
  CHECK(must(task.get(20s)).value() > 0);
  // Somebody else gets it; not before the node is back.
  auto other = processes.connect();
  auto next = other.submit<Number>("pid", {}, {.gpus = 1});
  CHECK(next.get(2 * limits::lease_linger).error().code() == Errc::deadline_exceeded);
  processes.signal("n0", SIGCONT);
  CHECK(next.get(20s).has_value());
  CHECK(eventually([&] { return is_idle(cluster); }));
}

TEST_CASE("what is cancelled by force ends with its process", "[processes]") {
  Processes processes;
  auto cluster = processes.up();
  Options isolated;
  isolated.isolation = Isolation::process;
  isolated.max_retries = 3;
  auto task = cluster.submit<Number>("fall", text("endless loop"), isolated);
  CHECK(eventually([&] { return leases_on(cluster, "n0").size() == 1; }));
  auto actor =
      must(cluster.spawn("counter", number(0), {.name = "a", .max_restarts = 1, .isolation = Isolation::process}));
  const auto pid = pid_of(actor);
  auto call = actor.call<Number>("fall", text("endless loop"), 60s);
  auto behind = actor.call<Number>("add", number(1), 60s);
  // That of the task and that of the call.
  REQUIRE(eventually([&] { return processes.count("an endless loop begins") == 2; }));
  CHECK(behind.get(200ms).error().code() == Errc::deadline_exceeded);
  call.cancel(Cancel::force);
  task.cancel(Cancel::force);
  CHECK(call.get(20s).error().code() == Errc::cancelled);
  CHECK(task.get(20s).error().code() == Errc::cancelled);
  CHECK(behind.get(20s).error().code() == Errc::worker_died);
  CHECK(eventually([&] { return actor.call<Number>("restarts").get(5s).has_value(); }));
  CHECK(pid_of(actor) != pid);
  CHECK(eventually([&] { return leases_on(cluster, "n0").size() == 1; }));
}

TEST_CASE("a call that did not stop when it was asked to can be ended by force afterwards", "[processes]") {
  Processes processes;
  auto cluster = processes.up();
  auto actor =
      must(cluster.spawn("counter", number(0), {.name = "a", .max_restarts = 1, .isolation = Isolation::process}));
  const auto pid = pid_of(actor);
  auto call = actor.call<Number>("fall", text("endless loop"), 60s);
  auto behind = actor.call<Number>("add", number(1), 60s);
  REQUIRE(eventually([&] { return processes.output().find("an endless loop begins") != std::string::npos; }));
  call.cancel();
  CHECK(call.ready());
  CHECK(behind.get(200ms).error().code() == Errc::deadline_exceeded);
  call.cancel(Cancel::force);
  CHECK(behind.get(20s).error().code() == Errc::worker_died);
  CHECK(eventually([&] { return actor.call<Number>("restarts").get(5s).has_value(); }));
  CHECK(pid_of(actor) != pid);
}

TEST_CASE("short tasks that were sent ahead do not wait behind a long one", "[processes]") {
  Processes processes;
  auto cluster = processes.up("host:2x64MiB");
  const auto naps = [&](int count) {
    std::vector<Future<Number>> result;
    for (int i = 0; i < count; ++i)
      result.push_back(cluster.submit<Number>("nap", number(0), {.gpus = 1}));
    return result;
  };
  // Until they are known to be short.
  for (auto& nap : naps(1000))
    must(nap.get(20s));
  auto before = naps(100);
  auto long_one = cluster.submit<Number>("nap", number(20), {.gpus = 1});
  auto behind = naps(500);
  for (auto& nap : before)
    must(nap.get(20s));
  for (auto& nap : behind)
    must(nap.get(10s));
  CHECK_FALSE(long_one.ready());
  long_one.cancel();
}

TEST_CASE("a concurrent method answers another process while its actor is at work, and ends with it", "[processes]") {
  Processes processes;
  auto cluster = processes.up();
  auto actor = must(cluster.spawn("counter", number(0), {.max_restarts = 1}));
  // It waits for credit: nobody reads more than the first item.
  auto stream = actor.stream<Number>("count", number(1'000'000));
  CHECK(must(stream.next()).has_value());
  const auto pid = must(actor.call<Number>("pid_at_once").get()).value();
  CHECK(pid == actor.info().pid());
  auto waiting = actor.call<Number>("add", number(1));
  processes.signal(static_cast<pid_t>(pid), SIGKILL);
  CHECK(code_of(waiting.get()) == Errc::worker_died);
  CHECK(eventually([&] {
    const auto again = actor.call<Number>("pid_at_once").get();
    return again && again->value() != pid;
  }));
}

TEST_CASE("calls of other processes are answered together, and those that wait when theirs dies fail or are made again",
          "[processes]") {
  Processes processes;
  auto cluster = processes.up();
  auto actor = must(cluster.spawn("counter", number(0), {.max_restarts = 1, .max_task_retries = 1}));
  const auto add = [&](double value) { return actor.call<Number>("add_all", number(value), Duration::max()); };
  auto first = add(1);
  auto second = add(2);
  CHECK(must(add(3).get(10s)).value() == 6);
  CHECK(must(first.get(10s)).value() == 1);
  CHECK(must(second.get(10s)).value() == 3);
  const auto pid = must(actor.call<Number>("pid_at_once").get()).value();
  auto waiting = add(4);
  processes.signal(static_cast<pid_t>(pid), SIGKILL);
  // They are in the next life, whoever came first there.
  auto others = add(5);
  CHECK(must(add(6).get(30s)).value() <= 15);
  CHECK(must(waiting.get(10s)).value() + must(others.get(10s)).value() >= 4 + 9);
}

TEST_CASE("what actors use and how often they were called is in the state", "[processes]") {
  Processes processes;
  auto cluster = processes.up();
  auto actor = must(cluster.spawn("counter", number(0), {.name = "c"}));
  for (int i = 0; i < 7; ++i)
    must(actor.call<Number>("add", number(1)).get());
  CHECK(eventually([&] { return must(cluster.state()).actors(0).calls() == 7; }));
}

TEST_CASE("processes that keep in touch differently are refused in words", "[processes]") {
  Processes processes;
  auto cluster = processes.up();
  ConnectOptions options;
  options.broker = processes.broker();
  options.certificates = processes.certificates();
  options.heartbeat = 30s;
  options.link_timeout = 90s;
  const auto refused = Cluster::connect(options);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == Errc::invalid_argument);
  CHECK(refused.error().message().find("shows every 30 s that it is alive") != std::string::npos);
}
