// Groups that restart their workers, at the moments where what was learnt, or its checkpoint, could be lost.
#include "lessons.hpp"

#include <apps/train/group.hpp>
#include <support/eventually.hpp>
#include <support/temporary_folder.hpp>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace train::test {

using gpuactors::Errc;
using gpuactors::test::eventually;
using gpuactors::test::TemporaryFolder;

namespace {

constexpr gpuactors::StreamMethod<::train::Lesson, Progress> learn{"learn"};
constexpr std::uint64_t many_epochs = 120;

gpuactors::Options quarter() {
  gpuactors::Options options;
  options.gpus = 0.25;
  return options;
}

GroupSpec restarting(const Plan& plan, std::uint64_t epochs = many_epochs) {
  auto spec = group_of(2, plan, epochs);
  spec.on_loss = OnLoss::restart;
  spec.options.max_restarts = 1;
  return spec;
}

/// Has both learn together, and returns what they have reported last.
std::vector<Progress> teach(const std::vector<gpuactors::ActorRef>& members, std::uint64_t epochs,
                            std::uint64_t begin) {
  must(gpuactors::form_collective(members));
  ::train::Lesson lesson;
  lesson.set_epochs(epochs);
  lesson.set_begin(begin);
  std::vector<gpuactors::StreamReader<Progress>> readers;
  for (const auto& member : members)
    readers.push_back(member.stream(learn, lesson));
  std::vector<Progress> last(members.size());
  for (std::size_t rank = 0; rank < members.size(); ++rank)
    must(readers[rank].for_each([&](const Progress& progress) { last[rank] = progress; }));
  return last;
}

/// Ends the workers of a group whose names end so.
void kill_workers(gpuactors::Cluster& cluster, const std::string& end) {
  const auto state = must(cluster.state());
  for (const auto& actor : state.actors())
    if (actor.name().ends_with(end))
      static_cast<void>(cluster.kill(actor.name()));
}

/// The id of the first worker of a group, once it runs; 0 before.
std::uint64_t first_worker(gpuactors::Cluster& cluster) {
  const auto state = must(cluster.state());
  for (const auto& actor : state.actors())
    if (actor.name().ends_with("-0") && actor.state() == "alive")
      return actor.id();
  return 0;
}

/// Gives what it does not have, up to the parameters of the network.
class Giver : public gpuactors::WithPeers<gpuactors::Actor> {
public:
  using WithPeers::WithPeers;

  gpuactors::Result<void> give(const google::protobuf::Empty&) {
    GPUACTORS_TRY(peers().all_gather(std::vector<std::int64_t>{5}));
    std::vector<double> loss{0.5};
    GPUACTORS_TRY(peers().broadcast(loss));
    std::vector<std::int64_t> counts{5, 50};
    GPUACTORS_TRY(peers().broadcast(counts));
    return peers().barrier();
  }
};

GPUACTORS_ACTOR("giver", Giver).method("give", &Giver::give);

} // namespace

TEST_CASE("the last checkpoint is written, and reported, though its writer died at it", "[train]") {
  auto cluster = embed();
  const TemporaryFolder folder;
  auto lesson = make_lesson(cluster, make_table(400, 12, 4, 1));
  auto& plan = lesson.plan;
  plan.set_checkpoint((folder / "last").string());
  std::vector members{must(cluster.spawn("train_member", plan, quarter())),
                      must(cluster.spawn("train_member", plan, quarter()))};
  const auto learnt = teach(members, 3, 0);
  const auto expected = read_text(folder / "last");
  // As if rank 0 had died before it.
  CHECK(std::filesystem::remove(folder / "last"));
  must(cluster.kill(members[0]));
  members[0] = must(cluster.spawn("train_member", plan, quarter()));
  const auto again = teach(members, 3, 2);
  CHECK(read_text(folder / "last") == expected);
  CHECK(again[0].epochs() == 3);
  CHECK(again[0].steps() == learnt[0].steps());
  // Only the loss of the last batch is known.
  REQUIRE(again[0].losses_size() == 1);
  CHECK(again[0].losses(0) == *learnt[0].losses().rbegin() + *learnt[1].losses().rbegin());
  CHECK(again[1].losses(0) == 0);
  // All have reported it: there is nothing left to do.
  std::filesystem::remove(folder / "last");
  CHECK(teach(members, 3, 3)[0].epochs() == 0);
  CHECK_FALSE(std::filesystem::exists(folder / "last"));
}

TEST_CASE("a worker that has received a part of what was learnt is not taken for one that has it", "[train]") {
  auto cluster = embed();
  const auto lesson = make_lesson(cluster, make_table(400, 12, 4, 1));
  const auto giver = must(cluster.spawn("giver"));
  const auto member = must(cluster.spawn("train_member", lesson.plan, quarter()));
  CHECK(must(member.call<Status>("go_back", google::protobuf::Empty{}).get()).epochs() == 0);
  must(gpuactors::form_collective({giver, member}));
  ::train::Lesson what;
  what.set_epochs(8);
  auto learning = member.stream(learn, what);
  CHECK_FALSE(giver.call("give", google::protobuf::Empty{}).get());
  CHECK_FALSE(learning.for_each([](const Progress&) {}));
  const auto back = member.call<Status>("go_back", google::protobuf::Empty{}).get();
  REQUIRE_FALSE(back);
  CHECK(back.error().code() == Errc::task_failed);
}

TEST_CASE("a group that is stopped while its workers are started anew keeps what was learnt", "[train]") {
  auto cluster = embed();
  const TemporaryFolder folder;
  // Large enough for a stop while it is sent.
  auto lesson = make_lesson(cluster, make_table(400, 12, 4, 1), 512);
  auto& plan = lesson.plan;
  plan.set_checkpoint((folder / "whole").string());
  must(train_group(cluster, group_of(2, plan, many_epochs), {}));
  for (const auto* killed : {"-0", ""}) { // the first one, then all
    plan.set_checkpoint((folder / ("part" + std::string{killed})).string());
    plan.set_resume(false);
    Watcher watcher;
    std::uint64_t told = 0;
    std::uint64_t first = 0;
    bool noticed = false;
    watcher.progress = [&](const Progress& progress, const Outcome&) {
      told = progress.epochs();
      if (told != 3)
        return;
      first = first_worker(cluster);
      kill_workers(cluster, killed);
    };
    watcher.notice = [&](std::string_view) { noticed = true; };
    // As soon as the first one is back, with nothing.
    watcher.stop = [&] {
      return noticed && eventually([&] {
               const auto back = first_worker(cluster);
               return back != 0 && back != first;
             });
    };
    const auto stopped = train_group(cluster, restarting(plan), watcher);
    CHECK(noticed);
    if (!stopped) {
      CHECK(stopped.error().code() == Errc::cancelled);
      CHECK(says(stopped.error(), "the checkpoint stays as it is"));
    } else {
      CHECK(stopped->outcome.stopped);
      CHECK(stopped->outcome.status.epochs() >= told);
    }
    plan.set_resume(true);
    const auto resumed = must(train_group(cluster, restarting(plan), {}));
    CHECK(resumed.outcome.first_epoch >= 3);
    CHECK(read_text(plan.checkpoint()) == read_text(folder / "whole"));
  }
}

TEST_CASE("a group goes on from no checkpoint of another training, though it is to overwrite that", "[train]") {
  auto cluster = embed();
  const TemporaryFolder folder;
  auto lesson = make_lesson(cluster, make_table(400, 12, 4, 1));
  auto& plan = lesson.plan;
  plan.set_checkpoint((folder / "old").string());
  plan.set_checkpoint_epochs(100);
  const auto old = must(train_group(cluster, group_of(2, plan, many_epochs), {}));
  Watcher watcher;
  std::vector<std::uint64_t> told;
  watcher.progress = [&](const Progress& progress, const Outcome&) {
    told.push_back(progress.epochs());
    if (told.size() == 6)
      kill_workers(cluster, "");
  };
  const auto group = must(train_group(cluster, restarting(plan), watcher));
  CHECK(std::count(told.begin(), told.end(), 1) == 2);
  CHECK(group.outcome.losses == old.outcome.losses);
}

TEST_CASE("a group begins once, and learns, whenever its first worker dies over the start", "[train]") {
  auto cluster = embed();
  // It takes its time to start.
  const auto lesson = make_lesson(cluster, make_table(20'000, 12, 4, 1));
  for (int round = 0; round < 3; ++round) {
    int begun = 0;
    Watcher watcher;
    watcher.begins = [&](const Status& first) -> gpuactors::Result<void> {
      ++begun;
      CHECK(first.epochs() == 0);
      return {};
    };
    std::atomic<bool> killed{false};
    std::thread killer{[&] {
      killed = eventually([&] {
        const auto state = must(cluster.state());
        for (const auto& actor : state.actors())
          if (actor.name().ends_with("-0") && cluster.kill(actor.name()))
            return true;
        return false;
      });
    }};
    auto spec = restarting(lesson.plan, 2);
    spec.plan.set_batch(100);
    const auto group = must(train_group(cluster, spec, watcher));
    killer.join();
    CHECK(killed);
    CHECK(begun == 1);
    CHECK(group.outcome.losses.size() == std::size_t{2} * 80);
    CHECK(eventually([&] { return must(cluster.state()).actors().empty(); }));
  }
}

} // namespace train::test
