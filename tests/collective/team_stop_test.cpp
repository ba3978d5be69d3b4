// Teams in an embedded cluster that are stopped while something else goes on, and what comes too late for an attempt.
#include "mates.hpp"
#include "peers.hpp"

#include <gpuactors/collective/detail/team_state.hpp>

#include <support/catch.hpp>
#include <support/eventually.hpp>

#include <atomic>
#include <memory>
#include <utility>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

/// Opens a gate at the end of its scope, whatever comes of a test. To be declared behind the team, whose end waits.
class OpenAtEnd {
public:
  explicit OpenAtEnd(Gate& gate) : gate_(gate) {
    // nop
  }
  OpenAtEnd(const OpenAtEnd&) = delete;
  OpenAtEnd& operator=(const OpenAtEnd&) = delete;
  ~OpenAtEnd() {
    gate_.open();
  }

private:
  Gate& gate_;
};

/// Closes a gate when a team has failed.
TeamCall<Vector> close_on_failure(Gate& gate, std::atomic<bool>& failed) {
  TeamCall<Vector> call;
  call.on_failure = [&](const TeamFailure&) {
    gate.close();
    failed = true;
  };
  return call;
}

const Options a_fifth{.gpus = 0.2};

/// Requests of so many rounds, with a fault of one rank in the first attempt.
auto faulty(Exercise exercise, std::size_t rank) {
  return [exercise, rank](const TeamPart<Vector>& part) {
    auto own = exercise;
    if (part.rank != rank || part.attempt > 0)
      own.fault = Fault::none;
    return go_on(own, part);
  };
}

/// What the team reports last of its next work, once the one before has ended.
std::vector<Vector> work_again(Team& team) {
  std::vector<Vector> reports;
  REQUIRE(eventually([&] {
    auto done = team.run(exercise, faulty({}, 0));
    if (done)
      reports = std::move(*done);
    return done.has_value();
  }));
  return reports;
}

} // namespace

TEST_CASE("a team that is stopped while its members are put together does not begin its work", "[collective]") {
  auto cluster = embed_peers();
  Team team{cluster, mate, mates(2, a_fifth)};
  std::atomic<int> requests{0};
  const auto request = [&](const TeamPart<Vector>& part) {
    ++requests;
    return go_on({}, part);
  };
  const OpenAtEnd opened{mate_gates().join};
  mate_gates().join.close();
  auto working = team.run_async(exercise, request);
  mate_gates().join.await(2);
  team.stop();
  mate_gates().join.open();
  const auto stopped = working.get();
  CHECK(code_of(stopped) == Errc::cancelled);
  CHECK(says(stopped, "the team was stopped"));
  CHECK(requests == 0);
  // The members are there, and work when they are asked again.
  const auto members = team.members();
  REQUIRE(members[0]);
  const auto standings = standings_of(must(team.run(exercise, request)));
  CHECK(team.members()[0].id() == members[0].id());
  CHECK(standings[1].calls == 1);
}

TEST_CASE("work that is cancelled while those who are left are put together again ends, and can be done again",
          "[collective]") {
  auto cluster = embed_peers();
  Team team{cluster, mate, mates(2, a_fifth), {.max_failures = -1, .retry_errors = {Errc::task_failed}}};
  auto& gate = mate_gates().join;
  const OpenAtEnd opened{gate};
  std::atomic<bool> failed{false};
  auto working = team.run_async(exercise, faulty({.fault = Fault::fail, .at = 3}, 1), close_on_failure(gate, failed));
  REQUIRE(eventually([&] { return failed.load(); }));
  gate.await(2);
  working.cancel();
  gate.open();
  CHECK(code_of(working.get()) == Errc::cancelled);
  // Each has been called once, before that. A future that is cancelled does not wait for the end of the work.
  CHECK(standings_of(work_again(team))[0].calls == 2);
}

TEST_CASE("work that is cancelled while a member is replaced leaves no second one behind", "[collective]") {
  auto cluster = embed_peers();
  Team team{cluster, mate, mates(2, a_fifth), {.max_failures = -1}};
  auto& gate = mate_gates().birth;
  const OpenAtEnd opened{gate};
  std::atomic<bool> failed{false};
  auto call = close_on_failure(gate, failed);
  call.on_reports = [&](const std::vector<Vector>& reports) {
    if (standing_of(reports[0]).round == 2)
      must(cluster.kill(team.members()[1]));
  };
  auto working = team.run_async(exercise, faulty({.fault = Fault::hang, .at = 3}, 1), call);
  REQUIRE(eventually([&] { return failed.load(); }));
  gate.await(1);
  CHECK_FALSE(team.members()[1]);
  working.cancel();
  CHECK(code_of(working.get()) == Errc::cancelled);
  gate.open();
  const auto standings = standings_of(work_again(team));
  CHECK(standings[0].calls == 2);
  CHECK(standings[1].calls == 1);
  CHECK(must(cluster.state()).actors().size() == 2);
}

TEST_CASE("whoever cancels earlier work of a team does not stop what it does now", "[collective]") {
  auto cluster = embed_peers();
  std::vector<detail::PayloadMember> members(2, {Payload::of(google::protobuf::Empty{}), a_fifth});
  const auto state = std::make_shared<detail::TeamState>(cluster, std::string{mate.name()}, members, TeamOptions{});
  detail::TeamWork work{std::string{exercise.name()}, {}, {}};
  const auto asking = [&](Exercise what) {
    work.request = [what](const detail::PayloadPart&) -> Result<Payload> { return Payload::of(to_message(what)); };
    return work;
  };
  must(state->run(asking({})));
  const OpenAtEnd opened{mate_gates().report};
  mate_gates().report.close();
  auto second = state->run_async(asking({.fault = Fault::late, .at = 2}));
  mate_gates().report.await(2);
  // As the future of the first work does, if it is cancelled in the moment in which that ends.
  state->stop(1);
  mate_gates().report.open();
  must(second.get());
  std::atomic<bool> began{false};
  work.call.on_reports = [&](const std::vector<Payload>&) { began = true; };
  auto third = state->run_async(asking({.fault = Fault::hang, .at = 2}));
  REQUIRE(eventually([&] { return began.load(); }));
  state->stop(3);
  CHECK(code_of(third.get()) == Errc::cancelled);
  state->close();
}

TEST_CASE("what a member reports after another one has failed counts, if it comes while its call is awaited",
          "[collective]") {
  auto cluster = embed_peers();
  Team team{cluster, mate, mates(2, a_fifth), {.max_failures = 1, .retry_errors = {Errc::task_failed}}};
  const OpenAtEnd opened{mate_gates().report};
  mate_gates().report.close();
  std::atomic<int> failed{0};
  auto working = team.run_async(exercise, [&](const TeamPart<Vector>& part) {
    if (part.attempt == 0)
      // Rank 1 has made round 3, and has not said so, when rank 0 fails in round 4.
      return go_on({.fault = part.rank == 0 ? Fault::fail_behind_late : Fault::late, .at = part.rank == 0 ? 4 : 3},
                   part);
    failed = part.reports.empty() ? -1 : standing_of(part.reports[part.rank]).round;
    return go_on({}, part);
  });
  mate_gates().report.await(1);
  mate_gates().report.open();
  const auto standings = standings_of(must(working.get()));
  CHECK(failed == 3);
  CHECK(standings[0].calls == 2);
  CHECK(standings[1].calls == 2);
  CHECK(standings[0].value == standings[1].value);
}

TEST_CASE("what a member reports after its attempt is over is no report of the next one", "[collective]") {
  auto cluster = embed_peers();
  TeamOptions options{.max_failures = 1, .retry_errors = {Errc::task_failed}};
  options.answer_within = 100ms;
  Team team{cluster, mate, mates(2, a_fifth), options};
  const OpenAtEnd opened{mate_gates().report};
  mate_gates().report.close();
  TeamCall<Vector> call;
  std::vector<std::pair<int, int>> rows; // of rank 0: the round, and the number of the call that made it
  call.on_reports = [&](const std::vector<Vector>& reports) {
    const auto standing = standing_of(reports[0]);
    CHECK(standing_of(reports[1]).round == standing.round);
    rows.emplace_back(standing.round, standing.calls);
  };
  const auto standings = standings_of(must(team.run(
      exercise,
      [&](const TeamPart<Vector>& part) {
        Exercise own{.rounds = 4};
        if (part.attempt == 0) {
          own.fault = part.rank == 0 ? Fault::fail_behind_late : Fault::late;
          own.at = part.rank == 0 ? 4 : 3;
        }
        return go_on(own, part);
      },
      call)));
  // Rank 1 is replaced, since it did not end in time: it reports round 3 when it is told to stop.
  CHECK(rows == std::vector<std::pair<int, int>>{{1, 1}, {2, 1}, {3, 2}, {4, 2}});
  CHECK(standings[1].calls == 1);
}
