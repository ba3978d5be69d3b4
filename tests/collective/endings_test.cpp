// How groups end: deaths, stops, timeouts, members that call different things, groups that are formed anew.
#include "peers.hpp"

#include <support/catch.hpp>
#include <support/eventually.hpp>

#include <fmt/format.h>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;
using google::protobuf::Empty;

namespace {

/// Has members meet that wait for others, and returns when they have begun.
std::vector<Future<Empty>> begin_to_meet(const std::vector<ActorRef>& members) {
  meetings() = 0;
  std::vector<Future<Empty>> meeting;
  for (const auto& member : members)
    meeting.push_back(member.call(meet, number(0)));
  REQUIRE(eventually([&] { return meetings() == static_cast<int>(members.size()); }));
  return meeting;
}

void check_all_sum(const std::vector<ActorRef>& members) {
  for (const auto& values : values_of(call_each(members, reduce, std::vector(members.size(), vector_of({1, 2})))))
    CHECK(values == std::vector<float>{static_cast<float>(members.size()), 2 * static_cast<float>(members.size())});
}

class Lonely : public Actor {
public:
  using Actor::Actor;
};

GPUACTORS_ACTOR("lonely", Lonely);

} // namespace

TEST_CASE("all members learn of the death of one that they wait for, by its rank and name", "[collective]") {
  auto cluster = embed_peers();
  for (const std::size_t count : {2, 3, 5}) {
    auto members = spawn_peers(cluster, count);
    must(form_collective(members));
    const auto dead = count - 1;
    auto meeting = begin_to_meet({members.begin(), members.end() - 1});
    must(cluster.kill(members[dead]));
    for (auto& call : meeting) {
      const auto met = call.get();
      CHECK(code_of(met) == Errc::unavailable);
      CHECK(says(met, fmt::format("rank {} of {} ({}) is gone", dead, count, members[dead].name())));
    }
    // Later operations fail as well.
    CHECK(code_of(members[0].call(meet).get()) == Errc::unavailable);
    members.pop_back();
    must(form_collective(members));
    check_all_sum(members);
    for (const auto& member : members)
      must(cluster.kill(member));
  }
}

TEST_CASE("two that die at once end the group for all others", "[collective]") {
  auto cluster = embed_peers();
  const auto members = spawn_peers(cluster, 5);
  must(form_collective(members));
  auto meeting = begin_to_meet({members[0], members[2], members[3]});
  must(cluster.kill(members[1]));
  must(cluster.kill(members[4]));
  for (auto& call : meeting)
    CHECK(code_of(call.get()) == Errc::unavailable);
}

TEST_CASE("a member that dies in an operation ends it for the others", "[collective]") {
  auto cluster = embed_peers();
  const auto members = spawn_peers(cluster, 3);
  must(form_collective(members));
  auto meeting = begin_to_meet({members[0], members[1]});
  must(cluster.kill(members[1]));
  const auto met = meeting[0].get();
  CHECK(code_of(met) == Errc::unavailable);
  CHECK(says(met, "rank 1 of 3 (b)"));
  // The one that was in no operation knows it too.
  CHECK(code_of(members[2].call(meet).get()) == Errc::unavailable);
}

TEST_CASE("a member that is started anew is in no group, and its old one is over", "[collective]") {
  auto cluster = embed_peers();
  const auto members = spawn_peers(cluster, 3, 0, -1);
  must(form_collective(members));
  auto meeting = begin_to_meet({members[0], members[2]});
  must(cluster.kill(members[1], {.restart = true}));
  for (auto& call : meeting)
    CHECK(code_of(call.get()) == Errc::unavailable);
  const auto met = members[1].call(meet).get();
  CHECK(code_of(met) == Errc::invalid_argument);
  CHECK(says(met, "form_collective"));
  must(form_collective(members));
  check_all_sum(members);
}

TEST_CASE("a member that is asked to stop says so to the others", "[collective]") {
  auto cluster = embed_peers();
  const auto members = spawn_peers(cluster, 3);
  must(form_collective(members));
  check_all_sum(members); // who has begun nothing would be in the group no more
  auto meeting = begin_to_meet({members[0], members[1]});
  meeting[1].cancel();
  CHECK(code_of(meeting[1].get()) == Errc::cancelled);
  const auto met = meeting[0].get();
  CHECK(code_of(met) == Errc::unavailable);
  CHECK(says(met, "rank 1 of 3 (b) was asked to stop during barrier"));
  CHECK(code_of(members[2].call(meet).get()) == Errc::unavailable);
  // The actor says the same of itself as long as the group is not formed anew.
  const auto later = members[1].call(meet).get();
  CHECK(code_of(later) == Errc::cancelled);
  CHECK(says(later, "this member, rank 1 of 3 (b), was asked to stop during barrier"));
}

TEST_CASE("an operation ends at its timeout, for all members, and says what it waited for", "[collective]") {
  auto cluster = embed_peers();
  const auto members = spawn_peers(cluster, 3);
  must(form_collective(members));
  auto meeting = begin_to_meet({members[1]});
  const auto late = members[0].call(meet, number(1)).get();
  CHECK(code_of(late) == Errc::deadline_exceeded);
  CHECK(says(late, "rank 0 of 3 (a) came to the end of its time in barrier: rank 2 of 3 (c) had not begun"));
  const auto met = meeting[0].get();
  CHECK(code_of(met) == Errc::deadline_exceeded);
  CHECK(says(met, "rank 0 of 3 (a) came to the end of its time"));
}

TEST_CASE("the deadline of the running call is that of its operations too", "[collective]") {
  auto cluster = embed_peers();
  const auto members = spawn_peers(cluster, 2);
  must(form_collective(members));
  check_all_sum(members);
  CHECK(code_of(members[0].call(meet, {}, 50ms).get()) == Errc::deadline_exceeded);
  // The actor answers when the method has ended.
  CHECK(must(members[0].call(place_of).get()).text() == "0 of 2");
  CHECK(code_of(members[1].call(meet).get()) == Errc::deadline_exceeded);
}

TEST_CASE("members that call different operations learn what two of them called", "[collective]") {
  auto cluster = embed_peers();
  const auto members = spawn_peers(cluster, 2);
  const auto differ = [&](Future<Vector> first, Future<Vector> second, std::string_view one, std::string_view other) {
    for (auto* call : {&first, &second}) {
      const auto answer = call->get();
      CHECK(code_of(answer) == Errc::invalid_argument);
      CHECK(says(answer, one));
      CHECK(says(answer, other));
    }
  };
  must(form_collective(members));
  differ(members[0].call(reduce, vector_of({1, 2})), members[1].call(reduce, vector_of({1})),
         "rank 0 of 2 (a) all_reduce of 2 f32 by sum", "rank 1 of 2 (b) all_reduce of 1 f32 by sum");
  must(form_collective(members));
  differ(members[0].call(reduce, vector_of({})), members[1].call(spread, vector_of({1, 1})),
         "rank 0 of 2 (a) all_reduce of 0 f32 by sum", "rank 1 of 2 (b) broadcast of 1 f32 from rank 1");
  must(form_collective(members));
  differ(members[0].call(gather, vector_of({1})), members[1].call(reduce_by, vector_of({3, 1})),
         "rank 0 of 2 (a) all_gather of 2 f32 in all", "rank 1 of 2 (b) all_reduce of 1 i64 by max");
}

TEST_CASE("a root that no member is, and a group that was never formed, are refused", "[collective]") {
  auto cluster = embed_peers();
  const auto members = spawn_peers(cluster, 2);
  const auto alone = members[0].call(reduce, vector_of({1})).get();
  CHECK(code_of(alone) == Errc::invalid_argument);
  CHECK(says(alone, "form_collective"));
  must(form_collective(members));
  const auto refused = members[0].call(spread, vector_of({2, 1})).get();
  CHECK(code_of(refused) == Errc::invalid_argument);
  CHECK(says(refused, "rank 2 is none of 0 to 1"));
  // The other one does not wait for it.
  const auto other = members[1].call(reduce, vector_of({1})).get();
  CHECK(code_of(other) == Errc::invalid_argument);
  CHECK(says(other, "rank 0 of 2 (a) could not take part in broadcast"));
}

TEST_CASE("a group that is formed anew ends the operations of the one before", "[collective]") {
  auto cluster = embed_peers();
  const auto members = spawn_peers(cluster, 4);
  must(form_collective(members));
  auto meeting = begin_to_meet({members[0], members[1], members[2]});
  const std::vector others{members[2], members[1]};
  must(form_collective(others));
  CHECK(code_of(meeting[1].get()) == Errc::cancelled);
  CHECK(code_of(meeting[2].get()) == Errc::cancelled);
  // One that is left over learns that the others are elsewhere.
  CHECK_FALSE(meeting[0].get().has_value());
  check_all_sum(others);
  const std::vector all{members[3], members[0], members[2], members[1]};
  must(form_collective(all));
  check_all_sum(all);
}

TEST_CASE("two groups beside each other do not disturb each other", "[collective]") {
  auto cluster = embed_peers();
  const auto members = spawn_peers(cluster, 4);
  const std::vector first{members[0], members[2]};
  const std::vector second{members[1], members[3]};
  must(form_collective(first));
  must(form_collective(second));
  auto meeting = begin_to_meet({first[0]});
  check_all_sum(second);
  CHECK(first[1].call(meet).get().has_value());
  CHECK(meeting[0].get().has_value());
}

TEST_CASE("a program and a member can end a group for all", "[collective]") {
  auto cluster = embed_peers();
  const auto members = spawn_peers(cluster, 3);
  const auto group = must(form_collective(members));
  auto meeting = begin_to_meet({members[0], members[1]});
  group.abort("the data are bad");
  for (auto& call : meeting) {
    const auto met = call.get();
    CHECK(code_of(met) == Errc::cancelled);
    CHECK(says(met, "the data are bad"));
  }
  must(form_collective(members));
  meeting = begin_to_meet({members[0], members[1]});
  group.abort("of a group that is no more");
  REQUIRE(members[2].call(give_up, text("no room")).get().has_value());
  for (auto& call : meeting) {
    const auto met = call.get();
    CHECK(code_of(met) == Errc::cancelled);
    CHECK(says(met, "rank 2 of 3 (c) gave up: no room"));
  }
}

TEST_CASE("a group that cannot be is refused, with the rank that is wrong", "[collective]") {
  auto cluster = embed_peers();
  const auto members = spawn_peers(cluster, 2);
  CHECK(code_of(form_collective({})) == Errc::invalid_argument);
  const auto empty = form_collective({members[0], ActorRef{}});
  CHECK(code_of(empty) == Errc::invalid_argument);
  CHECK(says(empty, "rank 1 is empty"));
  const auto twice = form_collective({members[0], members[1], members[0]});
  CHECK(code_of(twice) == Errc::invalid_argument);
  CHECK(says(twice, "a would have the ranks 0 and 2"));
  const auto lonely = must(cluster.spawn("lonely"));
  const auto without = form_collective({members[0], lonely});
  CHECK(code_of(without) == Errc::not_found);
  CHECK(says(without, "derives from gpuactors::WithPeers"));
  must(cluster.kill(members[1]));
  const auto dead = form_collective(members);
  CHECK(is_loss(code_of(dead)));
  CHECK(says(dead, "rank 1 of 2 (b) did not join"));
  CHECK_FALSE(says(dead, "derives from"));
  // Who had joined does not wait for those who could not.
  CHECK_FALSE(members[0].call(meet).get().has_value());
}

TEST_CASE("what no member would send is refused or ends the group, and how much may wait is bounded", "[collective]") {
  auto cluster = embed_peers();
  const auto members = spawn_peers(cluster, 2);
  const auto group = must(form_collective(members));
  const auto tell = [&](const v1::CollectiveCall& call) {
    return static_cast<Errc>(must(members[0].call(collective_method, call).get()).code());
  };
  v1::CollectiveCall call;
  CHECK(code_of(members[0].call(collective_method, call).get()) == Errc::invalid_argument);
  call.set_generation(group.generation() ^ 2U);
  call.mutable_piece()->set_number(1);
  CHECK(tell(call) == Errc::stale_epoch);
  call.set_generation(group.generation());
  SECTION("pieces that come before their turn") {
    std::vector<Future<v1::CollectiveAnswer>> early;
    for (int i = 0; i < 33; ++i)
      early.push_back(members[0].call(collective_method, call));
    for (auto& piece : early)
      CHECK(must(piece.get()).code() == static_cast<std::uint32_t>(Errc::internal));
    CHECK(says(members[0].call(meet).get(), "33 pieces came to rank 0 of 2 (a) before their turn, and 32 are allowed"));
  }
  SECTION("an operation that is not known") {
    auto meeting = begin_to_meet({members[0]});
    call.mutable_piece()->mutable_operation()->set_kind(99);
    static_cast<void>(members[0].call(collective_method, call).get());
    CHECK(says(meeting[0].get(), "kind 99"));
  }
  SECTION("a piece of an operation that is over") {
    call.mutable_piece()->set_number(0);
    CHECK(tell(call) == Errc::internal);
    CHECK(says(members[1].call(meet).get(), "a piece of operation 0 came to rank 0 of 2 (a), which is at operation 0"));
  }
}
