// What happens to workers, nodes and clients, and what the others see of it.
#include "fixture.hpp"

#include <csignal>
#include <filesystem>
#include <future>
#include <set>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

double seconds_since(TimePoint begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

} // namespace

TEST_CASE("a broker that was stopped for a while and goes on ends nothing", "[processes][frozen]") {
  Processes processes{Processes::link_timeout};
  auto cluster = processes.up();
  auto actor = must(cluster.spawn("counter", number(1), {.gpus = 0.5, .name = "kept", .detached = true}));
  auto owned = must(cluster.spawn("counter", number(2), {.gpus = 0.5, .name = "owned"}));
  const auto worker = pid_of(actor);
  const auto before = processes.count("is registered with");
  processes.signal("broker", SIGSTOP);
  CHECK(eventually([&] { return processes.output().find("connection to the broker is lost") != std::string::npos; }));
  // While another one tries in vain for longer than that, this client has given its connection up too.
  ConnectOptions late;
  late.broker = processes.broker();
  late.certificates = processes.certificates();
  late.timeout = 2 * Processes::link_timeout;
  CHECK(code_of(Cluster::connect(late)) == Errc::unavailable);
  processes.signal("broker", SIGCONT);
  CHECK(eventually([&] { return processes.count("is registered with") > before; }));
  CHECK(pid_of(must(cluster.find("kept"))) == worker);
  CHECK(pid_of(must(cluster.find("owned"))) == worker);
  CHECK(must(owned.call<Number>("add", number(1)).get()).value() == 3);
  const auto state = must(cluster.state());
  REQUIRE(state.actors_size() == 2);
  CHECK(state.actors(0).restarts() == 0);
  CHECK(state.actors(1).restarts() == 0);
  CHECK(state.counters().at("stood_still") > 0);
  CHECK(state.counters().at("node_away") > 0);
  CHECK(state.counters().at("client_away") > 0);
  CHECK(state.counters().at("client_returned") > 0);
  for (const auto* kind : {"node_lost", "lost", "restarting", "died"})
    CHECK(state.counters().count(kind) == 0);
}

TEST_CASE("tasks and actors run in worker processes, one for each device", "[processes]") {
  Processes processes;
  auto cluster = processes.up();
  auto first = must(cluster.spawn("counter", number(1), {.gpus = 0.5}));
  auto second = must(cluster.spawn("counter", number(2), {.gpus = 0.5}));
  auto other = must(cluster.spawn("counter", number(3), {.gpus = 1}));
  auto bare = must(cluster.spawn("counter", number(4)));
  CHECK(pid_of(first) == pid_of(second));
  const std::set<pid_t> workers{pid_of(first), pid_of(other), pid_of(bare), getpid()};
  CHECK(workers.size() == 4);
  CHECK(must(first.call<Number>("add", number(10)).get()).value() == 11);
  const auto state = must(cluster.state());
  REQUIRE(state.actors_size() == 4);
  CHECK(static_cast<pid_t>(state.actors(0).pid()) == pid_of(first));
  CHECK(must(cluster.submit<Number>("pid").get()).value() == pid_of(bare));
}

TEST_CASE("streamed replies cross processes with back-pressure", "[processes]") {
  Processes processes;
  auto cluster = processes.up();
  auto actor = must(cluster.spawn("counter", number(0)));
  auto stream = actor.stream<Number>("count", number(1000));
  for (int i = 0; i < 1000; ++i) {
    const auto item = must(stream.next());
    REQUIRE(item.has_value());
    REQUIRE(item->value() == i);
  }
  CHECK_FALSE(must(stream.next()).has_value());
}

TEST_CASE("an actor serves others when the reader of its stream has died", "[processes]") {
  Processes processes;
  auto cluster = processes.up();
  auto actor = must(cluster.spawn("counter", number(4), {.name = "streamer"}));
  processes.start_reader("reader", "streamer");
  REQUIRE(eventually([&] { return processes.output().find("it reads") != std::string::npos; }));
  processes.signal("reader", SIGKILL);
  CHECK(must(actor.call<Number>("add", number(1)).get(20s)).value() == 5);
}

TEST_CASE("streams that an actor keeps open cross processes, and end with their worker", "[processes]") {
  Processes processes;
  auto cluster = processes.up();
  auto actor = must(cluster.spawn("counter", number(0)));
  std::vector<StreamReader<Number>> readers;
  for (int i = 0; i < 3; ++i)
    readers.push_back(actor.stream<Number>("watch", number(-1)));
  REQUIRE(must(actor.call<Number>("watchers").get()).value() == 3);
  REQUIRE(actor.call("tell", number(1000)).get().has_value());
  for (auto& reader : readers) {
    for (int i = -1; i < 1000; ++i)
      REQUIRE(must(reader.next())->value() == i);
    CHECK_FALSE(must(reader.next()).has_value());
  }
  auto open = actor.stream<Number>("watch", number(7));
  auto full = actor.stream<Number>("watch", number(8));
  REQUIRE(must(open.next())->value() == 7);
  CHECK(must(actor.call<Number>("watchers").get()).value() == 2);
  REQUIRE(::kill(pid_of(actor), SIGKILL) == 0);
  CHECK(open.next(20s).error().code() == Errc::worker_died);
  CHECK(must(full.next())->value() == 8);
  CHECK(full.next(20s).error().code() == Errc::worker_died);
}

TEST_CASE("an actor learns that the process of a watcher has died", "[processes]") {
  Processes processes;
  auto cluster = processes.up();
  auto actor = must(cluster.spawn("counter", number(0), {.name = "watched"}));
  processes.start_reader("watcher", "watched", "watch");
  REQUIRE(eventually([&] { return processes.output().find("it reads") != std::string::npos; }));
  CHECK(must(actor.call<Number>("watchers").get()).value() == 1);
  processes.signal("watcher", SIGKILL);
  CHECK(eventually([&] { return must(actor.call<Number>("watchers").get()).value() == 0; }));
}

TEST_CASE("calls of one thread arrive in their order and whole, large among small", "[processes]") {
  Processes processes;
  auto cluster = processes.up();
  const auto take_turns = [&cluster] {
    constexpr int turns = 1'000;
    auto actor = must(cluster.spawn("counter", number(0), {.gpus = 0.1}));
    const auto text_of = [](int turn) {
      const std::size_t size = turn % 50 == 0 ? 1U << 20 : static_cast<std::size_t>(turn) % 70;
      return std::to_string(turn) + ':' + std::string(size, static_cast<char>('a' + turn % 26));
    };
    std::vector<Future<Text>> answers;
    for (int turn = 0; turn < turns; ++turn)
      answers.push_back(actor.call<Text>("take_turn", text(text_of(turn))));
    bool right = true;
    for (int turn = 0; turn < turns; ++turn)
      right = right && must(answers[static_cast<std::size_t>(turn)].get()).text() == text_of(turn);
    return right;
  };
  // Two threads, whose calls share a connection.
  auto other = std::async(std::launch::async, take_turns);
  CHECK(take_turns());
  CHECK(other.get());
}

TEST_CASE("actors of several processes that begin to call each other at once lose nothing", "[processes]") {
  // Each two of the workers dial each other, and end one of the two connections while calls are under way.
  Processes processes;
  auto cluster = processes.up("host:4x64MiB");
  constexpr int workers = 4;
  std::vector<ActorRef> callers;
  std::vector<ActorRef> called;
  for (int i = 0; i < workers; ++i) {
    callers.push_back(must(cluster.spawn("counter", number(0), {.gpus = 0.5})));
    called.push_back(must(cluster.spawn("counter", number(0), {.gpus = 0.5, .name = "called " + std::to_string(i)})));
  }
  std::vector<Future<Number>> answers;
  for (int i = 0; i < workers; ++i)
    for (int step = 0; step < workers; ++step)
      answers.push_back(callers[static_cast<std::size_t>(i)].call<Number>(
          "add_often_at", text("called " + std::to_string((i + step) % workers))));
  double calls = 0;
  for (auto& answer : answers)
    calls += must(answer.get()).value();
  for (const auto& actor : called)
    calls -= must(actor.call<Number>("add", number(0)).get()).value();
  CHECK(calls == 0);
}

TEST_CASE("an answer that is too large is an error with the numbers, in this process and in others", "[processes]") {
  Processes processes;
  auto connected = processes.up();
  auto embedded = must(Cluster::embed({.devices = "host:1x64MiB"}));
  for (auto* cluster : {&connected, &embedded}) {
    auto actor = must(cluster->spawn("counter", number(0)));
    const auto answer = actor.call<Text>("text_of", number(5 << 20), 20s).get();
    REQUIRE_FALSE(answer);
    CHECK(answer.error().code() == Errc::invalid_argument);
    CHECK(answer.error().message().find("at most 4 MiB") != std::string::npos);
    CHECK(must(actor.call<Text>("text_of", number(1 << 20)).get()).text().size() == 1 << 20);
  }
}

TEST_CASE("a killed worker fails its callers at once, and what it held is free", "[processes]") {
  Processes processes;
  auto cluster = processes.up("host:1x64MiB");
  auto actor = must(cluster.spawn("counter", number(0), {.gpus = 1}));
  const auto pid = pid_of(actor);
  auto stuck = actor.call<Number>("fall", text("endless loop"), 60s);
  auto waiting = actor.call<Number>("add", number(1), 60s);
  const auto begin = Clock::now();
  Processes::signal(pid, SIGKILL);
  const auto error = stuck.get(10s);
  REQUIRE_FALSE(error);
  CHECK(error.error().code() == Errc::worker_died);
  REQUIRE_FALSE(waiting.get(10s));
  CHECK(seconds_since(begin) < 20);
  CHECK(eventually([&] { return is_idle(cluster); }));
  // The device is served by another worker.
  CHECK(must(cluster.submit<Number>("pid", {}, {.gpus = 1}).get(20s)).value() != pid);
}

TEST_CASE("a method that does not return ends its process, and the actor lives again", "[processes]") {
  Processes processes;
  auto cluster = processes.up("host:2x64MiB");
  Options options{.gpus = 0.5, .max_restarts = 1, .stuck_after = 1s};
  options.isolation = Isolation::process;
  auto actor = must(cluster.spawn("counter", number(5), options));
  auto patient = must(cluster.spawn("counter", number(6), {.gpus = 0.5}));
  const auto pid = pid_of(actor);
  auto stuck = actor.call<Number>("fall", text("endless loop"), Duration::max());
  auto waiting = actor.call<Number>("add", number(1), Duration::max());
  const auto error = stuck.get(60s);
  REQUIRE_FALSE(error);
  CHECK(error.error().code() == Errc::worker_died);
  REQUIRE_FALSE(waiting.get(60s));
  CHECK(must(actor.call<Number>("add", number(1), 60s).get()).value() == 6);
  CHECK(pid_of(actor) != pid);
  CHECK(must(patient.call<Number>("add", number(1)).get()).value() == 7);
  CHECK(eventually([&] {
    const auto event = event_of(cluster, "restarting");
    return event && event->reason().find("fall has run for ") != std::string::npos
           && event->reason().find("counts as stuck after 1.0 s (stuck_after)") != std::string::npos;
  }));
}

TEST_CASE("a frozen worker fails its callers within the link timeout", "[processes][frozen]") {
  Processes processes{Processes::link_timeout};
  auto cluster = processes.up("host:1x64MiB");
  auto actor = must(cluster.spawn("counter", number(0), {.gpus = 1}));
  const auto pid = pid_of(actor);
  auto call = actor.call<Number>("add", number(1), 60s);
  must(call.get());
  const auto begin = Clock::now();
  Processes::signal(pid, SIGSTOP);
  const auto error = actor.call<Number>("add", number(1), 60s).get(20s);
  REQUIRE_FALSE(error);
  CHECK(error.error().code() == Errc::worker_died);
  CHECK(seconds_since(begin) < 20);
  // Its agent has killed and reaped it.
  CHECK(eventually([&] { return ::kill(pid, 0) != 0; }));
  CHECK(eventually([&] { return is_idle(cluster); }));
}

TEST_CASE("actors and tasks of one process reach each other in it", "[processes]") {
  Processes processes;
  auto cluster = processes.up();
  auto first = must(cluster.spawn("counter", number(0), {.name = "first"}));
  auto second = must(cluster.spawn("counter", number(10), {.name = "second"}));
  REQUIRE(pid_of(first) == pid_of(second));
  CHECK(must(first.call<Number>("submit_pid").get(20s)).value() == pid_of(first));
  CHECK(must(first.call<Number>("add_at", text("second")).get(20s)).value() == 11);
  CHECK(must(first.call<Number>("spawn", text("third")).get(20s)).value() == 7);
}

TEST_CASE("a broker that has just started does not wait for nodes to bring back what it has seen end", "[processes]") {
  Processes processes;
  auto cluster = processes.up();
  auto actor = must(cluster.spawn("counter", number(5), {.gpus = 1}));
  must(cluster.kill(actor));
  // While it would still wait for nodes.
  auto call = actor.call<Number>("add", number(1));
  CHECK(call.get(std::chrono::seconds{limits::settle} / 2).error().code() == Errc::actor_died);
}

TEST_CASE("an actor with restarts left is started anew and its handle follows", "[processes]") {
  Processes processes;
  auto cluster = processes.up();
  auto actor = must(cluster.spawn("counter", number(5), {.gpus = 1, .max_restarts = 1}));
  CHECK(must(actor.call<Number>("add", number(1)).get()).value() == 6);
  Processes::signal(pid_of(actor), SIGKILL);
  REQUIRE(eventually([&] {
    const auto sum = actor.call<Number>("add", number(1), 10s).get();
    return sum && sum->value() == 6;
  }));
  CHECK(must(actor.call<Number>("restarts").get()).value() == 1);
  Processes::signal(pid_of(actor), SIGKILL);
  REQUIRE(eventually([&] {
    const auto sum = actor.call<Number>("add", number(1), 10s).get();
    return !sum && sum.error().code() == Errc::actor_died;
  }));
}

TEST_CASE("a call is made again on the actor that was started anew, as often as it may be", "[processes]") {
  Processes processes;
  auto cluster = processes.up();
  auto actor = must(cluster.spawn("counter", number(0), {.gpus = 1, .max_restarts = 2, .max_task_retries = 1}));
  CHECK(must(actor.call<Number>("fall_once", text("kill")).get(20s)).value() == 1);
  const auto again = actor.call<Number>("fall", text("kill")).get(20s);
  REQUIRE_FALSE(again);
  CHECK((again.error().code() == Errc::worker_died || again.error().code() == Errc::actor_died));
}

TEST_CASE("each fault in user code costs its own worker alone", "[processes][frozen]") {
  Processes processes{Processes::link_timeout};
  auto cluster = processes.up("host:2x64MiB");
  auto bystander = must(cluster.spawn("counter", number(0), {.gpus = 1}));
  const auto pid = pid_of(bystander);
  for (const auto* how : {"abort", "segmentation fault", "stop signal", "kill"}) {
    INFO(how);
    const auto failed = cluster.submit<Number>("fall", text(how), {.gpus = 1}).get(20s);
    REQUIRE_FALSE(failed);
    CHECK(failed.error().code() == Errc::worker_died);
    CHECK(pid_of(bystander) == pid);
  }
  const auto thrown = cluster.submit<Number>("fall", text("bad_alloc"), {.gpus = 1}).get(20s);
  REQUIRE_FALSE(thrown);
  CHECK(thrown.error().code() == Errc::task_failed);
  const auto late = cluster.submit<Number>("fall", text("endless loop"), {.gpus = 1, .deadline = 300ms}).get(20s);
  REQUIRE_FALSE(late);
  CHECK(late.error().code() == Errc::deadline_exceeded);
  CHECK(pid_of(bystander) == pid);
}

TEST_CASE("killing an actor that is stuck replaces its worker after the grace", "[processes]") {
  Processes processes;
  auto cluster = processes.up("host:1x64MiB");
  auto actor = must(cluster.spawn("counter", number(0), {.gpus = 0.5}));
  auto neighbour = must(cluster.spawn("counter", number(0), {.gpus = 0.5, .max_restarts = 1}));
  const auto pid = pid_of(actor);
  auto call = actor.call<Number>("fall", text("endless loop"), 60s);
  // Or the kill could come first, to an actor that is not stuck.
  REQUIRE(eventually([&] { return processes.output().find("an endless loop begins") != std::string::npos; }));
  KillOptions options;
  options.grace = 200ms;
  must(cluster.kill(actor, options));
  CHECK_FALSE(call.get(10s));
  REQUIRE(eventually([&] {
    const auto now = neighbour.call<Number>("pid", google::protobuf::Empty{}, 5s).get();
    return now && now->value() != pid;
  }));
}

TEST_CASE("a client that vanishes takes its actors along, save those that are detached", "[processes]") {
  Processes processes;
  auto cluster = processes.up();
  {
    auto other = processes.connect();
    must(other.spawn("counter", number(0), {.gpus = 1, .name = "owned"}));
    must(other.spawn("counter", number(7), {.gpus = 1, .name = "kept", .detached = true}));
    CHECK(must(must(cluster.find("owned")).call<Number>("add", number(0)).get()).value() == 0);
  }
  CHECK(eventually([&] { return must(cluster.state()).actors_size() == 1; }));
  auto kept = must(cluster.find("kept"));
  CHECK(must(kept.call<Number>("add", number(1)).get()).value() == 8);
  must(cluster.kill("kept"));
  CHECK(eventually([&] { return is_idle(cluster); }));
}

TEST_CASE("a node that dies takes its workers along, and its actors start elsewhere", "[processes]") {
  Processes processes;
  auto cluster = processes.up("host:1x64MiB");
  auto actor = must(cluster.spawn("counter", number(3), {.gpus = 1, .max_restarts = 1}));
  const auto pid = pid_of(actor);
  processes.start_node("n1", "host:1x64MiB");
  processes.signal("n0", SIGKILL);
  REQUIRE(eventually([&] {
    const auto sum = actor.call<Number>("add", number(1), 10s).get();
    return sum && sum->value() >= 4;
  }));
  CHECK(actor.info().lease().node() == "n1");
  CHECK(eventually([&] { return ::kill(pid, 0) != 0; }));
}

TEST_CASE("the broker may be killed and started again while actors serve", "[processes]") {
  Processes processes;
  auto cluster = processes.up("host:2x64MiB");
  auto actor = must(cluster.spawn("counter", number(0), {.gpus = 0.5, .name = "a", .max_restarts = 1}));
  auto detached = must(cluster.spawn("counter", number(0), {.gpus = 1, .name = "d", .detached = true}));
  const auto before = must(cluster.state());
  const auto pid = pid_of(actor);
  processes.signal("broker", SIGKILL);
  for (int i = 1; i <= 100; ++i)
    REQUIRE(must(actor.call<Number>("add", number(1)).get()).value() == i);
  // Asked while nobody listens; answered when somebody does.
  auto task = cluster.submit<Number>("pid", {}, {.gpus = 0.5});
  processes.start_broker();
  CHECK(must(task.get(20s)).value() == pid);
  REQUIRE(eventually([&] { return must(cluster.state()).actors_size() == 2; }));
  const auto after = must(cluster.state());
  REQUIRE(after.devices_size() == before.devices_size());
  for (int i = 0; i < before.actors_size(); ++i) {
    CHECK(after.actors(i).id() == before.actors(i).id());
    CHECK(after.actors(i).lease().id() == before.actors(i).lease().id());
    CHECK(after.actors(i).pid() == before.actors(i).pid());
  }
  CHECK(pid_of(must(cluster.find("d"))) == pid_of(detached));
  CHECK(must(actor.call<Number>("add", number(1)).get()).value() == 101);
  // The new broker knows how to start it again.
  Processes::signal(pid, SIGKILL);
  REQUIRE(eventually([&] {
    const auto sum = actor.call<Number>("add", number(1), 10s).get();
    return sum && sum->value() == 1;
  }));
  must(cluster.kill("a"));
  must(cluster.kill("d"));
  CHECK(eventually([&] { return is_idle(cluster); }));
}

TEST_CASE("an actor with a process of its own sees exactly its devices", "[processes]") {
  Processes processes;
  processes.start_broker();
  processes.start_node("n0", "host:2x64MiB", {"--resource", "neuron_cores=2"});
  auto cluster = processes.connect();
  auto alone = must(cluster.spawn("counter", number(0), {.gpus = 0.25, .isolation = Isolation::process}));
  auto shared = must(cluster.spawn("counter", number(0), {.gpus = 0.25}));
  CHECK(pid_of(alone) != pid_of(shared));
  const auto pid = pid_of(alone);
  must(cluster.kill(alone));
  CHECK(eventually([&] { return ::kill(pid, 0) != 0; }));
  // Other accelerators are shown by a variable: a process for each lease of them.
  Options one_core;
  one_core.resources["neuron_cores"] = 1;
  auto first = cluster.submit<Number>("nap", number(0.3), one_core);
  auto second = cluster.submit<Text>("variable", text("NEURON_RT_VISIBLE_CORES"), one_core);
  CHECK(must(second.get(20s)).text() != "(not set)");
  CHECK(must(first.get(20s)).value() != getpid());
  CHECK(must(cluster.submit<Text>("variable", text("NEURON_RT_VISIBLE_CORES")).get(20s)).text().empty());
}

TEST_CASE("what should be there is in the broker's file: it starts again with its groups and detached actors",
          "[processes]") {
  Processes processes;
  const TemporaryFolder folder;
  const auto store = (folder / "state.db").string();
  processes.start_broker({"--store", store});
  processes.start_node("n0", "host:2x64MiB");
  auto cluster = processes.connect();
  auto group = must(cluster.create_group({{.gpus = 0.5}, {.gpus = 0.5}}, {.name = "g", .detached = true}));
  auto inside = must(cluster.spawn("counter", number(1), {.gpus = 0.5, .group = group.id, .bundle = 1, .name = "in"}));
  auto again =
      must(cluster.spawn("counter", number(2), {.gpus = 1, .name = "again", .max_restarts = 1, .detached = true}));
  const auto before = must(cluster.state());
  processes.signal("broker", SIGKILL);
  // One of them dies while the broker is away.
  Processes::signal(pid_of(again), SIGKILL);
  processes.start_broker({"--store", store});
  const auto same = [&] {
    const auto now = cluster.state();
    return now && now->actors_size() == 2 && now->actors(0).state() == "alive" && now->actors(1).state() == "alive";
  };
  REQUIRE(eventually(same));
  const auto after = must(cluster.state());
  REQUIRE(after.groups_size() == 1);
  CHECK(after.groups(0).SerializeAsString() == before.groups(0).SerializeAsString());
  CHECK(must(inside.call<Number>("add", number(1)).get()).value() == 2);
  auto restarted = must(cluster.find("again"));
  CHECK(must(restarted.call<Number>("add", number(1)).get()).value() == 3);
  CHECK(must(restarted.call<Number>("restarts").get()).value() == 1);
  // What was placed in the group is still there, and nothing else fits.
  Options too_much;
  too_much.gpus = 0.75;
  too_much.queue_timeout = 50ms;
  const auto refused = cluster.submit<Number>("pid", {}, too_much).get(20s);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == Errc::no_capacity);
  must(cluster.remove_group(group.id));
  must(cluster.kill("again"));
  CHECK(eventually([&] { return is_idle(cluster); }));
}

TEST_CASE("a broker that starts again knows which bundles a group that shrinks has left", "[processes]") {
  Processes processes;
  const TemporaryFolder folder;
  const auto store = (folder / "state.db").string();
  processes.start_broker({"--store", store});
  processes.start_node("n0", "host:1x64MiB");
  auto cluster = processes.connect();
  auto group =
      must(cluster.create_group({{.gpus = 0.5}, {.gpus = 0.5}}, {.name = "g", .detached = true, .shrinks = true}));
  for (int bundle = 0; bundle < 2; ++bundle)
    must(cluster.spawn("counter", number(1),
                       {.gpus = 0.5, .group = group.id, .bundle = bundle, .name = std::to_string(bundle)}));
  must(cluster.kill("0"));
  const auto shrunk = must(cluster.state());
  REQUIRE(shrunk.groups_size() == 1);
  CHECK(shrunk.groups(0).state() == "placed");
  CHECK(shrunk.groups(0).bundles(0).node().empty());
  CHECK(shrunk.devices(0).free_units() == 5'000);
  processes.signal("broker", SIGKILL);
  processes.start_broker({"--store", store});
  REQUIRE(eventually([&] {
    const auto now = cluster.state();
    return now && now->actors_size() == 1 && now->actors(0).state() == "alive";
  }));
  const auto after = must(cluster.state());
  REQUIRE(after.groups_size() == 1);
  CHECK(after.groups(0).SerializeAsString() == shrunk.groups(0).SerializeAsString());
  CHECK(after.devices(0).free_units() == 5'000);
  must(cluster.kill("1"));
  CHECK(must(cluster.state()).groups_size() == 0);
  CHECK(must(cluster.state()).devices(0).free_units() == 10'000);
}

TEST_CASE("tasks are run again when their worker dies, and get fresh processes when they ask for them", "[processes]") {
  Processes processes;
  auto cluster = processes.up("host:1x64MiB");
  Options retried;
  retried.gpus = 1;
  retried.max_retries = 2;
  const auto begin = must(cluster.state({.events_from = 1})).events_size();
  const auto failed = cluster.submit<Number>("fall", text("kill"), retried).get(20s);
  REQUIRE_FALSE(failed);
  CHECK(failed.error().code() == Errc::worker_died);
  int granted = 0;
  const auto log = must(cluster.state({.events_from = 1}));
  for (int i = begin; i < log.events_size(); ++i)
    granted += log.events(i).kind() == "granted" ? 1 : 0;
  CHECK(granted == 3);
  const TemporaryFolder folder;
  const auto held = folder / "held";
  auto survivor = cluster.submit<Number>("hold", text(held.string()), retried);
  REQUIRE(eventually([&] { return std::filesystem::exists(held) && must(cluster.state()).leases_size() == 1; }));
  const auto pid = must(cluster.submit<Number>("pid").get()).value();
  CHECK(pid != getpid());
  std::filesystem::remove(held);
  CHECK(must(survivor.get(20s)).value() > 0);

  Options fresh;
  fresh.gpus = 1;
  fresh.max_calls = 1;
  std::set<double> pids;
  for (int i = 0; i < 3; ++i)
    pids.insert(must(cluster.submit<Number>("pid", {}, fresh).get(20s)).value());
  CHECK(pids.size() == 3);
  CHECK(eventually([&] { return is_idle(cluster); }));
}
