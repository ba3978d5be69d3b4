// How the calls of members and the operations in them go together: calls that are over, that have no memory, that find
// no room or nobody.
#include "peers.hpp"

#include <support/catch.hpp>
#include <support/eventually.hpp>

#include <span>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;
using google::protobuf::Empty;

namespace {

std::atomic<bool>& gate() {
  static std::atomic<bool> open{false};
  return open;
}

class Latecomer : public WithPeers<Actor> {
public:
  using WithPeers::WithPeers;

  /// Sums when its call is over and the gate open.
  Result<void> sum_late(const Empty&) {
    ++meetings();
    if (!eventually([this] { return gate() && (stop_requested() || Clock::now() >= deadline()); }))
      return fail(Errc::internal, "the gate stays closed");
    std::vector<float> values{1000};
    return peers().all_reduce(values);
  }

  Result<Vector> sum(const Vector& array) {
    std::vector<float> values{array.values().begin(), array.values().end()};
    GPUACTORS_TRY(peers().all_reduce(values));
    return vector_of(values);
  }

  /// Of so many elements that no memory has room for those of two.
  Result<void> gather_too_much(const Empty&) {
    const float one = 1;
    GPUACTORS_TRY(peers().all_gather(std::span<const float>{&one, std::size_t{1} << 60U}));
    return {};
  }
};

GPUACTORS_ACTOR("latecomer", Latecomer)
    .method("sum_late", &Latecomer::sum_late)
    .method(reduce, &Latecomer::sum)
    .method("gather_too_much", &Latecomer::gather_too_much);

std::vector<ActorRef> spawn_two(Cluster& cluster) {
  std::vector<ActorRef> members;
  for (const auto* name : {"a", "b"})
    members.push_back(must(cluster.spawn("latecomer", {}, {.name = name})));
  return members;
}

void check_sums_of_two(const std::vector<ActorRef>& members) {
  const auto sums = values_of(call_each(members, reduce, {vector_of({1}), vector_of({2})}));
  CHECK(sums == std::vector<std::vector<float>>(2, {3}));
}

} // namespace

TEST_CASE("a method that goes on after its caller has the answer takes no part in the next group", "[collective]") {
  auto cluster = embed_peers();
  const auto members = spawn_two(cluster);
  must(form_collective(members));
  meetings() = 0;
  gate() = false;
  SECTION("at the deadline of its call") {
    CHECK(code_of(members[0].call("sum_late", Empty{}, 50ms).get()) == Errc::deadline_exceeded);
  }
  SECTION("when its call was cancelled") {
    auto late = members[0].call("sum_late");
    REQUIRE(eventually([] { return meetings() == 1; }));
    late.cancel();
  }
  must(form_collective(members));
  gate() = true;
  check_sums_of_two(members);
}

TEST_CASE("a member that has no memory for an operation ends it for all, and sums again in the next group",
          "[collective]") {
  auto cluster = embed_peers();
  const auto members = spawn_two(cluster);
  must(form_collective(members));
  const auto refused = members[0].call("gather_too_much").get();
  CHECK(code_of(refused) == Errc::out_of_memory);
  const auto other = members[1].call(reduce, vector_of({2})).get();
  CHECK(code_of(other) == Errc::out_of_memory);
  CHECK(says(other, "rank 0 of 2 (a) could not take part in all_gather"));
  must(form_collective(members));
  check_sums_of_two(members);
}

TEST_CASE("a member that takes no more calls is not said to be gone", "[collective]") {
  auto cluster = embed_peers();
  std::vector<ActorRef> members;
  for (const auto* name : {"a", "b"})
    members.push_back(must(cluster.spawn(peer, {}, {.name = name, .max_pending_calls = 4})));
  must(form_collective(members));
  // Six pieces at once, to one that has not begun.
  const auto sums = members[0].call(reduce, arrays_of(1, 700'000).front()).get();
  CHECK(code_of(sums) == Errc::unavailable);
  CHECK(says(sums, "rank 1 of 2 (b) takes no more calls"));
  CHECK(says(sums, "members of groups allow 20 or more"));
}

TEST_CASE("a member says which neighbour it has not found", "[collective]") {
  auto cluster = embed_peers();
  const auto members = spawn_peers(cluster, 2);
  v1::CollectiveCall call;
  call.set_generation(1);
  for (const auto& member : members)
    *call.mutable_join()->add_members() = member.to_message();
  must(cluster.kill(members[1]));
  const auto joined = members[0].call(collective_method, call).get();
  CHECK(code_of(joined) == Errc::unavailable);
  CHECK(says(joined, "rank 1 of 2 (b) is gone: "));
}
