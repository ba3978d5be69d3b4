// Training in a cluster of processes whose workers and nodes are killed: the network that comes out is the same.
#include "lessons.hpp"

#include <apps/train/group.hpp>

#include <processes/fixture.hpp>

#include <cmath>
#include <csignal>
#include <string>
#include <vector>

namespace train::test {

using gpuactors::test::eventually;
using gpuactors::test::Processes;
using gpuactors::test::TemporaryFolder;

namespace {

constexpr auto devices = "host:1x256MiB";

/// Whether two curves are one, but for steps that nobody was told of.
bool same_where_known(const std::vector<double>& actual, const std::vector<double>& expected) {
  if (actual.size() != expected.size())
    return false;
  std::size_t unknown = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    unknown += std::isnan(actual[i]) ? 1 : 0;
    if (!std::isnan(actual[i]) && actual[i] != expected[i])
      return false;
  }
  return 2 * unknown < actual.size();
}

/// Trains and calls `hurt` once, as soon as `after` steps are known; the trainer is then in the middle of its work, as
/// it cannot be further ahead than the window of its stream.
Outcome train_hurt(gpuactors::Cluster& cluster, const Plan& plan, std::uint64_t epochs, std::uint64_t after,
                   const std::function<void(const gpuactors::ActorRef&)>& hurt) {
  auto options = half();
  options.max_restarts = 5;
  auto trainer = must(cluster.spawn("trainer", plan, options));
  bool hurt_already = false;
  Watcher watcher;
  watcher.progress = [&](const Progress& progress, const Outcome&) {
    if (hurt_already || after == 0 || progress.steps() < after)
      return;
    hurt_already = true;
    hurt(trainer);
  };
  auto outcome = must(follow(trainer, epochs, watcher));
  CHECK(hurt_already == (after != 0));
  must(cluster.kill(trainer));
  return outcome;
}

} // namespace

TEST_CASE("a trainer whose worker or node is killed ends with the same network, bit for bit", "[train]") {
  Processes processes;
  const TemporaryFolder folder;
  processes.start_broker();
  processes.start_node("n0", devices);
  auto cluster = processes.connect();
  auto lesson = make_lesson(cluster, make_table(400, 16, 4, 1));
  lesson.plan.set_batch(4); // 80 steps an epoch
  constexpr std::uint64_t epochs = 60;
  const auto plan_for = [&](const char* name) {
    auto plan = lesson.plan;
    plan.set_checkpoint((folder / name).string());
    return plan;
  };
  const auto whole = train_hurt(cluster, plan_for("whole"), epochs, 0, {});
  CHECK(whole.losses.size() == epochs * 80);
  const auto expected = read_text(folder / "whole");

  // The worker: before the first checkpoint is known to be safe, and later.
  for (const std::uint64_t after : {1, 500}) {
    const auto name = after == 1 ? "early" : "late";
    const auto hurt = train_hurt(cluster, plan_for(name), epochs, after, [&](const gpuactors::ActorRef& trainer) {
      Processes::signal(static_cast<pid_t>(trainer.info().pid()), SIGKILL);
    });
    CHECK(hurt.status.restarts() >= 1);
    CHECK(same_where_known(hurt.losses, whole.losses));
    CHECK(read_text(folder / name) == expected);
  }

  // The whole node: it goes on elsewhere.
  processes.start_node("n1", devices);
  std::string before;
  const auto moved = train_hurt(cluster, plan_for("moved"), epochs, 500, [&](const gpuactors::ActorRef& trainer) {
    before = trainer.info().lease().node();
    processes.signal(before, SIGKILL);
  });
  CHECK(moved.status.node() != before);
  CHECK(same_where_known(moved.losses, whole.losses));
  CHECK(read_text(folder / "moved") == expected);
}

TEST_CASE("a group that shrinks survives the death of a node, and takes no device in its place", "[train]") {
  Processes processes;
  processes.start_broker();
  auto cluster = processes.connect();
  const auto lesson = make_lesson(cluster, make_table(400, 16, 4, 1));
  GroupSpec spec;
  spec.plan = lesson.plan;
  spec.workers = 2;
  spec.epochs = 30;
  spec.on_loss = OnLoss::shrink;
  spec.options.gpus = 1;
  // First there is no device that could take the place of the lost one, then one.
  for (const auto& nodes : {std::vector{"n0", "n1"}, std::vector{"n2", "n3"}}) {
    for (const auto* name : nodes)
      processes.start_node(name, devices);
    bool killed = false;
    std::int64_t free = 0;
    Watcher watcher;
    watcher.progress = [&](const Progress& progress, const Outcome&) {
      const auto state = must(cluster.state());
      free = 0;
      for (const auto& device : state.devices())
        free += device.free_units();
      if (killed || progress.epochs() < 3)
        return;
      killed = true;
      for (const auto& actor : state.actors())
        if (actor.name().ends_with("-1"))
          processes.signal(actor.lease().node(), SIGKILL);
    };
    const auto group = must(train_group(cluster, spec, watcher));
    CHECK(killed);
    CHECK(group.workers == 1);
    CHECK(free == (nodes.front() == std::string{"n0"} ? 0 : 10'000));
    CHECK(group.outcome.losses.size() == 3 * 10 + 27 * 20);
    CHECK(eventually([&] { return must(cluster.state()).leases().empty(); }));
  }
}

TEST_CASE("a group survives the death of a worker's process, or ends with it, as it is told", "[train]") {
  Processes processes;
  processes.start_broker();
  processes.start_node("n0", devices);
  processes.start_node("n1", devices);
  auto cluster = processes.connect();
  auto lesson = make_lesson(cluster, make_table(400, 16, 4, 1));
  for (const auto on_loss : {OnLoss::shrink, OnLoss::stop}) {
    GroupSpec spec;
    spec.plan = lesson.plan;
    spec.workers = 2;
    spec.epochs = 30;
    spec.on_loss = on_loss;
    spec.options.gpus = 1; // one on each node
    bool killed = false;
    Watcher watcher;
    watcher.progress = [&](const Progress& progress, const Outcome&) {
      if (killed || progress.epochs() < 3)
        return;
      killed = true;
      const auto state = must(cluster.state());
      for (const auto& actor : state.actors())
        if (actor.name().ends_with("-1"))
          Processes::signal(static_cast<pid_t>(actor.pid()), SIGKILL);
    };
    const auto group = train_group(cluster, spec, watcher);
    CHECK(killed);
    if (on_loss == OnLoss::stop) {
      REQUIRE_FALSE(group);
      CHECK(says(group.error(), "worker 1 of 2 was lost in epoch 4, and the group stops"));
    } else {
      const auto outcome = must(group);
      CHECK(outcome.workers == 1);
      CHECK(outcome.outcome.quality.accuracy() > 0.9);
      // 320 rows: 10 steps of 32 in the first epochs, 20 of 16 afterwards.
      CHECK(outcome.outcome.losses.size() == 3 * 10 + 27 * 20);
    }
    CHECK(eventually([&] { return must(cluster.state()).leases().empty(); }));
  }
}

TEST_CASE(
    "a group that restarts its workers ends with the same network, bit for bit, when one's process or node is killed",
    "[train]") {
  Processes processes;
  const TemporaryFolder folder;
  processes.start_broker();
  for (const auto* name : {"n0", "n1"})
    processes.start_node(name, devices);
  auto cluster = processes.connect();
  auto lesson = make_lesson(cluster, make_table(400, 16, 4, 1));
  lesson.plan.set_momentum(0.9);
  GroupSpec spec;
  spec.workers = 2;
  spec.epochs = 200;
  spec.on_loss = OnLoss::restart;
  spec.options.gpus = 1; // one on each node
  spec.options.max_restarts = 2;
  std::string expected;
  for (const auto* hurt : {"nothing", "process", "node"}) {
    spec.plan = lesson.plan;
    spec.plan.set_checkpoint((folder / hurt).string());
    spec.plan.set_checkpoint_epochs(50);
    bool killed = hurt == std::string{"nothing"};
    Watcher watcher;
    watcher.progress = [&](const Progress& progress, const Outcome&) {
      // The others are in the middle of their work: not further ahead than the windows of their streams.
      if (std::exchange(killed, killed || progress.epochs() >= 60) || !killed)
        return;
      const auto state = must(cluster.state());
      for (const auto& actor : state.actors()) {
        if (!actor.name().ends_with("-1"))
          continue;
        if (hurt == std::string{"process"})
          return Processes::signal(static_cast<pid_t>(actor.pid()), SIGKILL);
        processes.start_node("n2", devices);
        return processes.signal(actor.lease().node(), SIGKILL);
      }
    };
    const auto group = must(train_group(cluster, spec, watcher));
    CHECK(killed);
    CHECK(group.workers == 2);
    CHECK(group.outcome.losses.size() == spec.epochs * 10);
    if (expected.empty())
      expected = read_text(folder / hurt);
    CHECK(read_text(folder / hurt) == expected);
    CHECK(eventually([&] { return must(cluster.state()).leases().empty(); }));
  }
}

} // namespace train::test
