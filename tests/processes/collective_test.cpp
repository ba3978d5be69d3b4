// Groups of actors in processes of their own, which are killed.
#include "fixture.hpp"

#include <support/catch.hpp>

#include <collective/peers.hpp>
#include <fmt/format.h>

#include <csignal>

using namespace gpuactors;
using namespace gpuactors::test;

namespace {

/// Two members with a device each, on two nodes, and one without; each in a process of its own.
std::vector<ActorRef> spawn_members(Cluster& cluster, int max_restarts) {
  std::vector<ActorRef> members;
  for (const auto* name : {"a", "b", "c"}) {
    Options options;
    options.name = name;
    options.gpus = name == std::string{"c"} ? 0 : 1;
    options.node = name == std::string{"b"} ? "n1" : "n0";
    options.isolation = Isolation::process;
    options.max_restarts = max_restarts;
    members.push_back(must(cluster.spawn(peer, {}, options)));
  }
  return members;
}

void check_same_sums(const std::vector<ActorRef>& members) {
  const auto arrays = arrays_of(members.size(), 300'000);
  const auto sums = values_of(call_each(members, reduce, arrays));
  for (const auto& sum : sums)
    CHECK(sum == sums.front());
  // The same as where nothing travels.
  auto embedded = embed_peers();
  const auto others = spawn_peers(embedded, members.size());
  must(form_collective(others));
  CHECK(values_of(call_each(others, reduce, arrays)) == sums);
}

} // namespace

TEST_CASE("members in several processes sum, and learn that one was killed; with its next life they sum again",
          "[processes]") {
  Processes processes;
  auto cluster = processes.up("host:1x64MiB");
  processes.start_node("n1", "host:1x64MiB");
  const auto members = spawn_members(cluster, -1);
  for (const std::size_t killed : {2, 0}) {
    must(form_collective(members));
    check_same_sums(members);
    std::vector<Future<google::protobuf::Empty>> meeting;
    for (const auto& member : members)
      if (member.id() != members[killed].id())
        meeting.push_back(member.call(meet, number(0)));
    Processes::signal(static_cast<pid_t>(members[killed].info().pid()), SIGKILL);
    for (auto& call : meeting) {
      const auto met = call.get();
      CHECK(code_of(met) == Errc::unavailable);
      CHECK(says(met, fmt::format("rank {} of 3 ({})", killed, members[killed].name())));
    }
    // Waits for the next life.
    REQUIRE(eventually([&] { return members[killed].call(place_of).get().has_value(); }));
  }
  must(form_collective(members));
  check_same_sums(members);
}

TEST_CASE("members learn that the node of one is gone", "[processes]") {
  Processes processes;
  auto cluster = processes.up("host:1x64MiB");
  processes.start_node("n1", "host:1x64MiB");
  auto members = spawn_members(cluster, 0);
  must(form_collective(members));
  auto meeting = members[0].call(meet, number(0));
  processes.signal("n1", SIGKILL);
  const auto met = meeting.get();
  CHECK(code_of(met) == Errc::unavailable);
  CHECK(says(met, "rank 1 of 3 (b)"));
  members.erase(members.begin() + 1);
  must(form_collective(members));
  check_same_sums(members);
}
