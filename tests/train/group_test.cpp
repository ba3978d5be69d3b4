// Several workers that train one network: as one with the larger batch, and without those that die.
#include "lessons.hpp"

#include <apps/train/group.hpp>
#include <support/eventually.hpp>
#include <support/temporary_folder.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace train::test {

using gpuactors::Errc;
using gpuactors::test::TemporaryFolder;

TEST_CASE("several workers have the losses of one with as large a batch", "[train]") {
  auto cluster = embed();
  for (const bool wide : {false, true}) {
    auto lesson = make_lesson(cluster, make_table(500, 12, 4, 1));
    auto& plan = lesson.plan;
    plan.set_wide(wide);
    plan.set_momentum(wide ? 0.9 : 0);
    const std::uint64_t epochs = wide ? 120 : 12;
    plan.set_batch(48);
    auto single = must(cluster.spawn("trainer", plan, half()));
    const auto expected = must(follow(single, epochs, {}));
    must(cluster.kill(single));
    for (const std::size_t workers : {2, 3}) {
      plan.set_batch(static_cast<std::int64_t>(48 / workers));
      const auto group = must(train_group(cluster, group_of(workers, plan, epochs), {}));
      const auto& losses = group.outcome.losses;
      CHECK(group.workers == workers);
      CHECK(losses.size() == epochs * 9);
      CHECK(worst_difference(losses, expected.losses, wide ? 1000 : 100) < (wide ? 1e-9 : 1e-6));
      CHECK(group.outcome.rows == expected.rows);
    }
  }
  CHECK(must(cluster.state()).actors().empty());
}

TEST_CASE("more workers than rows in the last batch learn all the same", "[train]") {
  auto cluster = embed();
  // 41 rows to learn from: batches of 20, 20 and 1 for four workers of 5 rows.
  auto lesson = make_lesson(cluster, make_table(51, 4, 3, 1));
  lesson.plan.set_batch(5);
  const auto group = must(train_group(cluster, group_of(4, lesson.plan, 3), {}));
  CHECK(group.outcome.losses.size() == 9);
  CHECK(group.outcome.rows == 3 * 41);
}

TEST_CASE("a group shrinks when a member dies, and goes on from the beginning of the epoch", "[train]") {
  auto cluster = embed();
  auto lesson = make_lesson(cluster, make_table(400, 12, 4, 1));
  const TemporaryFolder folder;
  lesson.plan.set_checkpoint((folder / "group").string());
  for (const std::size_t rank : {0, 2}) {
    auto spec = group_of(3, lesson.plan, 6);
    spec.on_loss = OnLoss::shrink;
    std::string notice;
    auto watcher = killer(cluster, rank);
    watcher.notice = [&](std::string_view text) { notice = text; };
    std::int64_t free = 0;
    watcher.progress = [&, kill = watcher.progress](const Progress& progress, const Outcome& so_far) {
      kill(progress, so_far);
      free = must(cluster.state()).devices(0).free_units();
    };
    const auto group = must(train_group(cluster, spec, watcher));
    CHECK(group.workers == 2);
    CHECK(free == 5'000); // the dead one's quarter is there for others
    // 320 rows: 7 steps of 48 in the first epoch, 10 of 32 in the others.
    CHECK(group.outcome.losses.size() == 7 + 5 * 10);
    std::vector<std::uint64_t> epochs(7, 1);
    for (std::uint64_t epoch = 2; epoch <= 6; ++epoch)
      epochs.insert(epochs.end(), 10, epoch);
    CHECK(group.outcome.epochs == epochs);
    CHECK(group.outcome.quality.accuracy() > 0.9);
    CHECK(notice.find("worker " + std::to_string(rank) + " of 3 was lost in epoch 2") == 0);
    CHECK(std::filesystem::exists(folder / "group"));
  }
  CHECK(must(cluster.state()).actors().empty());
}

TEST_CASE("a group is evaluated by those that live, when the first one dies at the end", "[train]") {
  auto cluster = embed();
  const auto lesson = make_lesson(cluster, make_table(400, 12, 4, 1));
  auto spec = group_of(3, lesson.plan, 1);
  spec.on_loss = OnLoss::shrink;
  auto watcher = killer(cluster, 0);
  std::string notice;
  watcher.notice = [&](std::string_view text) { notice = text; };
  const auto group = must(train_group(cluster, spec, watcher));
  CHECK(group.workers == 2);
  CHECK(group.outcome.quality.rows() == 80);
  CHECK(notice.find("worker 0 of 3 was lost after the last epoch") == 0);
}

TEST_CASE("a group that is told to stop gives the epoch under way up, and goes on from its beginning", "[train]") {
  auto cluster = embed();
  const TemporaryFolder folder;
  auto lesson = make_lesson(cluster, make_table(400, 12, 4, 1));
  auto& plan = lesson.plan;
  plan.set_checkpoint((folder / "whole").string());
  must(train_group(cluster, group_of(2, plan, 3), {}));
  plan.set_checkpoint((folder / "part").string());
  Watcher watcher;
  int told = 0;
  int asked = 0;
  watcher.progress = [&](const Progress&, const Outcome&) { ++told; };
  // Not at the end of the first epoch, but in the second one.
  watcher.stop = [&] { return told > 0 && ++asked > 1; };
  const auto stopped = must(train_group(cluster, group_of(2, plan, 3), watcher));
  CHECK(told == 1);
  CHECK(stopped.outcome.stopped);
  CHECK(stopped.outcome.losses.size() == 10);
  CHECK(stopped.outcome.status.epochs() == 1);
  plan.set_resume(true);
  must(train_group(cluster, group_of(2, plan, 3), {}));
  CHECK(read_text(folder / "part") == read_text(folder / "whole"));
}

TEST_CASE("a member that is alone leaves in the middle of an epoch", "[train]") {
  auto cluster = embed();
  auto lesson = make_lesson(cluster, make_table(40'000, 12, 4, 1));
  lesson.plan.set_batch(1);
  const auto member = must(cluster.spawn("train_member", lesson.plan, half()));
  Places places;
  places.set_members(1);
  auto group = must(gpuactors::form_collective({member}));
  must(member.call<Status>("join", places).get());
  auto epoch = member.call<Progress>("epoch", google::protobuf::Empty{}, gpuactors::Duration::max());
  // It says how far it is meanwhile.
  CHECK(gpuactors::test::eventually([&] { return must(member.call<Status>("status").get()).position() > 0; }));
  group.abort("it is given up");
  must(member.call("leave", google::protobuf::Empty{}).get());
  const auto left = epoch.get();
  REQUIRE_FALSE(left);
  CHECK(left.error().code() == Errc::cancelled);
  // It can begin again.
  must(gpuactors::form_collective({member}));
  CHECK(must(member.call<Status>("join", places).get()).steps() == 0);
}

TEST_CASE("a group that has diverged fails, and the checkpoint before it stays", "[train]") {
  auto cluster = embed();
  const TemporaryFolder folder;
  auto lesson = make_lesson(cluster, make_table(400, 12, 4, 1));
  auto& plan = lesson.plan;
  plan.set_activation("identity"); // behind which gradients grow without bounds
  plan.set_checkpoint((folder / "group").string());
  plan.set_checkpoint_epochs(100);
  must(train_group(cluster, group_of(2, plan, 1), {}));
  const auto good = read_text(folder / "group");
  plan.set_rate(9e5);
  const auto group = train_group(cluster, group_of(2, plan, 100), {});
  REQUIRE_FALSE(group);
  CHECK(group.error().code() == Errc::task_failed);
  CHECK(says(group.error(), "no finite number any more"));
  CHECK(read_text(folder / "group") == good);
}

TEST_CASE("a group that waits for devices keeps its place in the queue", "[train]") {
  auto cluster = embed();
  const auto lesson = make_lesson(cluster, make_table(100, 12, 4, 1));
  gpuactors::Options whole;
  whole.gpus = 1;
  auto holder = must(cluster.spawn("trainer", lesson.plan, whole));
  std::optional<gpuactors::Future<gpuactors::ActorRef>> younger;
  bool learns = false;
  Watcher watcher;
  watcher.notice = [&](std::string_view) { must(cluster.kill(holder)); };
  watcher.progress = [&](const Progress&, const Outcome&) { learns = true; };
  watcher.stop = [&] {
    if (!younger)
      younger = cluster.spawn_async("trainer", lesson.plan, whole);
    return younger->ready() && !learns;
  };
  CHECK(must(train_group(cluster, group_of(2, lesson.plan, 1), watcher)).workers == 2);
  must(cluster.kill(must(younger->get())));
}

TEST_CASE("a group stops when a member dies, with its name and without a trace", "[train]") {
  auto cluster = embed();
  const auto lesson = make_lesson(cluster, make_table(400, 12, 4, 1));
  const auto group = train_group(cluster, group_of(3, lesson.plan, 6), killer(cluster, 1));
  REQUIRE_FALSE(group);
  CHECK(says(group.error(), "worker 1 of 3 was lost in epoch 2, and the group stops"));
  CHECK(must(cluster.state()).actors().empty());
}

TEST_CASE("a group that restarts its workers learns what an undisturbed one learns, whoever dies", "[train]") {
  auto cluster = embed();
  const TemporaryFolder folder;
  auto lesson = make_lesson(cluster, make_table(400, 12, 4, 1));
  auto& plan = lesson.plan;
  plan.set_momentum(0.9);
  plan.set_checkpoint((folder / "whole").string());
  constexpr std::uint64_t epochs = 120;
  const auto whole = must(train_group(cluster, group_of(3, plan, epochs), {}));
  for (const std::size_t rank : {0, 2}) {
    plan.set_checkpoint((folder / "hurt").string());
    auto spec = group_of(3, plan, epochs);
    spec.on_loss = OnLoss::restart;
    spec.options.max_restarts = 1;
    auto watcher = killer(cluster, rank);
    std::vector<std::string> notices;
    watcher.notice = [&](std::string_view text) { notices.emplace_back(text); };
    const auto hurt = must(train_group(cluster, spec, watcher));
    REQUIRE(notices.size() == 1);
    CHECK(notices[0].find(fmt::format("worker {} is started anew: rank {} of 3", rank, rank)) == 0);
    CHECK(hurt.workers == 3);
    CHECK(hurt.outcome.losses.size() == whole.outcome.losses.size());
    CHECK(hurt.outcome.epochs == whole.outcome.epochs);
    CHECK(hurt.outcome.quality.accuracy() == whole.outcome.quality.accuracy());
    CHECK(read_text(folder / "hurt") == read_text(folder / "whole"));
  }
  CHECK(gpuactors::test::eventually([&] { return must(cluster.state()).actors().empty(); }));
}

TEST_CASE("a group whose workers all die goes on from its checkpoint, or starts over", "[train]") {
  auto cluster = embed();
  const TemporaryFolder folder;
  auto lesson = make_lesson(cluster, make_table(400, 12, 4, 1));
  auto& plan = lesson.plan;
  plan.set_checkpoint_epochs(4);
  plan.set_checkpoint((folder / "whole").string());
  constexpr std::uint64_t epochs = 120;
  const auto whole = must(train_group(cluster, group_of(2, plan, epochs), {}));
  for (const bool keeps : {true, false}) {
    plan.set_checkpoint(keeps ? (folder / "hurt").string() : std::string{});
    auto spec = group_of(2, plan, epochs);
    spec.on_loss = OnLoss::restart;
    spec.options.max_restarts = 1;
    Watcher watcher;
    std::vector<std::uint64_t> told;
    watcher.progress = [&](const Progress& progress, const Outcome&) {
      told.push_back(progress.epochs());
      if (told.size() != 6)
        return;
      const auto state = must(cluster.state());
      for (const auto& actor : state.actors())
        must(cluster.kill(actor.name()));
    };
    std::size_t before = 0;
    watcher.notice = [&](std::string_view) { before = told.size(); };
    const auto hurt = must(train_group(cluster, spec, watcher));
    REQUIRE(before >= 6);
    REQUIRE(told.size() > before);
    // Members may have been some epochs further when they died: what they had saved counts.
    CHECK((keeps ? told[before] >= 4 : told[before] == 1));
    CHECK(hurt.outcome.status.epochs() == epochs);
    CHECK(hurt.outcome.quality.loss() == whole.outcome.quality.loss());
    CHECK((!keeps || read_text(folder / "hurt") == read_text(folder / "whole")));
  }
}

TEST_CASE("a group that restarts is stopped, resumed, and ends when too many have died", "[train]") {
  auto cluster = embed();
  const TemporaryFolder folder;
  auto lesson = make_lesson(cluster, make_table(400, 12, 4, 1));
  auto& plan = lesson.plan;
  plan.set_checkpoint((folder / "whole").string());
  constexpr std::uint64_t epochs = 120;
  must(train_group(cluster, group_of(2, plan, epochs), {}));
  plan.set_checkpoint((folder / "part").string());
  auto spec = group_of(2, plan, epochs);
  spec.on_loss = OnLoss::restart;
  Watcher watcher;
  bool told = false;
  watcher.progress = [&](const Progress&, const Outcome&) { told = true; };
  watcher.stop = [&] { return told; };
  const auto stopped = must(train_group(cluster, spec, watcher));
  CHECK(stopped.outcome.stopped);
  CHECK(stopped.outcome.status.epochs() >= 1);
  CHECK(stopped.outcome.status.epochs() < epochs);
  spec.plan.set_resume(true);
  const auto resumed = must(train_group(cluster, spec, {}));
  CHECK(resumed.outcome.first_epoch == stopped.outcome.status.epochs());
  CHECK(read_text(folder / "part") == read_text(folder / "whole"));

  spec.plan.clear_resume();
  spec.options.max_restarts = 0;
  const auto failed = train_group(cluster, spec, killer(cluster, 1));
  REQUIRE_FALSE(failed);
  CHECK(says(failed.error(), "rank 1 of 2"));
  CHECK(says(failed.error(), "max_failures is 0"));
}

TEST_CASE("a group goes on from its checkpoint, and so does another number of workers", "[train]") {
  auto cluster = embed();
  const TemporaryFolder folder;
  auto lesson = make_lesson(cluster, make_table(400, 12, 4, 1));
  auto& plan = lesson.plan;
  plan.set_checkpoint((folder / "whole").string());
  must(train_group(cluster, group_of(2, plan, 6), {}));
  plan.set_checkpoint((folder / "part").string());
  const auto part = must(train_group(cluster, group_of(2, plan, 4), {}));
  plan.set_resume(true);
  Watcher watcher;
  double last_loss = 0;
  watcher.begins = [&](const Status& first) -> gpuactors::Result<void> {
    last_loss = first.last_loss();
    return {};
  };
  const auto rest = must(train_group(cluster, group_of(2, plan, 6), watcher));
  CHECK(last_loss == part.outcome.losses.back());
  CHECK(rest.outcome.first_step == 40);
  CHECK(rest.outcome.losses.size() == 20);
  CHECK(read_text(folder / "part") == read_text(folder / "whole"));
  must(train_group(cluster, group_of(3, plan, 8), {}));
}

TEST_CASE("what a group has learnt is told when an error ends it", "[train]") {
  auto cluster = embed();
  const TemporaryFolder folder;
  auto lesson = make_lesson(cluster, make_table(400, 12, 4, 1));
  lesson.plan.set_checkpoint(folder.path().string()); // no file can be there
  lesson.plan.set_checkpoint_epochs(2);
  Watcher watcher;
  std::size_t known = 0;
  watcher.fails = [&](const Outcome& so_far) { known = so_far.losses.size(); };
  CHECK_FALSE(train_group(cluster, group_of(2, lesson.plan, 6), watcher));
  CHECK(known == 20);
}

TEST_CASE("a group whose epochs are too long for a report is refused before it learns", "[train]") {
  auto cluster = embed();
  auto lesson = make_lesson(cluster, make_table(1'060'000, 1, 2, 1), 1);
  lesson.plan.set_batch(1);
  lesson.plan.set_test_part(0);
  const auto member = must(cluster.spawn("train_member", lesson.plan, half()));
  Places places;
  places.set_members(2);
  const auto joined = member.call<Status>("join", places).get();
  REQUIRE_FALSE(joined);
  CHECK(joined.error().code() == Errc::invalid_argument);
  CHECK(says(joined.error(), "an epoch has 530000 steps"));
  CHECK(says(joined.error(), "with a --batch of 2 there are so few"));
  must(cluster.kill(member));
  for (const auto on_loss : {OnLoss::stop, OnLoss::restart}) {
    auto spec = group_of(2, lesson.plan, 1);
    spec.on_loss = on_loss;
    const auto group = train_group(cluster, spec, {});
    REQUIRE_FALSE(group);
    CHECK(says(group.error(), "an epoch has 530000 steps"));
  }
}

TEST_CASE("a group that cannot start whole does not start", "[train]") {
  auto cluster = embed();
  auto lesson = make_lesson(cluster, make_table(100, 12, 4, 1));
  lesson.plan.set_rate(-1);
  CHECK(says(train_group(cluster, group_of(2, lesson.plan, 6), {}).error(), "the rate of learning"));
  CHECK(must(cluster.state()).actors().empty());
}

} // namespace train::test
