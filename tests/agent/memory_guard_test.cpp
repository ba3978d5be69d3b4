// Which workers a node ends for their host memory, when, and what becomes of their leases.
#include <gpuactors/agent/core/memory_guard.hpp>
#include <gpuactors/base/host_memory.hpp>

#include <support/catch.hpp>

#include <agent/core_scene.hpp>

using namespace agent_test;

namespace {

constexpr std::uint64_t one_mib = 1U << 20;

MemoryRules rules(std::uint64_t offered_mib, double threshold = 0) {
  return {"n", offered_mib * one_mib, 0, threshold};
}

GuardedWorker worker(std::uint64_t number, std::uint64_t used_mib, std::uint64_t asked_mib = 0, bool own = false) {
  return {number, "the worker " + std::to_string(number), asked_mib * one_mib, 0, own, used_mib * one_mib, 0};
}

std::uint64_t chosen(const std::optional<MemoryVerdict>& verdict) {
  return verdict ? verdict->number : 0;
}

constexpr MemoryRoom full{960 * one_mib, 1000 * one_mib, false};
constexpr MemoryRoom roomy{500 * one_mib, 1000 * one_mib, false};

/// A node that offers 400 MiB and looks.
Scene guarded_scene() {
  AgentOptions options;
  (*options.node.mutable_resource_units())["host_memory"] = 400 * one_mib;
  options.memory_threshold = 0.95;
  return Scene{{}, 2, std::move(options)};
}

MemoryLook look_of(std::vector<WorkerMemory> workers, std::uint64_t used_mib = 500) {
  return {MemoryRoom{used_mib * one_mib, 1000 * one_mib, false}, std::move(workers)};
}

} // namespace

TEST_CASE("a process of one lease is held to the private memory that the lease has asked for") {
  CHECK(beyond_their_own(rules(400), {worker(1, 100, 100, true)}).empty());
  CHECK(beyond_their_own(rules(400), {worker(1, 101, 100, false)}).empty());
  CHECK(beyond_their_own(rules(400), {worker(1, 101, 0, true)}).empty());
  auto sharing = worker(1, 100, 100, true);
  sharing.shared_bytes = 50 * one_mib;
  CHECK(beyond_their_own(rules(400), {sharing}).empty());
  const auto verdicts = beyond_their_own(rules(400), {worker(1, 150, 100, true), worker(2, 300, 200, true)});
  REQUIRE(verdicts.size() == 2);
  CHECK(verdicts[0].number == 1);
  CHECK(verdicts[1].number == 2);
  CHECK(verdicts[0].why
        == "the worker 1 on node n used 150 MiB of host memory, without what it shares, and had asked for 100 MiB: its "
           "process was ended; ask for more (host_memory_bytes, --host-memory), or let it use less");
}

TEST_CASE("workers that use more together than the node offers lose one") {
  CHECK_FALSE(beyond_the_node(rules(400), roomy, {worker(1, 200), worker(2, 200)}));
  CHECK_FALSE(beyond_the_node(rules(0), roomy, {worker(1, 300), worker(2, 300)}));
  const auto verdict = beyond_the_node(rules(400), roomy, {worker(1, 180, 100), worker(2, 221)});
  CHECK(chosen(verdict) == 2);
  REQUIRE(verdict);
  CHECK(
      verdict->why
      == "the workers of node n use 401 MiB together, and it offers 400 MiB: the worker 2 used 221 MiB of host memory, "
         "what runs in it has asked for none, and its process was ended; ask for what it needs (host_memory_bytes, "
         "--host-memory), or let it use less");
  // Shared memory that was counted more than once cannot be more than all memory in use.
  auto sharing = worker(3, 100);
  sharing.shared_bytes = 350 * one_mib;
  CHECK_FALSE(beyond_the_node(rules(400), MemoryRoom{390 * one_mib, 1000 * one_mib, false}, {worker(1, 100), sharing}));
  CHECK(chosen(beyond_the_node(rules(400), std::nullopt, {worker(1, 100), sharing})) == 3);
}

TEST_CASE("a full machine loses a worker, and a full control group likewise") {
  CHECK_FALSE(beyond_the_node(rules(0, 0.95), roomy, {worker(1, 400)}));
  CHECK_FALSE(beyond_the_node(rules(0, 0.95), std::nullopt, {worker(1, 400)}));
  CHECK_FALSE(beyond_the_node(rules(0, 0), full, {worker(1, 400)}));
  CHECK_FALSE(beyond_the_node(rules(0, 1), full, {worker(1, 400)}));
  CHECK_FALSE(beyond_the_node(rules(0, 0.96), full, {worker(1, 400)}));
  const auto verdict = beyond_the_node(rules(0, 0.95), full, {worker(1, 400, 300)});
  REQUIRE(verdict);
  CHECK(
      verdict->why
      == "node n ends a worker when more than 95 % of memory is in use (--memory-threshold), and the machine has 960 "
         "MiB of its 1000 MiB of memory in use: the worker 1 used 400 MiB of host memory, what runs in it has asked "
         "for 300 MiB, and its process was ended; ask for what it needs (host_memory_bytes, --host-memory), or let it "
         "use less");
  CHECK(beyond_the_node(rules(0, 0.95), MemoryRoom{960 * one_mib, 1000 * one_mib, true}, {worker(1, 400)})
            ->why.find("the control group has 960 MiB")
        != std::string::npos);
}

TEST_CASE("who uses most beyond what he has asked for is ended first, then the largest, then the youngest") {
  const auto of = [](const std::vector<GuardedWorker>& workers) {
    return chosen(beyond_the_node(rules(0, 0.95), full, workers));
  };
  CHECK(of({worker(1, 500, 400), worker(2, 150, 40)}) == 2);
  CHECK(of({worker(1, 500, 450), worker(2, 150)}) == 2);
  CHECK(of({worker(1, 500, 600), worker(2, 300, 290)}) == 2);
  CHECK(of({worker(1, 500, 600), worker(2, 300, 400)}) == 1); // both are within it
  CHECK(of({worker(1, 300, 100), worker(2, 500, 300)}) == 2); // equally beyond it
  CHECK(of({worker(1, 300), worker(3, 300), worker(2, 300)}) == 3);
}

TEST_CASE("the memory of host devices is host memory, and was asked for") {
  auto on_device = worker(1, 140, 100, true);
  on_device.device_bytes = 40 * one_mib;
  CHECK(beyond_their_own(rules(400), {on_device}).empty());
  on_device.private_bytes += one_mib;
  REQUIRE(beyond_their_own(rules(400), {on_device}).size() == 1);
  CHECK(beyond_their_own(rules(400), {on_device})[0].why.find("asked for 100 MiB and had 40 MiB of host devices: its")
        != std::string::npos);
  auto with_devices = rules(400);
  with_devices.device_bytes = 100 * one_mib;
  CHECK_FALSE(beyond_the_node(with_devices, std::nullopt, {worker(2, 500)}));
  on_device.private_bytes = 300 * one_mib;
  const auto verdict = beyond_the_node(with_devices, std::nullopt, {on_device, worker(2, 250, 100)});
  CHECK(chosen(verdict) == 1); // 160 MiB beyond what it was granted
  REQUIRE(verdict);
  CHECK(verdict->why.find(
            "use 550 MiB together, and it offers 400 MiB and has 100 MiB of host devices: the worker 1 used "
            "300 MiB of host memory, what runs in it has asked for 100 MiB and has 40 MiB of host devices")
        != std::string::npos);
}

TEST_CASE("others that fill a machine are no reason to end many small workers") {
  CHECK_FALSE(beyond_the_node(rules(0, 0.95), full, {}));
  CHECK_FALSE(beyond_the_node(rules(0, 0.95), full, {worker(1, 9), worker(2, 9)}));
  CHECK(chosen(beyond_the_node(rules(0, 0.95), full, {worker(1, 9), worker(2, 10)})) == 2);
}

TEST_CASE("a node looks at its memory while it has workers, if it has been told to") {
  Scene bare;
  bare.lease(1);
  bare.come_up(1);
  bare.pass(std::chrono::seconds{5});
  CHECK(bare.world.looks.empty());

  auto scene = guarded_scene();
  scene.pass(std::chrono::seconds{5});
  CHECK(scene.world.looks.empty());
  scene.lease(1);
  scene.come_up(1, 77);
  scene.pass(limits::memory_look);
  REQUIRE(scene.world.looks.size() == 1);
  REQUIRE(scene.world.looks[0].processes.size() == 1);
  CHECK(scene.world.looks[0].processes[0].worker == 1);
  CHECK(scene.world.looks[0].processes[0].pid == 77);
  CHECK(scene.world.looks[0].bound_bytes == 400 * one_mib);
  scene.pass(std::chrono::seconds{5}); // it waits for what it has asked for
  CHECK(scene.world.looks.size() == 1);
  scene.core->memory_seen(look_of({{1, 100 * one_mib, 0}}));
  scene.pass(limits::memory_look);
  CHECK(scene.world.looks.size() == 2);
  scene.core->worker_exited(1, "was killed");
  scene.core->worker_lost(1);
  scene.core->memory_seen(look_of({{1, 100 * one_mib, 0}}));
  scene.pass(std::chrono::seconds{5});
  CHECK(scene.world.looks.size() == 2);
}

TEST_CASE("a worker that is ended for its memory says why, and is killed; its leases end with the reason when it is "
          "gone") {
  auto scene = guarded_scene();
  scene.lease(1);
  scene.lease(2);
  scene.lease(3, {.device = 1});
  scene.come_up(1);
  scene.come_up(2);
  scene.pass(limits::memory_look);
  scene.core->memory_seen(look_of({{1, 350 * one_mib, 0}, {2, 60 * one_mib, 0}}));
  REQUIRE(scene.world.last_words.size() == 1);
  CHECK(scene.ordered("worker 1: die 0"));
  CHECK(scene.world.last_words[0].find(
            "use 410 MiB together, and it offers 400 MiB: the worker for device 0 used 350 MiB")
        != std::string::npos);
  CHECK(scene.world.killed.empty());
  // A holder that ends before is not free yet, and nothing new comes into its process.
  scene.end(1);
  CHECK(scene.end_of(1) == nullptr);
  scene.lease(4);
  CHECK(scene.world.workers.size() == 3);
  scene.pass(limits::memory_grace);
  CHECK(scene.world.killed == std::set<std::uint64_t>{1});
  scene.core->worker_lost(1);
  scene.core->worker_exited(1, "was killed");
  for (const auto lease : {1, 2}) {
    REQUIRE(scene.end_of(lease) != nullptr);
    CHECK(scene.end_of(lease)->error() == static_cast<std::uint32_t>(Errc::worker_died));
    CHECK(scene.end_of(lease)->text() == scene.world.last_words[0]);
    CHECK(scene.end_of(lease)->host_memory() == (lease == 1)); // it is one event
  }
  CHECK(scene.end_of(3) == nullptr);
}

TEST_CASE("the next worker is ended only when the memory of the last one is back") {
  auto scene = guarded_scene();
  scene.lease(1);
  scene.lease(2, {.device = 1});
  scene.lease(3, {.device = -1});
  for (const auto number : {1, 2, 3})
    scene.come_up(number);
  const auto look = look_of({{1, 490 * one_mib, 0}, {2, 460 * one_mib, 0}, {3, 450 * one_mib, 0}});
  scene.pass(limits::memory_look);
  scene.core->memory_seen(look);
  CHECK(scene.world.last_words.size() == 1);
  scene.pass(limits::memory_look);
  scene.core->memory_seen(look);
  CHECK(scene.world.last_words.size() == 1); // it is not gone yet
  scene.pass(limits::memory_look);
  scene.core->worker_lost(1);
  scene.core->worker_exited(1, "was killed");
  scene.core->memory_seen(look);
  CHECK(scene.world.last_words.size() == 1); // seen before it was gone
  scene.pass(limits::memory_look);
  scene.core->memory_seen(look);
  CHECK(scene.world.last_words.size() == 2);
  CHECK(scene.ordered("worker 2: die 0"));
  // One that does not go in a long while is not waited for.
  scene.pass(limits::memory_patience);
  scene.core->memory_seen(look);
  CHECK(scene.ordered("worker 3: die 0"));
}

TEST_CASE("workers that end for other reasons do not keep a node from ending one", "[agent]") {
  auto scene = guarded_scene();
  scene.lease(1);
  scene.lease(2, {.device = 1, .isolated = true});
  scene.lease(3, {.device = 1, .isolated = true});
  for (const auto number : {1, 2, 3})
    scene.come_up(number);
  scene.pass(limits::memory_look);
  scene.end(2);
  scene.end(3);
  scene.core->worker_lost(2);
  scene.core->worker_exited(2, "was killed");
  scene.core->memory_seen(look_of({{1, 450 * one_mib, 0}}));
  CHECK(scene.ordered("worker 1: die 0"));
}

TEST_CASE("an actor that has ended itself does not live again because its process was ended for its memory") {
  auto scene = guarded_scene();
  scene.lease(1);
  scene.come_up(1);
  scene.pass(limits::memory_look);
  scene.core->memory_seen(look_of({{1, 500 * one_mib, 0}}));
  auto own = lease_end(1, 1, Error{Errc::actor_died, "it has done its work"});
  own.set_by_itself(true);
  scene.core->ended(own);
  scene.core->worker_lost(1);
  scene.core->worker_exited(1, "was killed");
  REQUIRE(scene.end_of(1) != nullptr);
  CHECK(scene.end_of(1)->by_itself());
}

TEST_CASE("what borrows in the process of its lender asks for nothing more") {
  auto scene = guarded_scene();
  scene.lease(1, {.isolated = true, .host_memory = 300 * one_mib});
  scene.lease(2, {.parent = 1, .host_memory = 100 * one_mib});
  scene.come_up(1);
  scene.pass(limits::memory_look);
  scene.core->memory_seen(look_of({{1, 300 * one_mib, 60 * one_mib}}));
  CHECK(scene.world.last_words.empty());
  scene.pass(limits::memory_look);
  scene.core->memory_seen(look_of({{1, 301 * one_mib, 0}}));
  REQUIRE(scene.world.last_words.size() == 1);
  CHECK(scene.world.last_words[0].find("used 301 MiB of host memory, without what it shares, and had asked for 300 MiB")
        != std::string::npos);
}

TEST_CASE("an operator is told once that others fill the machine") {
  auto scene = guarded_scene();
  scene.lease(1);
  scene.come_up(1);
  for (int i = 0; i < 3; ++i) {
    scene.pass(limits::memory_look);
    scene.core->memory_seen(look_of({{1, one_mib, 0}}, 990));
  }
  const std::string said = "the machine has 990 MiB of its 1000 MiB of memory in use, and no worker here";
  CHECK(scene.world.notices.find(said) != std::string::npos);
  CHECK(scene.world.notices.find(said) == scene.world.notices.rfind(said));
  CHECK(scene.world.killed.empty());
}
