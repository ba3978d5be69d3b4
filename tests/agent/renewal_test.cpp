// A node's programs when they are started anew while something else happens: devices fail, the node is being emptied,
// nothing comes up any more.
#include <support/catch.hpp>

#include <agent/core_scene.hpp>
#include <agent/programs.hpp>

using namespace agent_test;

namespace {

ProgramTable one_program() {
  return programs({program("vision", {"see"})});
}

/// The broker orders leases for "see" on a device whose workers do not come up, as often as makes a strike. @returns
/// the number of the next lease.
std::uint64_t fail_starts(Scene& scene, std::uint64_t first_lease, int device) {
  auto id = first_lease;
  for (std::size_t i = 0; i < limits::device_losses; ++i, ++id) {
    scene.lease(id, {.device = device, .task = "see"});
    scene.core->worker_exited(scene.world.workers.back().number, "did not find its library");
  }
  return id;
}

Errc code_of_end(const Scene& scene, std::uint64_t lease) {
  const auto* end = scene.end_of(lease);
  return end != nullptr ? errc_from_number(static_cast<std::uint8_t>(end->error())) : Errc::internal;
}

} // namespace

TEST_CASE("when a device fails, what runs on it in an earlier program ends as does what runs in the present one") {
  Scene scene{one_program()};
  scene.lease(1, {.device = 0, .task = "see"});
  scene.lease(2, {.device = 1, .task = "see"});
  scene.come_up(1);
  scene.come_up(2);
  scene.change(one_program());
  scene.lease(3, {.device = 0, .task = "see"});
  scene.come_up(3);
  scene.fail_device(0);
  CHECK(scene.ordered("worker 1: fault 0"));
  CHECK(scene.ordered("worker 3: fault 0"));
  CHECK_FALSE(scene.ordered("worker 2: fault 0"));
  // A call into the driver may never return.
  scene.pass(limits::fault_grace);
  CHECK(scene.world.killed == std::set<std::uint64_t>{1, 3});
  CHECK(scene.world.ended.empty());
  scene.core->worker_exited(1, "was killed");
  scene.core->worker_exited(3, "was killed");
  scene.pass(limits::exit_patience);
  CHECK(code_of_end(scene, 1) == Errc::worker_died);
  CHECK(code_of_end(scene, 3) == Errc::worker_died);
  CHECK(scene.core->held() == std::vector{LeaseId{2}});
}

TEST_CASE("a worker of an earlier program whose holders end after its device has failed is killed once they have") {
  Scene scene{one_program()};
  scene.lease(1, {.task = "see"});
  scene.come_up(1);
  scene.change(one_program());
  scene.fail_device(0);
  scene.end(1);
  REQUIRE(scene.end_of(1) != nullptr);
  scene.pass(limits::exit_patience);
  CHECK(scene.world.killed == std::set<std::uint64_t>{1});
  scene.core->worker_exited(1, "was killed");
  scene.pass(limits::fault_grace + limits::exit_patience);
  CHECK(scene.world.ended.size() == 1);
  CHECK(scene.world.notices.find("was killed") == std::string::npos);
}

TEST_CASE("an earlier program that has not come up when its device fails is ended at once") {
  Scene scene{one_program()};
  scene.lease(1, {.task = "see"});
  scene.change(one_program());
  scene.fail_device(0);
  CHECK(scene.world.killed == std::set<std::uint64_t>{1});
  scene.core->worker_exited(1, "was killed");
  CHECK(code_of_end(scene, 1) == Errc::worker_died);
  // It says nothing of the present program.
  CHECK(scene.world.programs.size() == 1);
}

TEST_CASE("devices that are lost to earlier and present programs count together") {
  Scene scene{one_program()};
  std::uint64_t id = 0;
  while (id < limits::device_losses) {
    CHECK(scene.world.faults.empty());
    ++id;
    scene.lease(id, {.task = "see"});
    REQUIRE(scene.world.workers.size() == id);
    scene.come_up(id);
    scene.change(one_program());
    scene.lose(id);
    CHECK(scene.world.killed.count(id) == 1);
  }
  REQUIRE(scene.world.faults.size() == 1);
  CHECK(scene.world.faults[0].devices(0) == 0);
}

TEST_CASE("a loss in an earlier program leaves the present one's worker where it is") {
  Scene scene{one_program()};
  scene.lease(1, {.task = "see"});
  scene.come_up(1);
  scene.change(one_program());
  scene.lease(2, {.task = "see"});
  scene.come_up(2);
  scene.lose(1);
  scene.core->worker_exited(1, "was killed");
  scene.lease(3, {.task = "see"});
  CHECK(scene.world.workers.size() == 2);
  CHECK(scene.ordered("worker 2: start 3"));
}

TEST_CASE("a node whose only program does not come up has no types, until it is started anew") {
  Scene scene{one_program()};
  fail_starts(scene, fail_starts(scene, 1, 0), 1);
  REQUIRE(scene.world.programs.size() == 1);
  // None, which is not the same as unknown.
  REQUIRE(scene.world.programs[0].has_types());
  CHECK(scene.world.programs[0].types().tasks().empty());
  CHECK(scene.world.faults.empty());
  CHECK(scene.world.notices.find("workers of program vision in a row did not come up") != std::string::npos);
  scene.lease(50, {.task = "see"});
  CHECK(code_of_end(scene, 50) == Errc::lease_revoked);
  scene.core->broker_changed(std::make_shared<Somebody>(0));
  CHECK(scene.world.registration.programs() == 1);
  CHECK(scene.world.registration.has_types());
  CHECK(scene.world.registration.types().tasks().empty());
  scene.change(one_program());
  CHECK(tasks_of(scene.world.programs.back().types()) == std::vector<std::string>{"see"});
  scene.lease(51, {.task = "see"});
  CHECK(scene.end_of(51) == nullptr);
}

TEST_CASE("when the only program does not come up after it was started anew, what runs in the earlier one goes on") {
  Scene scene{one_program()};
  scene.lease(1, {.device = 0, .task = "see"});
  scene.lease(2, {.device = 1, .isolated = true, .task = "see"});
  scene.come_up(1);
  scene.come_up(2);
  scene.change(one_program());
  const auto next = fail_starts(scene, fail_starts(scene, 10, 0), 1);
  REQUIRE(scene.world.programs.size() == 2);
  CHECK(scene.world.programs[1].types().tasks().empty());
  CHECK(scene.world.faults.empty());
  CHECK(scene.world.killed.empty());
  // What borrows from it runs in it, where it does not need a process of its own.
  scene.lease(next, {.parent = 1, .task = "see"});
  CHECK(scene.ordered("worker 1: start " + std::to_string(next)));
  scene.lease(next + 1, {.isolated = true, .parent = 1, .task = "see"});
  CHECK(code_of_end(scene, next + 1) == Errc::lease_revoked);
  CHECK(scene.core->held() == std::vector{LeaseId{1}, LeaseId{2}, LeaseId{next}});
  scene.end(next);
  scene.end(1);
  scene.pass(limits::exit_patience);
  CHECK(scene.world.killed == std::set<std::uint64_t>{1});
}

TEST_CASE("a program whose trial ends with the device on which it was tried is tried on another one") {
  Scene scene{one_program(), 3};
  const auto next = fail_starts(scene, 1, 0);
  const auto trial = scene.world.workers.back().number;
  REQUIRE(scene.world.workers.back().purpose == "device 1");
  scene.lease(next, {.device = 1, .task = "see"}); // waits for the worker that is on trial
  scene.fail_device(1);
  CHECK(scene.world.killed.count(trial) == 1);
  scene.core->worker_exited(trial, "was killed");
  scene.lease(next + 1, {.device = 0, .task = "see"});
  scene.core->worker_exited(scene.world.workers.back().number, "did not find its library");
  CHECK(scene.world.workers.back().purpose == "device 2");
  scene.core->worker_exited(scene.world.workers.back().number, "did not find its library");
  REQUIRE(scene.world.programs.size() == 1);
  CHECK(scene.world.programs[0].types().tasks().empty());
}

TEST_CASE("a node that is being emptied while its programs are started anew is empty with the last of its leases") {
  Scene scene{one_program()};
  scene.lease(1, {.task = "see"});
  scene.come_up(1);
  v1::DrainNode leave;
  leave.set_deadline_ms(60'000);
  scene.core->leave(leave);
  REQUIRE(scene.world.drains.size() == 1);
  scene.change(one_program());
  scene.world.answer(Result<void>{});
  CHECK(scene.world.times_emptied == 0);
  CHECK(scene.world.programs.size() == 1);
  // What was ordered before the broker knew starts in the present programs.
  scene.lease(2, {.task = "see"});
  scene.come_up(2);
  CHECK(scene.ordered("worker 2: start 2"));
  scene.end(1);
  CHECK(scene.world.times_emptied == 0);
  scene.end(2);
  CHECK(scene.world.times_emptied == 1);
}
