// Teams whose members run in processes of their own, which are killed and frozen, and whose nodes go.
#include "fixture.hpp"

#include <support/catch.hpp>

#include <collective/mates.hpp>
#include <collective/peers.hpp>

#include <csignal>
#include <set>
#include <thread>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t team_size = 3;

/// In the first attempt rank 1 waits in this round, and the others for it.
constexpr int hurt_round = 4;

auto hurt_requests() {
  return [](const TeamPart<Vector>& part) {
    Exercise exercise{.rounds = 8, .at = hurt_round};
    if (part.rank == 1 && part.attempt == 0)
      exercise.fault = Fault::hang;
    return go_on(exercise, part);
  };
}

/// Calls `hurt` when all wait for rank 1.
TeamCall<Vector> hurt_once(std::function<void()> hurt) {
  TeamCall<Vector> call;
  call.on_reports = [hurt = std::move(hurt), done = false](const std::vector<Vector>& reports) mutable {
    if (standing_of(reports[1]).round == hurt_round - 1 && !std::exchange(done, true))
      hurt();
  };
  return call;
}

/// What the team computes where nothing happens to it.
float undisturbed_value() {
  auto embedded = embed_peers();
  Team team{embedded, mate, mates(team_size)};
  return standing_of(
             must(team.run(exercise, [](const TeamPart<Vector>& part) { return go_on({.rounds = 8}, part); }))[0])
      .value;
}

} // namespace

TEST_CASE("a team whose member's process is killed ends with the same result, and the others keep their processes",
          "[processes]") {
  Processes processes;
  auto cluster = processes.up("host:1x64MiB");
  const auto expected = undisturbed_value();
  for (const auto replace : {Replace::lost, Replace::all}) {
    Team team{cluster,
              mate,
              mates(team_size, {.gpus = 0.25, .isolation = Isolation::process}),
              {.max_failures = 1, .replace = replace}};
    std::vector<int> before;
    const auto standings = standings_of(must(team.run(exercise, hurt_requests(), hurt_once([&] {
                                                        for (const auto& member : team.members())
                                                          before.push_back(static_cast<int>(member.info().pid()));
                                                        Processes::signal(before[1], SIGKILL);
                                                      }))));
    for (std::size_t rank = 0; rank < team_size; ++rank) {
      const bool lives_on = rank != 1 && replace == Replace::lost;
      CHECK(standings[rank].round == 8);
      CHECK(standings[rank].value == expected);
      CHECK(standings[rank].calls == (lives_on ? 2 : 1));
      CHECK((standings[rank].pid == before[rank]) == lives_on);
    }
  }
  CHECK(eventually([&] { return is_idle(cluster); }));
}

TEST_CASE("a team that loses a node waits for another one, or as long as it is told to", "[processes]") {
  Processes processes;
  auto cluster = processes.up("host:1x64MiB");
  processes.start_node("n1", "host:1x64MiB");
  auto members = mates(2, {.gpus = 1});
  const TeamOptions options{.placement = {.strategy = GroupStrategy::strict_spread}, .max_failures = 1};
  Team patient{cluster, mate, members, options};
  const auto node_of_rank = [](const Team& team, std::size_t rank) { return team.members()[rank].lease().node; };
  std::string lost;
  std::thread starter;
  auto call = hurt_once([&] {
    lost = node_of_rank(patient, 1);
    processes.signal(lost, SIGKILL);
  });
  call.on_failure = [&](const TeamFailure&) {
    // It may be told a second time: that those who are left could not be put together.
    if (!starter.joinable())
      starter = std::thread{[&] { processes.start_node("n2", "host:1x64MiB"); }};
  };
  const auto standings = standings_of(must(patient.run(exercise, hurt_requests(), call)));
  starter.join();
  CHECK(standings[0].calls == 2);
  CHECK(standings[1].calls == 1);
  CHECK(standings[0].value == standings[1].value);
  CHECK(node_of_rank(patient, 1) == "n2");
  CHECK(node_of_rank(patient, 0) != lost);

  // The next work of the same team, which has no other place.
  patient = Team{cluster, mate, {}};
  REQUIRE(eventually([&] { return is_idle(cluster); }));
  for (auto& member : members)
    member.options.queue_timeout = 100ms;
  Team hurried{cluster, mate, members, options};
  const auto given_up =
      hurried.run(exercise, hurt_requests(), hurt_once([&] { processes.signal(node_of_rank(hurried, 1), SIGKILL); }));
  CHECK(code_of(given_up) == Errc::no_capacity);
  CHECK(says(given_up, "rank 1 of 2 (mate)"));
}

TEST_CASE("a member of a team that is frozen is replaced when its link has timed out", "[frozen]") {
  Processes processes{Processes::link_timeout};
  auto cluster = processes.up("host:1x64MiB");
  Team team{cluster, mate, mates(team_size, {.gpus = 0.25, .isolation = Isolation::process}), {.max_failures = 1}};
  const auto standings =
      standings_of(must(team.run(exercise, hurt_requests(), hurt_once([&] {
                                   Processes::signal(static_cast<pid_t>(team.members()[1].info().pid()), SIGSTOP);
                                 }))));
  CHECK(standings[0].value == undisturbed_value());
  CHECK(standings[0].calls == 2);
  CHECK(standings[1].calls == 1);
}
