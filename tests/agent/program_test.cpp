// The programs of a node: which of them runs what, when they change, and when one of them does not start.
#include <support/catch.hpp>
#include <support/results.hpp>

#include <agent/core_scene.hpp>
#include <agent/programs.hpp>

using namespace agent_test;

namespace {

using Names = std::vector<std::string>;

constexpr auto task = TypeWanted::Kind::task;
constexpr auto actor = TypeWanted::Kind::actor;

} // namespace

TEST_CASE("a type runs in the first program that has it, and is described once") {
  auto table = two_programs();
  CHECK(table.find({task, "see"})->name == "vision");
  CHECK(table.find({task, "hear"})->name == "speech");
  CHECK(table.find({task, "both"})->name == "vision");
  CHECK(table.find({task, ""})->name == "vision");
  CHECK(table.find({task, "smell"}) == nullptr);
  CHECK(table.find({actor, "see"}) == nullptr);
  CHECK(tasks_of(table.types()) == Names{"see", "both", "hear"});
  CHECK(table.withdraw(0));
  CHECK_FALSE(table.withdraw(0));
  CHECK(table.find({task, "both"})->name == "speech");
  CHECK(table.find({task, "see"}) == nullptr);
  CHECK(tasks_of(table.types()) == Names{"hear", "both"});
}

TEST_CASE("a program that does not say its types counts as having all") {
  const auto table = programs({program("vision", {"see"}), {0, "any", std::nullopt}});
  CHECK(table.find({task, "see"})->name == "vision");
  CHECK(table.find({actor, "whatever"})->name == "any");
  CHECK_FALSE(table.types().has_value());
}

TEST_CASE("two programs whose types of one name differ cannot be on a node, and are told how") {
  const auto refused = ProgramTable::make({program("a", {"see"}), program("b", {"see"}, "Image")});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error()
        == Error{Errc::invalid_argument, "task type see is one thing in a (In to Out) and another in b (Image to Out): "
                                         "give one of them another name"});
  CHECK(ProgramTable::make({}).error().code() == Errc::invalid_argument);
}

TEST_CASE("actors of two programs are alike if their methods are, in any order") {
  const auto counter = [](const std::string& name, Names methods) {
    WorkerProgram result;
    result.name = name;
    result.types.emplace();
    auto* type = result.types->add_actors();
    type->set_name("counter");
    for (const auto& method : methods)
      type->add_methods()->set_name(method);
    return result;
  };
  CHECK(ProgramTable::make({counter("a", {"x", "y"}), counter("b", {"y", "x"})}).has_value());
  CHECK_FALSE(ProgramTable::make({counter("a", {"x", "y"}), counter("b", {"x"})}).has_value());
}

TEST_CASE("leases on one device run in the worker of the program that has their type") {
  Scene scene{two_programs()};
  scene.lease(1, {.task = "see"});
  scene.lease(2, {.task = "hear"});
  scene.lease(3, {.task = "both"});
  scene.lease(4, {.isolated = true, .task = "hear"});
  scene.lease(5, {.device = -1, .task = "hear"});
  REQUIRE(scene.world.workers.size() == 4);
  CHECK(scene.world.workers[0].program == 0);
  CHECK(scene.world.workers[0].purpose == "device 0, vision");
  CHECK(scene.world.workers[1].program == 1);
  CHECK(scene.world.workers[2].program == 1);
  CHECK(scene.world.workers[3].purpose == "no device, speech");
  // Each of them is told that it is not alone on its device.
  CHECK(scene.world.workers[0].environment.at("GPUACTORS_ISOLATED").has_value());
  for (std::uint64_t worker = 1; worker <= 4; ++worker)
    scene.come_up(worker);
  CHECK(scene.ordered("worker 1: start 3"));
  CHECK(scene.ordered("worker 2: start 2"));
}

TEST_CASE("what borrows from a lease runs in its process if the program there has the type, else in its own") {
  Scene scene{two_programs()};
  scene.lease(1, {.task = "hear"});
  scene.come_up(1);
  scene.lease(2, {.parent = 1, .task = "both"});
  CHECK(scene.ordered("worker 1: start 2"));
  scene.lease(3, {.parent = 1, .task = "see"});
  REQUIRE(scene.world.workers.size() == 2);
  CHECK(scene.world.workers[1].program == 0);
  scene.come_up(2);
  CHECK(scene.ordered("worker 2: start 3"));
  scene.end(3);
  CHECK(scene.ordered("worker 2: die 0"));
}

TEST_CASE("an order for what no program has any more is sent back: another node may have it") {
  Scene scene{two_programs()};
  scene.change(programs({program("vision", {"see"})}));
  scene.lease(1, {.task = "hear"});
  REQUIRE(scene.end_of(1) != nullptr);
  CHECK(scene.end_of(1)->error() == static_cast<std::uint32_t>(Errc::lease_revoked));
  CHECK(scene.end_of(1)->text() == "no program of node node has the type hear any more");
  CHECK(scene.world.workers.empty());
}

TEST_CASE("when programs are started anew, what runs stays where it is, and what starts gets new processes") {
  Scene scene{two_programs()};
  scene.lease(1, {.task = "see"});
  scene.lease(2, {.task = "hear"});
  scene.lease(3, {.isolated = true, .task = "see"});
  for (std::uint64_t worker = 1; worker <= 3; ++worker)
    scene.come_up(worker);
  scene.end(2);
  const auto before = scene.world.notices;
  scene.change(programs({program("vision", {"see", "smell"}), program("speech", {})}));
  // Of the types, the broker learns at once; a process in which nothing runs ends, without a word.
  REQUIRE(scene.world.programs.size() == 1);
  CHECK(scene.world.programs[0].programs() == 1);
  CHECK(tasks_of(scene.world.programs[0].types()) == Names{"see", "smell"});
  CHECK(scene.ordered("worker 2: die 0")); // what it has said last may still be on its way to others
  CHECK(scene.world.killed.empty());
  scene.pass(limits::last_words);
  CHECK(scene.world.killed == std::set<std::uint64_t>{2});
  scene.core->worker_exited(2, "was killed");
  CHECK(scene.world.notices.find("was killed") == std::string::npos);
  // What borrows from what runs stays with it.
  scene.lease(4, {.parent = 1, .task = "see"});
  CHECK(scene.ordered("worker 1: start 4"));
  scene.lease(5, {.task = "see"});
  REQUIRE(scene.world.workers.size() == 4);
  scene.come_up(4);
  CHECK(scene.ordered("worker 4: start 5"));
  scene.end(4);
  CHECK(scene.world.killed.count(1) == 0);
  scene.end(1);
  CHECK(scene.ordered("worker 1: die 0"));
  scene.pass(limits::last_words);
  CHECK(scene.world.killed.count(1) == 1);
  CHECK(scene.world.killed.count(3) == 0);
  CHECK(scene.world.killed.count(4) == 0);
}

TEST_CASE("an agent that comes to a broker says what its programs have by then") {
  Scene scene{two_programs()};
  scene.core->broker_changed(nullptr);
  scene.change(programs({program("vision", {"see"})}));
  CHECK(scene.world.programs.empty());
  scene.core->broker_changed(std::make_shared<Somebody>(0));
  CHECK(scene.world.registration.programs() == 1);
  CHECK(tasks_of(scene.world.registration.types()) == Names{"see"});
}

TEST_CASE("a broker that was started again learns which leases run in earlier programs") {
  Scene scene{two_programs()};
  scene.lease(1, {.task = "see"});
  scene.lease(2, {.isolated = true, .task = "see"});
  scene.change(two_programs());
  scene.lease(3, {.task = "see"});
  scene.core->broker_changed(std::make_shared<Somebody>(0));
  CHECK(scene.world.told_retired == std::set<std::uint64_t>{1});
}

TEST_CASE("programs that do not see a device of the node do not take the place of those that do") {
  Scene scene{two_programs()};
  scene.core->programs_changed(two_programs(), {"GPU-1"});
  CHECK(scene.world.programs.empty());
  CHECK(scene.world.notices.find("the programs stay as they are: those that are there now do not see device 0 (GPU-0)")
        != std::string::npos);
  // One that is out of use may be missing.
  scene.fail_device(0);
  scene.core->programs_changed(two_programs(), {"GPU-1"});
  CHECK(scene.world.programs.size() == 1);
}

TEST_CASE("a program that comes up on no device loses its types, and takes no device from the others") {
  Scene scene{two_programs()};
  scene.lease(1, {.task = "see"});
  scene.come_up(1);
  std::uint64_t id = 1;
  while (scene.world.workers.size() < 1 + limits::device_losses + 1) {
    CHECK(scene.world.programs.empty());
    scene.lease(++id, {.task = "hear"});
    scene.core->worker_exited(scene.world.workers.back().number, "did not find its library");
    REQUIRE(id < 10);
  }
  // It is tried on the other device, where it does not come up either.
  CHECK(scene.world.workers.back().purpose == "device 1, speech");
  CHECK(scene.world.programs.empty());
  scene.core->worker_exited(scene.world.workers.back().number, "did not find its library");
  CHECK(scene.world.faults.empty());
  REQUIRE(scene.world.programs.size() == 1);
  CHECK(tasks_of(scene.world.programs[0].types()) == Names{"see", "both"});
  CHECK(scene.world.notices.find("3 workers of program speech in a row did not come up") != std::string::npos);
  // Started anew, it may do better.
  scene.change(two_programs());
  CHECK(tasks_of(scene.world.programs[1].types()) == Names{"see", "both", "hear"});
}

TEST_CASE("a device on which a program does not come up is out of use if the program comes up on another one") {
  Scene scene{two_programs()};
  std::uint64_t id = 0;
  while (scene.world.workers.size() < limits::device_losses + 1) {
    scene.lease(++id, {.device = 0, .task = "see"});
    scene.core->worker_exited(scene.world.workers.back().number, "could not open its device");
    REQUIRE(id < 10);
  }
  CHECK(scene.world.faults.empty());
  CHECK(scene.world.workers.back().purpose == "device 1, vision");
  scene.come_up(scene.world.workers.back().number);
  REQUIRE(scene.world.faults.size() == 1);
  CHECK(scene.world.faults[0].devices(0) == 0);
  CHECK(scene.world.programs.empty());
}

TEST_CASE("a worker of an earlier program that comes up says nothing of the present one") {
  Scene scene{two_programs()};
  scene.lease(1, {.device = 1, .isolated = true, .task = "see"});
  scene.change(two_programs());
  scene.come_up(1);
  std::uint64_t id = 1;
  while (scene.world.workers.size() < 1 + limits::device_losses + 1) {
    scene.lease(++id, {.device = 0, .task = "see"});
    scene.core->worker_exited(scene.world.workers.back().number, "could not open its device");
    REQUIRE(id < 10);
  }
  CHECK(scene.world.faults.empty());
}

TEST_CASE("a machine without room for another process costs no device and no program") {
  for (const int devices : {0, 1, 8}) {
    Scene scene{programs({program("vision", {"see"})}), devices};
    scene.world.refuses_workers = Errc::unavailable;
    for (std::uint64_t id = 1; id <= 2 * limits::device_losses; ++id) {
      scene.lease(id, {.device = devices - 1, .task = "see"});
      scene.pass(std::chrono::milliseconds{100});
      CHECK(scene.end_of(id) != nullptr);
    }
    CHECK(scene.world.faults.empty());
    CHECK(scene.world.programs.empty());
    CHECK(scene.world.workers.size() == 2 * limits::device_losses);
  }
}

TEST_CASE("a program whose file is gone loses its types, and takes no device along") {
  Scene scene{programs({program("vision", {"see"})}), 8};
  // Where it has come up on another device, that would be to blame for a process that does not come up.
  scene.lease(1, {.device = 0, .task = "see"});
  scene.come_up(1);
  scene.world.refuses_workers = Errc::invalid_argument;
  for (std::uint64_t id = 2; id <= 1 + limits::device_losses; ++id) {
    CHECK(scene.world.programs.empty());
    scene.lease(id, {.device = static_cast<int>(id), .task = "see"});
    scene.pass({});
  }
  CHECK(scene.world.faults.empty());
  REQUIRE(scene.world.programs.size() == 1);
  CHECK(scene.world.programs[0].types().tasks().empty());
}

TEST_CASE("a program whose trial could not be started is tried again") {
  Scene scene{programs({program("vision", {"see"})})};
  const auto fail_on_first = [&](std::uint64_t id) {
    scene.lease(id, {.device = 0, .task = "see"});
    scene.core->worker_exited(scene.world.workers.back().number, "did not find its library");
  };
  for (std::uint64_t id = 1; id < limits::device_losses; ++id)
    fail_on_first(id);
  scene.lease(10, {.device = 0, .task = "see"});
  const auto last = scene.world.workers.back().number;
  scene.world.refuses_workers = Errc::unavailable;
  scene.core->worker_exited(last, "did not find its library");
  CHECK(scene.world.workers.back().purpose == "device 1");
  scene.pass({});
  CHECK(scene.world.programs.empty());
  scene.world.refuses_workers.reset();
  fail_on_first(11);
  CHECK(scene.world.workers.back().purpose == "device 1");
  scene.core->worker_exited(scene.world.workers.back().number, "did not find its library");
  CHECK(scene.world.faults.empty());
  CHECK(scene.world.programs.size() == 1);
}

// -- who is to blame ------------------------------------------------------------------------------

namespace {

using Verdict = StartBlame::Verdict;

/// So many failures of a program on a device. @returns the last verdict.
StartBlame::Judged fail(StartBlame& blame, std::size_t program, StartBlame::Device device,
                        const std::vector<int>& others, int times = 3, std::chrono::minutes at = {}) {
  StartBlame::Judged judged;
  for (int i = 0; i < times; ++i)
    judged = blame.failed(program, device, others, TimePoint{} + at);
  return judged;
}

} // namespace

TEST_CASE("a device that breaks after it has served is to blame where the program lives on others") {
  StartBlame blame;
  CHECK(blame.came_up(0, 0).empty());
  CHECK(blame.came_up(0, 1).empty());
  CHECK(fail(blame, 0, 1, {0}, 2).verdict == Verdict::none);
  CHECK(fail(blame, 0, 1, {0}, 1).verdict == Verdict::device);
}

TEST_CASE("a device on which two programs do not come up is to blame") {
  StartBlame blame;
  CHECK(fail(blame, 0, 0, {1}).verdict == Verdict::trial);
  CHECK(fail(blame, 1, 0, {1}).verdict == Verdict::device);
}

TEST_CASE("a program with nowhere else to be tried is to blame, and so is one without a device") {
  StartBlame blame;
  CHECK(fail(blame, 0, 0, {}).verdict == Verdict::program);
  CHECK(fail(blame, 1, std::nullopt, {}).verdict == Verdict::program);
  // That it comes up without a device says nothing of its devices.
  CHECK(blame.came_up(2, std::nullopt).empty());
  CHECK(fail(blame, 2, 1, {}).verdict == Verdict::program);
}

TEST_CASE("a program whose trial nothing can come of any more is tried on another device") {
  StartBlame blame;
  CHECK(fail(blame, 0, 0, {1, 2}).trial == 1);
  CHECK(fail(blame, 0, 0, {1, 2}).verdict == Verdict::none);
  // The device of the trial is out of use, and with it the worker that was to tell.
  const auto judged = fail(blame, 0, 0, {2}, 1);
  CHECK(judged.verdict == Verdict::trial);
  CHECK(judged.trial == 2);
  CHECK(fail(blame, 0, 2, {0}, 1).verdict == Verdict::program);
}

TEST_CASE("failures that are far apart, or with a success between them, are no strike") {
  StartBlame blame;
  CHECK(fail(blame, 0, 0, {}, 2).verdict == Verdict::none);
  CHECK(blame.came_up(0, 0).empty());
  CHECK(fail(blame, 0, 0, {}, 2).verdict == Verdict::none);
  CHECK(fail(blame, 0, 0, {}, 1, limits::device_loss_window + std::chrono::minutes{1}).verdict == Verdict::none);
}
