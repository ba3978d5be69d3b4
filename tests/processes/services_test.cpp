// What keeps services alive: parts of leases that are lent, environments, nodes and clients that leave in order or lose
// their connections, and what is ended while it is stuck.
#include "fixture.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

/// Has a child on a node.
class Parent : public Actor {
public:
  Parent(Init init, const Text& node) : Actor(std::move(init)) {
    must(Cluster::from(*this).spawn("counter", number(0), {.gpus = 0.5, .node = node.text(), .name = "child"}));
  }

  Number pid(const google::protobuf::Empty&) {
    return number(::getpid());
  }

  Number restarts(const google::protobuf::Empty&) {
    return number(Actor::restarts());
  }
};

/// Has an actor add to its number, and leaves it behind.
Result<Number> spawn_and_add(TaskContext& ctx, const Number& by) {
  GPUACTORS_LET(child, Cluster::from(ctx).spawn("counter", number(0)));
  return child.call<Number>("add", by).get();
}

/// Leaves a file behind when it is destroyed, and only then.
class Mourner : public Actor {
public:
  Mourner(Init init, const Text& path) : Actor(std::move(init)), path_(path.text()) {
    // nop
  }

  ~Mourner() override {
    std::ofstream{path_}.close();
  }

private:
  std::string path_;
};

/// Waits for a child on a device that it holds itself, goes on until what it lent is back, and does so once more.
Result<Number> lend_twice(TaskContext& ctx, const google::protobuf::Empty&) {
  auto cluster = Cluster::from(ctx);
  for (int child = 0; child < 2; ++child) {
    GPUACTORS_LET(lender, cluster.submit<Number>("lender", {}, {.gpus = 1}).get());
    if (static_cast<std::uint64_t>(lender.value()) != ctx.lease().id.value())
      return fail(Errc::task_failed, "nothing was lent to the child");
    const bool is_back = eventually([&] {
      const auto state = cluster.state();
      return state && state->leases_size() == 1;
    });
    if (!is_back)
      return fail(Errc::task_failed, "the child's lease has not ended");
  }
  return number(::getpid());
}

/// Whose lease it borrows from.
Number lender(TaskContext& ctx, const google::protobuf::Empty&) {
  return number(static_cast<double>(ctx.lease().parent.value()));
}

/// The first event of this kind, of that name if one is given.
std::optional<v1::ActorInfo> info_of(Cluster& cluster, const std::string& actor) {
  const auto state = must(cluster.state());
  for (const auto& info : state.actors())
    if (info.name() == actor)
      return info;
  return std::nullopt;
}

/// How often an actor was started anew; waits for a life of it that answers.
double restarts_of(const ActorRef& actor) {
  double restarts = -1;
  CHECK(eventually([&] {
    const auto answer = actor.call<Number>("restarts", google::protobuf::Empty{}, 5s).get();
    restarts = answer ? answer->value() : -1;
    return answer.has_value();
  }));
  return restarts;
}

/// Waits until calls of it say that it has ended for good.
bool has_died(const ActorRef& actor) {
  return eventually([&] {
    const auto sum = actor.call<Number>("add", number(0), 5s).get();
    return !sum && sum.error().code() == Errc::actor_died;
  });
}

/// Waits until the process is gone; whether it says that all is well.
bool ends_well(Processes& processes, const std::string& name) {
  processes.await_end(name);
  return processes.output().find(name + " ended with exit code 0") != std::string::npos;
}

/// The actor of the guest, which has just been started.
ActorRef guest_of(Cluster& cluster) {
  REQUIRE(eventually([&] {
    const auto info = info_of(cluster, "guest");
    return info && info->state() == "alive";
  }));
  return must(cluster.find("guest"));
}

/// Its constructor throws a text in Latin-1.
class Failing : public Actor {
public:
  Failing(Init init, const Text&) : Actor(std::move(init)) {
    throw std::runtime_error{"no file caf\xE9"};
  }
};

} // namespace

GPUACTORS_ACTOR("mourner", Mourner, Text);
GPUACTORS_ACTOR("parent", Parent, Text).method("pid", &Parent::pid).method("restarts", &Parent::restarts);
GPUACTORS_TASK("spawn_and_add", spawn_and_add);
GPUACTORS_ACTOR("failing", Failing, Text);
GPUACTORS_TASK("lend_twice", lend_twice);
GPUACTORS_TASK("lender", lender);

// -- lending --------------------------------------------------------------------------------------

TEST_CASE("a task with a process of its own goes on when what it lent to a child has ended", "[processes]") {
  Processes processes;
  auto cluster = processes.up("host:2x64MiB");
  const auto pid = static_cast<pid_t>(must(cluster.submit<Number>("lend_twice", {}, {.gpus = 2}).get(20s)).value());
  CHECK(eventually([&] { return is_idle(cluster); }));
  CHECK(eventually([&] { return ::kill(pid, 0) != 0; }));
}

// -- what actors and tasks spawn -------------------------------------------------------------------

TEST_CASE("a child on another node ends with its parent's process, and the next life has one of its name",
          "[processes]") {
  Processes processes;
  processes.start_broker();
  processes.start_node("n0", "host:1x64MiB");
  processes.start_node("n1", "host:1x64MiB");
  auto cluster = processes.connect();
  auto parent = must(cluster.spawn("parent", text("n1"), {.gpus = 0.5, .node = "n0", .max_restarts = 1}));
  const auto first = must(cluster.find("child"));
  CHECK(info_of(cluster, "child").value_or(v1::ActorInfo{}).lease().node() == "n1");
  Processes::signal(pid_of(parent), SIGKILL);
  CHECK(restarts_of(parent) == 1);
  const auto second = must(cluster.find("child"));
  CHECK(second.id() != first.id());
  CHECK(has_died(first));
  CHECK(must(second.call<Number>("add", number(1)).get(20s)).value() == 1);
  must(cluster.kill(parent));
  CHECK(has_died(second));
  CHECK(eventually([&] { return is_idle(cluster); }));
}

TEST_CASE("what a task spawns in its worker ends with the task", "[processes]") {
  Processes processes;
  auto cluster = processes.up("host:1x64MiB");
  CHECK(must(cluster.submit<Number>("spawn_and_add", number(3), {.gpus = 0.25}).get(20s)).value() == 3);
  CHECK(eventually([&] { return must(cluster.state()).actors_size() == 0; }));
}

// -- texts that are not UTF-8 ----------------------------------------------------------------------

TEST_CASE("an error with a text that is not UTF-8 comes back, and its lease is free", "[processes]") {
  Processes processes;
  auto cluster = processes.up("host:1x64MiB");
  const auto failed = cluster.spawn("failing", text(""), {.gpus = 0.5});
  REQUIRE_FALSE(failed.has_value());
  CHECK(failed.error().code() == Errc::task_failed);
  CHECK(failed.error().message().find("caf\xEF\xBF\xBD") != std::string::npos);
  CHECK(eventually([&] { return is_idle(cluster); }));
}

TEST_CASE("a name that is not UTF-8 is refused with its field", "[processes]") {
  Processes processes;
  auto cluster = processes.up("host:1x64MiB");
  const auto refused = cluster.spawn("counter", number(0), {.name = "caf\xE9"});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == Errc::invalid_argument);
  CHECK(refused.error().message() == "\"caf\xEF\xBF\xBD\" (name) is not UTF-8");
  CHECK(cluster.find("caf\xE9").error().code() == Errc::invalid_argument);
}

// -- environments ---------------------------------------------------------------------------------

TEST_CASE("an actor with an environment has a process of its own, in each of its lives", "[processes]") {
  Processes processes;
  auto cluster = processes.up("host:1x64MiB");
  auto plain = must(cluster.spawn("counter", number(0), {.gpus = 0.25}));
  auto blue =
      must(cluster.spawn("counter", number(0),
                         {.gpus = 0.25, .max_restarts = 1, .environment = {{"TEST_COLOUR", "blue"}, {"TEST_", ""}}}));
  const auto colour_of = [](const ActorRef& actor) {
    return must(actor.call<Text>("variable", text("TEST_COLOUR")).get(20s)).text();
  };
  CHECK(colour_of(blue) == "blue");
  CHECK(must(blue.call<Text>("variable", text("TEST_")).get(20s)).text().empty());
  CHECK(colour_of(plain) == "(not set)");
  const auto pid = pid_of(blue);
  CHECK(pid != pid_of(plain));
  Processes::signal(pid, SIGKILL);
  CHECK(restarts_of(blue) == 1);
  CHECK(colour_of(blue) == "blue");
}

TEST_CASE("tasks with different environments do not share a process", "[processes]") {
  Processes processes;
  auto cluster = processes.up("host:1x64MiB");
  const Options blue{.gpus = 0.25, .environment = {{"TEST_COLOUR", "blue"}}};
  const Options red{.gpus = 0.25, .environment = {{"TEST_COLOUR", "red"}}};
  CHECK(must(cluster.submit<Text>("variable", text("TEST_COLOUR"), blue).get(20s)).text() == "blue");
  CHECK(must(cluster.submit<Text>("variable", text("TEST_COLOUR"), red).get(20s)).text() == "red");
  CHECK(must(cluster.submit<Text>("variable", text("TEST_COLOUR"), {.gpus = 0.25}).get(20s)).text() == "(not set)");
  // Both run at the same time.
  const TemporaryFolder folder;
  const auto first_held = folder / "first";
  const auto second_held = folder / "second";
  auto first = cluster.submit<Number>("hold", text(first_held.string()), blue);
  auto second = cluster.submit<Number>("hold", text(second_held.string()), red);
  CHECK(eventually([&] { return std::filesystem::exists(first_held) && std::filesystem::exists(second_held); }));
  std::filesystem::remove(first_held);
  std::filesystem::remove(second_held);
  CHECK(must(first.get(20s)).value() != must(second.get(20s)).value());
}

TEST_CASE("variables that are not for requests to set are refused by name", "[processes]") {
  Processes processes;
  auto cluster = processes.up("host:1x64MiB");
  for (const std::string name : {"LD_PRELOAD", "CUDA_VISIBLE_DEVICES", "GPUACTORS_ISOLATED", "NEURON_RT_VISIBLE_CORES",
                                 "OTEL_EXPORTER_OTLP_ENDPOINT", "https_proxy", "NCCL_DEBUG_FILE", "1ST", "A=B", ""}) {
    const std::map<std::string, std::string> environment{{name, "1"}};
    const auto actor = cluster.spawn("counter", number(0), {.environment = environment});
    CHECK(code_of(actor) == Errc::invalid_argument);
    CHECK(says(actor, name));
    CHECK(code_of(cluster.submit<Number>("pid", {}, {.environment = environment}).get(20s)) == Errc::invalid_argument);
  }
  const std::string much(limits::environment_bytes, 'x');
  const auto refused = cluster.submit<Number>("pid", {}, {.environment = {{"TEST_MUCH", much}}}).get(20s);
  CHECK(code_of(refused) == Errc::invalid_argument);
  CHECK(says(refused, std::to_string(limits::environment_bytes)));
  CHECK(is_idle(cluster));
  auto embedded = must(Cluster::embed({.devices = "host:1x64MiB"}));
  CHECK(code_of(embedded.spawn("counter", number(0), {.environment = {{"TEST_COLOUR", "blue"}}})) == Errc::unsupported);
}

// -- what programs inherit ------------------------------------------------------------------------

TEST_CASE("a program that a task starts can be ended as any other one", "[processes]") {
  Processes processes;
  processes.start_broker();
  processes.start_node("n0", "host:1x64MiB");
  auto cluster = processes.connect();
  const auto has = [&](const std::string& word, int signal) {
    const auto set =
        std::stoull(must(cluster.submit<Text>("status_of_child", text(word)).get(20s)).text(), nullptr, 16);
    return (set >> (signal - 1) & 1U) != 0;
  };
  for (const int signal : {SIGTERM, SIGINT, SIGPIPE}) {
    INFO("signal " << signal);
    CHECK_FALSE(has("SigBlk:", signal));
    CHECK_FALSE(has("SigIgn:", signal));
  }
}

TEST_CASE("a signal to a child of a task ends the child and not its worker", "[processes]") {
  Processes processes;
  processes.start_broker();
  processes.start_node("n0", "host:1x64MiB");
  auto cluster = processes.connect();
  auto actor = must(cluster.spawn("counter", number(1), {.gpus = 0.5}));
  CHECK(must(cluster.submit<Number>("end_child", {}, {.gpus = 0.5}).get(20s)).value() == SIGTERM);
  CHECK(must(actor.call<Number>("add", number(1)).get(20s)).value() == 2);
}

// -- nodes that leave -----------------------------------------------------------------------------

TEST_CASE("a node that was stopped has left, one that was killed is lost", "[processes]") {
  Processes processes;
  processes.start_broker();
  processes.start_node("n0", "host:1x64MiB");
  processes.start_node("n1", "host:1x64MiB");
  auto cluster = processes.connect();
  processes.signal("n0", SIGTERM);
  CHECK(ends_well(processes, "n0"));
  processes.signal("n1", SIGKILL);
  CHECK(eventually([&] { return event_of(cluster, "node_lost", "n1").has_value(); }));
  CHECK(event_of(cluster, "node_left", "n0").has_value());
  CHECK_FALSE(event_of(cluster, "node_lost", "n0").has_value());
}

TEST_CASE("a node that is told to end lets its actors move, which uses up no restart", "[processes]") {
  Processes processes;
  processes.start_broker();
  processes.start_node("n0", "host:1x64MiB", {"--stop-grace", "60"});
  auto cluster = processes.connect();
  auto actor = must(cluster.spawn("counter", number(1), {.gpus = 1, .name = "a", .max_restarts = 1}));
  must(actor.call<Number>("add_for_good", number(4)).get());
  processes.start_node("n1", "host:1x64MiB");
  processes.signal("n0", SIGTERM);
  CHECK(ends_well(processes, "n0"));
  CHECK(event_of(cluster, "node_drained", "n0").has_value());
  CHECK(restarts_of(actor) == 1);
  CHECK(must(actor.call<Number>("add", number(0)).get(20s)).value() == 5);
  CHECK(info_of(cluster, "a").value_or(v1::ActorInfo{}).lease().node() == "n1");
  Processes::signal(pid_of(actor), SIGKILL);
  CHECK(restarts_of(actor) == 2);
  Processes::signal(pid_of(actor), SIGKILL);
  CHECK(has_died(actor));
}

TEST_CASE("a node that is told to end ends what does not move in order, at the end of its time", "[processes]") {
  Processes processes;
  const TemporaryFolder folder;
  processes.start_broker();
  processes.start_node("n0", "host:1x64MiB", {"--stop-grace", "0.5"});
  auto cluster = processes.connect();
  const auto left_behind = folder / "left behind";
  auto actor = must(cluster.spawn("mourner", text(left_behind.string()), {.gpus = 1, .name = "a"}));
  CHECK_FALSE(std::filesystem::exists(left_behind));
  processes.signal("n0", SIGTERM);
  CHECK(ends_well(processes, "n0"));
  CHECK(std::filesystem::exists(left_behind));
  CHECK(eventually([&] { return event_of(cluster, "died", "a").has_value(); }));
}

TEST_CASE("a node without work does not wait for a broker that is gone", "[processes]") {
  Processes processes;
  processes.start_broker();
  processes.start_node("n0", "host:1x64MiB", {"--stop-grace", "600"});
  processes.signal("broker", SIGKILL);
  REQUIRE(eventually([&] { return processes.output().find("connection to the broker is lost") != std::string::npos; }));
  processes.signal("n0", SIGTERM);
  CHECK(ends_well(processes, "n0"));
}

TEST_CASE("a node that is told to end twice does not wait", "[processes]") {
  Processes processes;
  processes.start_broker();
  processes.start_node("n0", "host:1x64MiB", {"--stop-grace", "600"});
  auto cluster = processes.connect();
  auto actor = must(cluster.spawn("counter", number(0), {.gpus = 1}));
  processes.signal("n0", SIGTERM);
  CHECK(eventually([&] { return event_of(cluster, "node_drained", "n0").has_value(); }));
  CHECK(must(actor.call<Number>("add", number(1)).get(20s)).value() == 1);
  processes.signal("n0", SIGTERM);
  CHECK(ends_well(processes, "n0"));
}

// -- clients that are away ------------------------------------------------------------------------

TEST_CASE("a client that may come back finds its actor when its connection was lost", "[processes][frozen]") {
  Processes processes{Processes::link_timeout};
  auto cluster = processes.up();
  processes.start_guest("client", 600s);
  auto actor = guest_of(cluster);
  const auto pid = pid_of(actor);
  CHECK(must(actor.call<Number>("add", number(5)).get()).value() == 5);
  processes.signal("client", SIGSTOP);
  CHECK(eventually([&] { return event_of(cluster, "client_away").has_value(); }));
  CHECK(must(actor.call<Number>("add", number(1)).get()).value() == 6);
  processes.signal("client", SIGCONT);
  CHECK(eventually([&] { return event_of(cluster, "client_returned").has_value(); }));
  CHECK(pid_of(actor) == pid);
  // It reaches its actor as before.
  processes.signal("client", SIGTERM);
  CHECK(ends_well(processes, "client"));
}

TEST_CASE("a client that did not ask to be waited for loses its actor with its connection", "[processes][frozen]") {
  Processes processes{Processes::link_timeout};
  auto cluster = processes.up();
  processes.start_guest("client", 0s);
  auto actor = guest_of(cluster);
  processes.signal("client", SIGSTOP);
  CHECK(eventually([&] { return !info_of(cluster, "guest"); }));
  processes.signal("client", SIGCONT);
  CHECK(has_died(actor));
  CHECK_FALSE(event_of(cluster, "client_away").has_value());
}

TEST_CASE("a client that closes its cluster is not waited for", "[processes]") {
  Processes processes;
  auto cluster = processes.up();
  processes.start_guest("client", 600s);
  guest_of(cluster);
  processes.signal("client", SIGTERM);
  CHECK(ends_well(processes, "client"));
  CHECK(eventually([&] { return is_idle(cluster); }));
  CHECK_FALSE(event_of(cluster, "client_away").has_value());
}

TEST_CASE("a client that is killed is waited for as long as it has asked, and no longer", "[processes]") {
  Processes processes;
  auto cluster = processes.up();
  processes.start_guest("client", 1s);
  guest_of(cluster);
  processes.signal("client", SIGKILL);
  CHECK(eventually([&] { return is_idle(cluster); }));
  const auto away = event_of(cluster, "client_away");
  const auto died = event_of(cluster, "died", "guest");
  REQUIRE(away.has_value());
  REQUIRE(died.has_value());
  // The time begins a moment before it is written down.
  CHECK(std::chrono::nanoseconds{died->time_ns() - away->time_ns()} > 900ms);
}

// -- what is ended in the middle ------------------------------------------------------------------

TEST_CASE("a streamed call whose actor dies in the middle is not made again", "[processes]") {
  Processes processes;
  auto cluster = processes.up("host:1x64MiB");
  auto actor = must(cluster.spawn("counter", number(0), {.gpus = 1, .max_restarts = 1, .max_task_retries = 1}));
  const auto pid = pid_of(actor);
  // More items than may be under way: it waits in the middle until they are read.
  constexpr int count = 1'000;
  auto stream = actor.stream<Number>("count", number(count));
  CHECK(must(stream.next()).value_or(number(-1)).value() == 0);
  Processes::signal(pid, SIGKILL);
  auto item = stream.next(20s);
  int next = 1;
  while (item && next < count) {
    REQUIRE(item->has_value());
    REQUIRE((*item)->value() == next);
    ++next;
    item = stream.next(20s);
  }
  const auto code = code_of(item);
  CHECK((code == Errc::worker_died || code == Errc::actor_died));
  // Its next life does not wait for a reader either.
  CHECK(restarts_of(actor) == 1);
}

TEST_CASE("a group is removed with what is stuck in it", "[processes]") {
  Processes processes;
  auto cluster = processes.up("host:2x64MiB");
  const auto group = must(cluster.create_group({{.gpus = 1}}));
  auto stuck = must(cluster.spawn("counter", number(0), {.gpus = 1, .group = group.id}));
  auto call = stuck.call<Number>("fall", text("endless loop"));
  REQUIRE(eventually([&] { return processes.output().find("an endless loop begins") != std::string::npos; }));
  CHECK(cluster.remove_group(group.id, 60s).has_value());
  CHECK_FALSE(call.get(20s));
  CHECK(eventually([&] { return is_idle(cluster); }));
}

TEST_CASE("a group is removed when the node that is stuck in it is lost", "[processes]") {
  Processes processes;
  auto cluster = processes.up("host:2x64MiB");
  processes.start_node("n1", "host:2x64MiB");
  const auto group = must(cluster.create_group({{.gpus = 1}, {.gpus = 1}}, {.strategy = GroupStrategy::spread}));
  REQUIRE(group.bundles.size() == 2);
  auto stuck = must(cluster.spawn("counter", number(0), {.gpus = 1, .group = group.id, .bundle = 1}));
  auto call = stuck.call<Number>("fall", text("endless loop"));
  REQUIRE(eventually([&] { return processes.output().find("an endless loop begins") != std::string::npos; }));
  auto removal = cluster.remove_group_async(group.id);
  CHECK(eventually([&] {
    const auto state = must(cluster.state());
    return state.groups_size() == 1 && state.groups(0).state() == "ending";
  }));
  CHECK_FALSE(removal.ready());
  processes.signal(group.bundles[1].node, SIGKILL);
  CHECK(removal.get(20s).has_value());
  CHECK(must(cluster.state()).groups().empty());
  CHECK_FALSE(call.get(20s));
  CHECK(eventually([&] { return is_idle(cluster); }));
}
