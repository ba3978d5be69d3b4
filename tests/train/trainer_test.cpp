// A trainer in an embedded cluster: what it learns, keeps, and goes on from.
#include "lessons.hpp"

#include <apps/train/jobs.hpp>
#include <support/eventually.hpp>
#include <support/temporary_folder.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace train::test {

using namespace std::chrono_literals;
using google::protobuf::Empty;
using gpuactors::Errc;
using gpuactors::test::eventually;
using gpuactors::test::TemporaryFolder;

namespace {

/// Epochs that no test gets to the end of.
constexpr std::uint64_t for_ever = 1'000'000'000;

Path path_of(const std::filesystem::path& path) {
  Path message;
  message.set_path(path.string());
  return message;
}

} // namespace

TEST_CASE("a trainer learns what can be learnt, and tells of each step", "[train]") {
  auto cluster = embed();
  const auto lesson = make_lesson(cluster, make_table(500, 12, 4, 1));
  auto trainer = must(cluster.spawn("trainer", lesson.plan, half()));
  std::uint64_t told = 0;
  Watcher watcher;
  watcher.progress = [&](const Progress& progress, const Outcome&) {
    told += static_cast<std::uint64_t>(progress.losses_size());
    CHECK(progress.steps() == told);
  };
  const auto outcome = must(follow(trainer, 20, watcher));
  CHECK(outcome.status.train_rows() == 400);
  CHECK(outcome.steps_per_epoch == 25);
  CHECK(outcome.losses.size() == 500);
  CHECK(outcome.rows == 20 * 400);
  CHECK(outcome.losses.front() > 1);
  CHECK(outcome.last_loss() < 0.1);
  CHECK(outcome.quality.accuracy() > 0.95);
  CHECK(outcome.quality.rows() == 100);
  CHECK(outcome.status.device() == "host 0, share 0.5");
  // It is where it was asked to be: there is nothing left to do.
  CHECK(must(follow(trainer, 20, {})).losses.empty());
}

TEST_CASE("a trainer says how far it is while it trains", "[train]") {
  auto cluster = embed();
  const auto lesson = make_lesson(cluster, make_table(500, 12, 4, 1));
  auto trainer = must(cluster.spawn("trainer", lesson.plan, half()));
  CHECK(must(trainer.call<Status>("status").get()).steps() == 0);
  RunRequest request;
  request.set_epochs(for_ever);
  auto events = trainer.stream<Progress>("run", request);
  const auto progress = must(events.next());
  REQUIRE(progress.has_value());
  const auto status = must(trainer.call<Status>("status").get());
  CHECK(status.steps() >= progress->steps());
  CHECK(status.train_rows() == 400);
  CHECK(must(events.next()).has_value());
}

TEST_CASE("a trainer publishes its loss, and how far it is", "[train]") {
  auto cluster = embed();
  const auto lesson = make_lesson(cluster, make_table(500, 12, 4, 1));
  auto trainer = must(cluster.spawn("trainer", lesson.plan, half()));
  const auto outcome = must(follow(trainer, 3, {}));
  const auto published = [&] {
    const auto state = must(cluster.state());
    std::map<std::string, double> values;
    for (const auto& metric : state.actors(0).metrics())
      values[metric.name()] = metric.value();
    return values;
  };
  const std::map<std::string, double> expected{{"train_epochs", 3},
                                               {"train_loss", outcome.losses.back()},
                                               {"train_rows_total", 3 * 400},
                                               {"train_steps_total", 3 * 25}};
  CHECK(eventually([&] { return published()["train_steps_total"] == 3 * 25; }));
  CHECK(published() == expected);
}

TEST_CASE("what was stopped goes on bit for bit", "[train]") {
  auto cluster = embed();
  const TemporaryFolder folder;
  const auto table = make_table(330, 12, 4, 1);
  for (const auto* optimizer : {"sgd", "adam"}) {
    auto lesson = make_lesson(cluster, table);
    lesson.plan.set_optimizer(optimizer);
    lesson.plan.set_rate(0.01);
    const auto train = [&](Plan plan, std::uint64_t epochs, const std::string& name, std::uint64_t stop_after) {
      plan.set_checkpoint((folder / name).string());
      plan.set_checkpoint_epochs(1); // which keeps it from being far ahead of what is told
      auto trainer = must(cluster.spawn("trainer", plan, half()));
      Watcher watcher;
      std::uint64_t steps = 0;
      watcher.progress = [&](const Progress& progress, const Outcome&) { steps = progress.steps(); };
      watcher.stop = [&] { return stop_after != 0 && steps >= stop_after; };
      const auto outcome = must(follow(trainer, epochs, watcher));
      must(cluster.kill(trainer));
      return outcome;
    };
    const auto whole = train(lesson.plan, 40, "whole", 0);
    std::filesystem::remove(folder / "part");
    // In pieces: saved wherever it is when it hears of it, and resumed.
    const auto first = train(lesson.plan, 40, "part", 1);
    CHECK(first.stopped);
    CHECK(first.status.steps() < whole.losses.size());
    CHECK(first.losses.size() == first.status.steps());
    lesson.plan.set_resume(true);
    const auto second = train(lesson.plan, 40, "part", 0);
    CHECK(second.first_step == first.status.steps());
    CHECK(std::equal(second.losses.begin(), second.losses.end(),
                     whole.losses.begin() + static_cast<std::ptrdiff_t>(second.first_step)));
    CHECK(read_text(folder / "part") == read_text(folder / "whole"));
  }
}

TEST_CASE("a training that is stopped, or whose trainer is moved, knows the loss of each step that it keeps",
          "[train]") {
  auto cluster = embed();
  const TemporaryFolder folder;
  auto lesson = make_lesson(cluster, make_table(500, 12, 4, 1));
  lesson.plan.set_checkpoint((folder / "net").string());
  lesson.plan.set_checkpoint_epochs(for_ever); // a stop alone has it write
  for (const bool moved : {false, true}) {
    auto options = half();
    options.max_restarts = 1;
    auto trainer = must(cluster.spawn("trainer", lesson.plan, options));
    bool told = false;
    bool back = false;
    Watcher watcher;
    watcher.progress = [&](const Progress&, const Outcome&) {
      if (!std::exchange(told, true) && moved)
        must(cluster.kill(trainer, {.restart = true})); // as a node does that is emptied
    };
    watcher.notice = [&](std::string_view text) {
      back = back || text.find("is back on node") != std::string_view::npos;
    };
    watcher.stop = [&] { return moved ? back : told; };
    const auto outcome = must(follow(trainer, for_ever, watcher));
    CHECK(outcome.stopped);
    CHECK(outcome.status.restarts() == (moved ? 1 : 0));
    CHECK(outcome.losses.size() == outcome.status.steps());
    CHECK(outcome.epochs.size() == outcome.status.steps());
    CHECK(std::none_of(outcome.losses.begin(), outcome.losses.end(), [](double loss) { return std::isnan(loss); }));
    must(cluster.kill(trainer));
  }
}

TEST_CASE("a trainer that is ended while it learns writes how far it is", "[train]") {
  auto cluster = embed();
  const TemporaryFolder folder;
  auto lesson = make_lesson(cluster, make_table(500, 12, 4, 1));
  lesson.plan.set_checkpoint((folder / "net").string());
  lesson.plan.set_checkpoint_epochs(for_ever);
  auto trainer = must(cluster.spawn("trainer", lesson.plan, half()));
  RunRequest request;
  request.set_epochs(2 * for_ever);
  auto events = trainer.stream<Progress>("run", request);
  std::uint64_t told = 0;
  for (int i = 0; i < 3; ++i)
    told = must(events.next()).value().steps();
  must(cluster.kill(trainer)); // as a node does that is emptied
  CHECK(std::filesystem::exists(folder / "net"));
  lesson.plan.set_resume(true);
  auto next = must(cluster.spawn("trainer", lesson.plan, half()));
  CHECK(must(next.call<Status>("status").get()).steps() >= told);
}

TEST_CASE("a training that has diverged fails, and the checkpoint before it stays", "[train]") {
  auto cluster = embed();
  const TemporaryFolder folder;
  auto lesson = make_lesson(cluster, make_table(200, 6, 2, 1));
  auto& plan = lesson.plan;
  plan.set_activation("identity"); // behind which gradients grow without bounds
  plan.set_checkpoint((folder / "net").string());
  plan.set_checkpoint_epochs(100);
  for (const bool wide : {false, true}) {
    plan.set_wide(wide);
    plan.set_rate(0.05);
    auto trainer = must(cluster.spawn("trainer", plan, half()));
    must(follow(trainer, 1, {}));
    must(cluster.kill(trainer));
    const auto good = read_text(folder / "net");
    plan.set_rate(9e5);
    trainer = must(cluster.spawn("trainer", plan, half()));
    const auto outcome = follow(trainer, 100, {});
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code() == Errc::task_failed);
    CHECK(says(outcome.error(), "no finite number any more, and is not saved"));
    CHECK(trainer.call<Status>("stop").get().error().code() == Errc::task_failed);
    CHECK(read_text(folder / "net") == good);
    must(cluster.kill(trainer));
  }
}

TEST_CASE("save, load, step and evaluate work on what the trainer keeps", "[train]") {
  auto cluster = embed();
  const TemporaryFolder folder;
  const auto table = make_table(200, 6, 2, 1);
  const auto lesson = make_lesson(cluster, table);
  auto trainer = must(cluster.spawn("trainer", lesson.plan, half()));
  const auto before = must(trainer.call<Evaluation>("evaluate").get());
  must(trainer.call<Status>("save", path_of(folder / "begin")).get());
  Rows rows;
  rows.mutable_features()->Add(table.features.begin(), table.features.begin() + 60);
  rows.mutable_labels()->Add(table.labels.begin(), table.labels.begin() + 10);
  double loss = must(trainer.call<Loss>("step", rows).get()).loss();
  for (int i = 0; i < 50; ++i) {
    const auto next = must(trainer.call<Loss>("step", rows).get()).loss();
    CHECK(std::isfinite(next));
    loss = std::min(loss, next);
  }
  CHECK(loss < 0.2);
  CHECK(must(trainer.call<Status>("status").get()).steps() == 51);
  CHECK(must(trainer.call<Evaluation>("evaluate").get()).loss() < before.loss());
  CHECK(must(trainer.call<Status>("load", path_of(folder / "begin")).get()).steps() == 0);
  CHECK(must(trainer.call<Evaluation>("evaluate").get()).loss() == before.loss());

  rows.add_labels(0);
  CHECK(says(trainer.call<Loss>("step", rows).get().error(), "not 60 numbers and 11 labels"));
  rows.mutable_labels()->RemoveLast();
  rows.set_labels(0, 7);
  CHECK(says(trainer.call<Loss>("step", rows).get().error(), "there is a label 7, but the network has 2 outputs"));
  CHECK(says(trainer.call<Status>("save", Path{}).get().error(), "the plan has no checkpoint"));
  CHECK(trainer.call<Status>("load", path_of(folder / "none")).get().error().code() == Errc::not_found);
  CHECK(must(trainer.call<Status>("stop").get()).steps() == 0);
}

TEST_CASE("a plan that does not fit is refused before anything is learnt", "[train]") {
  auto cluster = embed();
  const TemporaryFolder folder;
  const auto lesson = make_lesson(cluster, make_table(50, 6, 3, 1));
  const auto refusal = [&](const Plan& plan, const gpuactors::Options& options = half()) {
    const auto trainer = cluster.spawn("trainer", plan, options);
    REQUIRE_FALSE(trainer);
    return trainer.error();
  };
  auto plan = lesson.plan;
  plan.set_sizes(0, 7);
  CHECK(says(refusal(plan), "the network has 7 inputs and the data have 50 rows of 6 numbers"));
  plan = lesson.plan;
  plan.set_sizes(2, 2);
  CHECK(says(refusal(plan), "there is a label 2, but the network has 2 outputs"));
  plan = lesson.plan;
  plan.set_optimizer("newton");
  CHECK(says(refusal(plan), "there is no optimizer \"newton\""));
  plan = lesson.plan;
  plan.set_batch(0);
  CHECK(says(refusal(plan), "a batch has at least 1 row, not 0"));
  plan = lesson.plan;
  plan.set_resume(true);
  plan.set_checkpoint((folder / "none").string());
  CHECK(says(refusal(plan), "No such file"));
  CHECK(says(refusal(lesson.plan, {}), "a trainer needs a device"));
  gpuactors::EmbedOptions two;
  two.devices = "host:2x64MiB";
  auto larger = must(gpuactors::Cluster::embed(std::move(two)));
  const auto there = make_lesson(larger, make_table(50, 6, 3, 1));
  gpuactors::Options both;
  both.gpus = 2;
  CHECK(says(larger.spawn("trainer", there.plan, both), "a trainer uses one device, or a share of one, not 2"));
  // Of other data.
  auto other = make_lesson(cluster, make_table(60, 6, 3, 1));
  auto trainer = must(cluster.spawn("trainer", other.plan, half()));
  must(trainer.call<Status>("save", path_of(folder / "other")).get());
  plan.set_checkpoint((folder / "other").string());
  CHECK(says(refusal(plan), "it is of \"train=48 test=12 split_seed=4 seed=3\", not of \"train=40 test=10"));
}

TEST_CASE("a training whose trainer waits for a device to come back on ends when it is told to stop", "[train]") {
  auto cluster = embed();
  const auto lesson = make_lesson(cluster, make_table(500, 12, 4, 1));
  gpuactors::Options whole;
  whole.gpus = 1;
  whole.max_restarts = 1;
  auto trainer = must(cluster.spawn("trainer", lesson.plan, whole));
  std::optional<gpuactors::Future<gpuactors::ActorRef>> other;
  Watcher watcher;
  std::size_t known = 0;
  watcher.progress = [&](const Progress&, const Outcome&) {
    if (other)
      return;
    // It waits for the device already, and gets it before the one that dies.
    other = cluster.spawn_async("trainer", lesson.plan, whole);
    must(cluster.kill(trainer, {.restart = true}));
  };
  // Also before it is known here that the trainer died, or that it is not back at once.
  const bool at_once = GENERATE(false, true);
  watcher.stop = [&] { return other && (at_once || other->ready()); };
  watcher.fails = [&](const Outcome& so_far) { known = so_far.losses.size(); };
  const auto outcome = follow(trainer, 1'000'000, watcher);
  REQUIRE_FALSE(outcome);
  CHECK(says(outcome.error(), "stopped while the trainer was away"));
  CHECK(known > 0);
  must(cluster.kill(trainer));
  if (at_once)
    other->cancel();
}

TEST_CASE("a trainer that waits long for a device to come back on is waited for", "[train]") {
  auto cluster = embed();
  const auto lesson = make_lesson(cluster, make_table(500, 12, 4, 1));
  gpuactors::Options whole;
  whole.gpus = 1;
  whole.max_restarts = 1;
  auto trainer = must(cluster.spawn("trainer", lesson.plan, whole));
  std::optional<gpuactors::Future<gpuactors::ActorRef>> other;
  int questions = 0;
  Watcher watcher;
  watcher.progress = [&](const Progress&, const Outcome&) {
    if (other)
      return;
    other = cluster.spawn_async("trainer", lesson.plan, whole);
    must(cluster.kill(trainer, {.restart = true}));
  };
  // Asked between the questions: the device is free again after many of them went without an answer.
  watcher.stop = [&] {
    if (other && other->valid() && other->ready() && ++questions == 20)
      must(cluster.kill(must(other->get())));
    return false;
  };
  const auto outcome = must(follow(trainer, 3, watcher, {.question = std::chrono::milliseconds{1}}));
  CHECK(outcome.status.restarts() == 1);
  CHECK(outcome.status.epochs() == 3);
  must(cluster.kill(trainer));
}

TEST_CASE("of several trainings as many run as fit, the others wait for their turn", "[train]") {
  auto cluster = embed();
  const auto lesson = make_lesson(cluster, make_table(200, 6, 2, 1));
  std::vector<Plan> plans(7, lesson.plan);
  for (std::size_t i = 0; i < plans.size(); ++i)
    plans[i].set_rate(i == 3 ? -1 : 0.01 * static_cast<double>(i + 1));
  std::size_t most = 0;
  JobCounts last;
  JobWatcher watcher;
  watcher.changed = [&](const JobCounts& counts) {
    most = std::max(most, counts.running);
    last = counts;
  };
  const auto results = run_jobs(cluster, plans, half(), 5, watcher);
  REQUIRE(results.size() == 7);
  CHECK(most <= 2);
  CHECK(last.done == 6);
  for (std::size_t i = 0; i < results.size(); ++i)
    CHECK(results[i].has_value() == (i != 3));
  CHECK(says(results[3].error(), "the rate of learning is above 0"));
  CHECK(must(results[6]).last_loss() < must(results[0]).last_loss());
  CHECK(must(cluster.state()).leases().empty());

  watcher.stop = [] { return true; };
  for (const auto& result : run_jobs(cluster, plans, half(), 5, watcher))
    CHECK(result.error().code() == Errc::cancelled);
}

} // namespace train::test
