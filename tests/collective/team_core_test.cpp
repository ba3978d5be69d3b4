// What a team decides: which failures it survives, who is replaced, what all have reported.
#include <gpuactors/base/limits.hpp>
#include <gpuactors/collective/detail/team_core.hpp>

#include <support/catch.hpp>
#include <support/messages.hpp>
#include <support/results.hpp>

#include <string>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;
using detail::FailedAttempt;
using detail::MemberEnd;
using detail::TeamCore;
using detail::TeamStage;

namespace {

const TimePoint team_epoch{1h};

MemberEnd fine(std::string name) {
  return {std::move(name), std::nullopt, true};
}

MemberEnd failed(std::string name, Errc code, bool answers = true) {
  return {std::move(name), Error{code, "it said so"}, answers};
}

FailedAttempt at_work(std::vector<MemberEnd> ends) {
  return {TeamStage::work, std::move(ends), std::nullopt};
}

std::vector<double> numbers(const std::vector<Payload>& payloads) {
  std::vector<double> numbers;
  for (const auto& payload : payloads)
    numbers.push_back(payload.empty() ? -1 : must(payload.share_as<Number>())->value());
  return numbers;
}

} // namespace

TEST_CASE("the common reports of a team are the last ones that all members have made", "[collective]") {
  TeamCore core{2, {}};
  core.begin(team_epoch);
  CHECK(core.common().empty());
  CHECK_FALSE(core.report(0, Payload::of(number(1))));
  CHECK_FALSE(core.report(0, Payload::of(number(2))));
  CHECK(core.report(1, Payload::of(number(10))));
  CHECK(numbers(core.common()) == std::vector<double>{1, 10});
  CHECK(core.report(1, Payload::of(number(20))));
  CHECK_FALSE(core.report(1, Payload::of(number(30))));
  CHECK(numbers(core.common()) == std::vector<double>{2, 20});
  CHECK(numbers(core.last()) == std::vector<double>{2, 30});
  // They outlive the attempt, but not what only one of them had reported.
  core.begin(team_epoch);
  CHECK(numbers(core.last()) == std::vector<double>{-1, -1});
  CHECK_FALSE(core.report(0, Payload::of(number(3))));
  CHECK(numbers(core.common()) == std::vector<double>{2, 20});
}

TEST_CASE("an attempt of a team is over when all calls have ended, and broken by the first that failed",
          "[collective]") {
  TeamCore core{2, {}};
  core.begin(team_epoch);
  core.end(0, {});
  CHECK(core.has_ended(0));
  CHECK_FALSE(core.over());
  CHECK_FALSE(core.broken());
  core.end(1, fail(Errc::worker_died, "gone"));
  CHECK(core.over());
  CHECK(core.broken());
  CHECK_FALSE(core.error_of(0));
  CHECK(core.error_of(1)->code() == Errc::worker_died);
  core.begin(team_epoch);
  CHECK_FALSE(core.broken());
  CHECK_FALSE(core.has_ended(0));
}

TEST_CASE("the loss of a member is the cause of what the others fail with, and it alone is replaced", "[collective]") {
  for (const auto code :
       {Errc::actor_died, Errc::worker_died, Errc::device_lost, Errc::context_lost, Errc::lease_revoked}) {
    TeamCore core{4, {.max_failures = 1}};
    core.begin(team_epoch);
    const auto again = must(core.fail(
        at_work({failed("a", Errc::unavailable), failed("b", Errc::task_failed), failed("c", code), fine("d")}),
        team_epoch));
    CHECK(again.replaced == std::vector{false, false, true, false});
    CHECK(again.pause == Duration::zero());
    CHECK(fails(again.error, code, "rank 2 of 4 (c): it said so"));
    CHECK(core.attempt() == 1);
  }
}

TEST_CASE("one that does not answer is lost, whatever its call has ended with", "[collective]") {
  TeamCore core{3, {.max_failures = 2}};
  core.begin(team_epoch);
  auto again = must(core.fail(
      at_work({failed("a", Errc::unavailable), failed("b", Errc::deadline_exceeded, false), fine("c")}), team_epoch));
  CHECK(again.replaced == std::vector{false, true, false});
  CHECK(fails(again.error, Errc::deadline_exceeded, "rank 1 of 3 (b): it said so"));
  again = must(
      core.fail(at_work({failed("a", Errc::cancelled), failed("b", Errc::task_failed, false), fine("c")}), team_epoch));
  CHECK(again.replaced == std::vector{false, true, false});
  CHECK(again.error.code() == Errc::task_failed);
}

TEST_CASE("all members are replaced where the team says so", "[collective]") {
  TeamCore core{2, {.max_failures = 1, .replace = Replace::all}};
  core.begin(team_epoch);
  CHECK(must(core.fail(at_work({failed("a", Errc::unavailable), failed("b", Errc::actor_died)}), team_epoch)).replaced
        == std::vector{true, true});
}

TEST_CASE("an error of a member's own ends the work at once, unless it is one to retry", "[collective]") {
  const auto ends =
      at_work({failed("a", Errc::cancelled), failed("b", Errc::task_failed), failed("c", Errc::unavailable)});
  TeamCore strict{3, {.max_failures = -1}};
  strict.begin(team_epoch);
  const auto over = strict.fail(ends, team_epoch);
  CHECK(code_of(over) == Errc::task_failed);
  CHECK(says(over, "rank 1 of 3 (b): it said so"));
  TeamCore lenient{3, {.max_failures = -1, .retry_errors = {Errc::task_failed}}};
  lenient.begin(team_epoch);
  CHECK(must(lenient.fail(ends, team_epoch)).replaced == std::vector{false, false, false});
  // Nobody says anything but that the group was ended: by a member, or somebody else.
  CHECK(code_of(
            lenient.fail(at_work({failed("a", Errc::cancelled), failed("b", Errc::cancelled), fine("c")}), team_epoch))
        == Errc::cancelled);
  // One could not be reached for a moment: all are there, and go on.
  CHECK(must(lenient.fail(at_work({failed("a", Errc::unavailable), fine("b"), fine("c")}), team_epoch)).replaced
        == std::vector{false, false, false});
}

TEST_CASE("failures of a team are counted, and a long attempt makes them good", "[collective]") {
  const auto ends = at_work({fine("a"), failed("b", Errc::worker_died)});
  TeamCore core{2, {.max_failures = 2, .failure_window = 10min}};
  auto now = team_epoch;
  core.begin(now);
  CHECK(must(core.fail(ends, now)).pause == Duration::zero());
  core.begin(now);
  CHECK(must(core.fail(ends, now)).pause == limits::restart_pause);
  core.begin(now);
  now += 10min;
  CHECK(must(core.fail(ends, now)).pause == Duration::zero());
  core.begin(now);
  CHECK(core.fail(ends, now).has_value());
  core.begin(now);
  const auto over = core.fail(ends, now);
  CHECK(code_of(over) == Errc::worker_died);
  CHECK(says(over, "rank 1 of 2 (b): it said so; it was failure 5 of the team, and max_failures is 2"));
}

TEST_CASE("what a constructor fails with is an error of the first start, and a failure of later ones", "[collective]") {
  const FailedAttempt unstarted{TeamStage::start, {fine("a"), failed("b", Errc::task_failed)}, std::nullopt};
  TeamCore core{2, {.max_failures = -1}};
  CHECK(code_of(core.fail(unstarted, team_epoch)) == Errc::task_failed);
  const FailedAttempt lost{TeamStage::start, {fine("a"), failed("b", Errc::worker_died)}, std::nullopt};
  CHECK(core.fail(lost, team_epoch).has_value());
  CHECK(core.fail(unstarted, team_epoch).has_value());
  // Nor does what passes.
  for (const auto code : {Errc::unavailable, Errc::deadline_exceeded}) {
    const FailedAttempt passing{TeamStage::start, {fine("a"), failed("b", code)}, std::nullopt};
    CHECK(core.fail(passing, team_epoch).has_value());
    CHECK(code_of(TeamCore{2, {.max_failures = -1}}.fail(passing, team_epoch)) == code);
  }
  // No place is no failure that another attempt mends.
  for (const auto code : {Errc::no_capacity, Errc::infeasible, Errc::already_exists, Errc::cancelled})
    CHECK(code_of(core.fail({TeamStage::start, {fine("a"), failed("b", code)}, std::nullopt}, team_epoch)) == code);
}

TEST_CASE("a replacement that fails to start is a failure, also before any work was tried", "[collective]") {
  TeamCore core{2, {.max_failures = 3}};
  const FailedAttempt apart{
      TeamStage::join, {fine("a"), failed("b", Errc::actor_died, false)}, Error{Errc::worker_died, "b"}};
  CHECK_FALSE(must(core.fail(apart, team_epoch)).counts);
  const FailedAttempt unstarted{TeamStage::start, {fine("a"), failed("b", Errc::unavailable)}, std::nullopt};
  CHECK(must(core.fail(unstarted, team_epoch)).counts);
}

TEST_CASE("members that could not be put together are tried again, unless they never could be", "[collective]") {
  TeamCore core{2, {.max_failures = -1}};
  const auto joined = [&](Errc code, bool answers) {
    return core.fail({TeamStage::join,
                      {fine("a"), answers ? fine("b") : failed("b", code, false)},
                      Error{code, "rank 1 of 2 (b) is late"}},
                     team_epoch);
  };
  for (const auto code : {Errc::deadline_exceeded, Errc::cancelled, Errc::stale_epoch, Errc::worker_died})
    CHECK(must(joined(code, true)).replaced == std::vector{false, false});
  const auto again = must(joined(Errc::deadline_exceeded, false));
  CHECK(again.replaced == std::vector{false, true});
  CHECK(again.error.message() == "rank 1 of 2 (b) is late");
  CHECK(code_of(joined(Errc::not_found, true)) == Errc::not_found);
  CHECK(code_of(joined(Errc::invalid_argument, true)) == Errc::invalid_argument);
}

TEST_CASE("the first time that members cannot be put together after an attempt is no failure", "[collective]") {
  const FailedAttempt late{
      TeamStage::join, {fine("a"), failed("b", Errc::actor_died, false)}, Error{Errc::worker_died, "b"}};
  TeamCore core{2, {.max_failures = 1}};
  const auto first = must(core.fail(late, team_epoch));
  CHECK_FALSE(first.counts);
  CHECK(first.replaced == std::vector{false, true});
  CHECK(core.attempt() == 0);
  CHECK(must(core.fail(late, team_epoch)).counts);
  CHECK(core.attempt() == 1);
  core.begin(team_epoch);
  CHECK_FALSE(must(core.fail(late, team_epoch)).counts);
  CHECK(code_of(core.fail(late, team_epoch)) == Errc::worker_died);
}
