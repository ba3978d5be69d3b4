// Teams in an embedded cluster: they work, lose members, go on, stop and end.
#include "mates.hpp"
#include "peers.hpp"

#include <support/catch.hpp>
#include <support/eventually.hpp>

#include <atomic>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

const Options a_tenth{.gpus = 0.1};

/// The fault is that of the member `rank`, in the first attempts.
struct FaultPlan {
  Exercise exercise{};
  std::size_t rank = 1;
  int attempts = 1;
};

auto requests(FaultPlan plan) {
  return [plan](const TeamPart<Vector>& part) {
    auto exercise = plan.exercise;
    if (part.rank != plan.rank || part.attempt >= plan.attempts)
      exercise.fault = Fault::none;
    return go_on(exercise, part);
  };
}

/// Has the member that hangs in round `at` killed when all others wait for it there.
TeamCall<Vector> kill_at(Cluster& cluster, Team& team, int at, std::size_t rank = 1) {
  TeamCall<Vector> call;
  call.on_reports = [&cluster, &team, at, rank](const std::vector<Vector>& reports) {
    if (standing_of(reports[rank]).round == at - 1 && standing_of(reports[0]).calls == 1)
      must(cluster.kill(team.members()[rank]));
  };
  return call;
}

float undisturbed(Cluster& cluster, std::size_t members) {
  Team team{cluster, mate, mates(members)};
  return standing_of(must(team.run(exercise, requests({})))[0]).value;
}

bool nothing_is_held(Cluster& cluster) {
  const auto state = must(cluster.state());
  return state.leases().empty() && state.groups().empty() && state.actors().empty();
}

/// Keeps the failures that count: the others leave the number of the attempt as it was.
void add_counted(std::vector<TeamFailure>& failures, const TeamFailure& failure) {
  if (failure.attempt > (failures.empty() ? 0 : failures.back().attempt))
    failures.push_back(failure);
}

} // namespace

TEST_CASE("a team works, returns what each has reported last, and stays for the next work", "[collective]") {
  auto cluster = embed_peers();
  Team team{cluster, mate, mates(3, a_tenth)};
  CHECK(team.members().size() == 3);
  CHECK_FALSE(team.members()[0]);
  std::vector<int> rounds;
  TeamCall<Vector> call;
  call.on_reports = [&](const std::vector<Vector>& reports) {
    CHECK(reports.size() == 3);
    rounds.push_back(standing_of(reports[2]).round);
  };
  const auto first = standings_of(must(team.run(exercise, requests({}), call)));
  CHECK(rounds == std::vector{1, 2, 3, 4, 5, 6});
  REQUIRE(first.size() == 3);
  for (const auto& standing : first)
    CHECK(standing == Standing{6, first[0].value, 1, first[0].pid});
  const auto members = team.members();
  const auto second = standings_of(must(team.run_async(exercise, requests({})).get()));
  CHECK(second[1] == Standing{6, first[1].value, 2, first[1].pid});
  for (std::size_t rank = 0; rank < 3; ++rank)
    CHECK(team.members()[rank].id() == members[rank].id());
}

TEST_CASE("a team that is to work in a callback is refused, since it would wait for that thread", "[collective]") {
  auto cluster = embed_peers();
  Team team{cluster, mate, mates(2, a_tenth)};
  std::promise<Errc> refused;
  std::promise<Future<std::vector<Vector>>> begun;
  cluster.find_async("nobody").then([&](const Result<ActorRef>&) {
    const auto here = team.run(exercise, requests({}));
    refused.set_value(here ? Errc::none : here.error().code());
    begun.set_value(team.run_async(exercise, requests({})));
  });
  CHECK(refused.get_future().get() == Errc::invalid_argument);
  CHECK(standings_of(must(begun.get_future().get().get())).size() == 2);
}

TEST_CASE("a member that is lost is replaced, and the others go on with it from what all have reported",
          "[collective]") {
  auto cluster = embed_peers();
  const auto expected = undisturbed(cluster, 3);
  for (const auto replace : {Replace::lost, Replace::all}) {
    Team team{cluster, mate, mates(3, a_tenth), {.max_failures = 1, .replace = replace}};
    auto call = kill_at(cluster, team, 4);
    std::vector<TeamFailure> failures;
    call.on_failure = [&](const TeamFailure& failure) { add_counted(failures, failure); };
    std::vector<int> begins;
    const auto standings = standings_of(must(team.run(
        exercise,
        [&](const TeamPart<Vector>& part) {
          if (part.rank == 0)
            begins.push_back(part.reports.empty() ? 0 : standing_of(part.reports[0]).round);
          CHECK(part.size == 3);
          return requests({{.fault = Fault::hang, .at = 4}})(part);
        },
        call)));
    CHECK(begins == std::vector{0, 3});
    const bool all = replace == Replace::all;
    for (std::size_t rank = 0; rank < 3; ++rank)
      CHECK(standings[rank] == Standing{6, expected, rank == 1 || all ? 1 : 2, standings[0].pid});
    REQUIRE(failures.size() == 1);
    CHECK(failures[0].replaced == (all ? std::vector<std::size_t>{0, 1, 2} : std::vector<std::size_t>{1}));
    CHECK(failures[0].attempt == 1);
    CHECK(fails(failures[0].error, Errc::lease_revoked, "rank 1 of 3 (mate"));
  }
}

TEST_CASE("a name of a member is that of its replacement, too", "[collective]") {
  auto cluster = embed_peers();
  auto members = mates(2, a_tenth);
  members[0].options.name = "left";
  members[1].options.name = "right";
  Team team{cluster, mate, members, {.max_failures = 1}};
  must(team.run(exercise, requests({{.fault = Fault::hang, .at = 2}}), kill_at(cluster, team, 2)));
  CHECK(must(cluster.find("right")).id() == team.members()[1].id());
  // Of two teams with the same names the second one has none.
  Team other{cluster, mate, members};
  CHECK(code_of(other.run(exercise, requests({}))) == Errc::already_exists);
}

TEST_CASE("a member's own error ends the work of the others too, unless it is one to retry", "[collective]") {
  auto cluster = embed_peers();
  Team strict{cluster, mate, mates(3), {.max_failures = -1}};
  const auto failed = strict.run(exercise, requests({{.fault = Fault::fail, .at = 3}}));
  CHECK(code_of(failed) == Errc::task_failed);
  CHECK(says(failed, "rank 1 of 3 (mate"));
  CHECK(says(failed, "a bad number"));
  // All live, and work again.
  CHECK(standing_of(must(strict.run(exercise, requests({})))[1]).calls == 2);

  Team lenient{cluster, mate, mates(3), {.max_failures = 2, .retry_errors = {Errc::out_of_memory}}};
  const Exercise tight{.fault = Fault::out_of_memory, .at = 3};
  const auto standings = standings_of(must(lenient.run(exercise, requests({tight, 1, 2}))));
  CHECK(standings[1] == Standing{6, undisturbed(cluster, 3), 3, standings[0].pid});
  const auto over = lenient.run(exercise, requests({tight, 1, 3}));
  CHECK(code_of(over) == Errc::out_of_memory);
  CHECK(says(over, "it was failure 3 of the team, and max_failures is 2"));
}

TEST_CASE("a member that does not end its call after a failure is replaced", "[collective]") {
  auto cluster = embed_peers();
  Team team{cluster, mate, mates(2), {.max_failures = 1, .retry_errors = {Errc::task_failed}, .answer_within = 100ms}};
  std::vector<TeamFailure> failures;
  TeamCall<Vector> call;
  call.on_failure = [&](const TeamFailure& failure) { add_counted(failures, failure); };
  const auto standings = standings_of(must(team.run(
      exercise,
      [](const TeamPart<Vector>& part) {
        Exercise exercise;
        exercise.at = 1;
        if (part.attempt == 0)
          exercise.fault = part.rank == 0 ? Fault::fail : Fault::hang;
        return to_message(exercise);
      },
      call)));
  REQUIRE(failures.size() == 1);
  CHECK(failures[0].replaced == std::vector<std::size_t>{1});
  CHECK(says(failures[0].error, "its call had not ended 0.1 s after another one had failed"));
  CHECK(standings[0].calls == 2);
  CHECK(standings[1].calls == 1);
}

TEST_CASE("a team is stopped by another thread or its future, and works again", "[collective]") {
  auto cluster = embed_peers();
  Team team{cluster, mate, mates(2, a_tenth)};
  team.stop(); // has no work to end
  const Exercise endless{.fault = Fault::hang, .at = 2};
  std::thread stopper;
  TeamCall<Vector> call;
  call.on_reports = [&](const std::vector<Vector>&) { stopper = std::thread{[&] { team.stop(); }}; };
  const auto stopped = team.run(exercise, requests({endless}), call);
  stopper.join();
  CHECK(code_of(stopped) == Errc::cancelled);
  CHECK(says(stopped, "the team was stopped"));

  std::atomic<bool> began{false};
  call.on_reports = [&](const std::vector<Vector>&) { began = true; };
  auto working = team.run_async(exercise, requests({endless}), call);
  CHECK(code_of(team.run(exercise, requests({}))) == Errc::invalid_argument);
  REQUIRE(eventually([&] { return began.load(); }));
  working.cancel();
  CHECK(code_of(working.get()) == Errc::cancelled);
  REQUIRE(eventually([&] { return team.run(exercise, requests({})).has_value(); }));
}

TEST_CASE("a team that waits for places or for its next attempt can be stopped", "[collective]") {
  auto cluster = embed_peers();
  const auto whole = must(cluster.create_group({{.gpus = 1}}));
  Team waiting{cluster, mate, mates(2, a_tenth)};
  auto working = waiting.run_async(exercise, requests({}));
  REQUIRE(eventually([&] { return must(cluster.state()).queue().size() == 1; }));
  waiting.stop();
  CHECK(code_of(working.get()) == Errc::cancelled);
  REQUIRE(eventually([&] { return must(cluster.state()).queue().empty(); }));
  must(cluster.remove_group(whole.id));

  Team failing{cluster, mate, mates(2, a_tenth), {.max_failures = -1, .retry_errors = {Errc::task_failed}}};
  TeamCall<Vector> call;
  call.on_failure = [&](const TeamFailure& failure) {
    if (failure.attempt == 3)
      failing.stop();
  };
  CHECK(code_of(failing.run(exercise, requests({{.fault = Fault::fail, .at = 1}, 1, 100}), call)) == Errc::cancelled);
}

TEST_CASE("a stop while a team asks its members whether they live ends none of them", "[collective]") {
  auto cluster = embed_peers();
  Team team{cluster, mate, mates(2, a_tenth)};
  must(team.run(exercise, requests({})));
  const auto members = team.members();
  auto holding = members[1].call(hold, google::protobuf::Empty{});
  REQUIRE(eventually([&] { return held().load(); }));
  auto working = team.run_async(exercise, requests({}));
  team.stop();
  CHECK(code_of(working.get()) == Errc::cancelled);
  held() = false;
  must(holding.get());
  const auto standings = standings_of(must(team.run(exercise, requests({}))));
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK(team.members()[rank].id() == members[rank].id());
    CHECK(standings[rank].calls == 2);
  }
}

TEST_CASE("a team that ends leaves nothing behind, also when it works", "[collective]") {
  auto cluster = embed_peers();
  std::atomic<bool> began{false};
  Future<std::vector<Vector>> working;
  {
    Team team{cluster, mate, mates(2, a_tenth)};
    TeamCall<Vector> call;
    call.on_reports = [&](const std::vector<Vector>&) { began = true; };
    working = team.run_async(exercise, requests({{.fault = Fault::hang, .at = 2}}), call);
    REQUIRE(eventually([&] { return began.load(); }));
    Team moved{std::move(team)};
    team = std::move(moved);
    CHECK(must(cluster.state()).groups().size() == 1);
  }
  CHECK(code_of(working.get()) == Errc::cancelled);
  CHECK(eventually([&] { return nothing_is_held(cluster); }));
}

TEST_CASE("the deadline of a team's calls ends its work, and so does the end of the cluster", "[collective]") {
  auto cluster = embed_peers();
  Team team{cluster, mate, mates(2, a_tenth), {.max_failures = -1}};
  TeamCall<Vector> call;
  call.deadline = 50ms;
  CHECK(code_of(team.run(exercise, requests({{.fault = Fault::hang, .at = 2}}), call)) == Errc::deadline_exceeded);
  std::atomic<bool> began{false};
  call.deadline = Duration::max();
  call.on_reports = [&](const std::vector<Vector>&) { began = true; };
  auto working = team.run_async(exercise, requests({{.fault = Fault::hang, .at = 2}}), call);
  REQUIRE(eventually([&] { return began.load(); }));
  cluster.close();
  CHECK_FALSE(working.get().has_value());
}

TEST_CASE("a team may be ended by what its future calls", "[collective]") {
  auto cluster = embed_peers();
  auto team = std::make_unique<Team>(cluster, mate, mates(2, a_tenth));
  auto working = team->run_async(exercise, requests({}));
  std::atomic<bool> done{false};
  std::move(working).then([&](const Result<std::vector<Vector>>& reports) {
    CHECK(reports.has_value());
    team.reset();
    done = true;
  });
  REQUIRE(eventually([&] { return done.load(); }));
  CHECK(eventually([&] { return nothing_is_held(cluster); }));
}

TEST_CASE("errors and exceptions of the functions of a team end its work", "[collective]") {
  auto cluster = embed_peers();
  Team team{cluster, mate, mates(2)};
  const auto refused = team.run(exercise, [](const TeamPart<Vector>& part) -> Result<Vector> {
    if (part.rank == 1)
      return fail(Errc::not_found, "no data for it");
    return to_message({});
  });
  CHECK(code_of(refused) == Errc::not_found);
  const auto thrown = team.run(exercise, [](const TeamPart<Vector>&) -> Vector { throw std::runtime_error("odd"); });
  CHECK(code_of(thrown) == Errc::task_failed);
  CHECK(says(thrown, "a function given to a team threw an exception: odd"));
  CHECK(team.run(exercise, requests({})).has_value());
}

TEST_CASE("a team that cannot be is refused, with the rank that is wrong", "[collective]") {
  auto cluster = embed_peers();
  const auto refused = [&](std::vector<TeamMember<>> members, const TeamOptions& options, std::string_view words) {
    Team team{cluster, mate, std::move(members), options};
    const auto answer = team.run(exercise, requests({}));
    CHECK(code_of(answer) == Errc::invalid_argument);
    CHECK(says(answer, words));
  };
  refused({}, {}, "a team has at least one member");
  refused(mates(2), {.max_failures = -2}, "max_failures is -2");
  refused(mates(2), {.answer_within = 0s}, "answer_within is 0 s");
  refused(mates(2), {.placement = {.detached = true}}, "detached");
  refused(mates(2), {.placement = {.shrinks = true}}, "shrink");
  refused(mates(2, {.max_restarts = 1}), {}, "rank 0 has max_restarts");
  refused(mates(2, {.detached = true}), {}, "rank 0 has detached");
  refused(mates(2, {.group = GroupId{7}}), {}, "rank 0 has a group");
  refused(mates(2, {.node = "local", .node_is_soft = true}), {}, "rank 0 has node_is_soft");
  auto members = mates(2);
  members[1].options.name = "b";
  members[1].options.get_if_exists = true;
  refused(members, {}, "rank 1 has get_if_exists");
  Team large{cluster, mate, mates(2, {.gpus = 3})};
  CHECK(code_of(large.run(exercise, requests({}))) == Errc::infeasible);
  Team full{cluster, mate, mates(11, a_tenth), {.placement = {.queue_timeout = 1ms}}};
  CHECK_FALSE(full.run(exercise, requests({})).has_value());
  // Without the method by which members reach each other.
  Team lonely{cluster, ActorKind{"lonely"}, mates(2), {.max_failures = -1}};
  CHECK(code_of(lonely.run(exercise, requests({}))) == Errc::not_found);
}
