// One member of a group, driven by hand: what is hard to meet with whole groups.
#include "peers.hpp"

#include <gpuactors/collective/detail/member.hpp>

#include <support/catch.hpp>
#include <support/eventually.hpp>

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>

using namespace gpuactors;
using namespace gpuactors::test;
using detail::Member;
using detail::Operation;
using detail::OperationKind;
using detail::Patience;

namespace {

/// A member that takes everything and says nothing.
class Sink : public Actor {
public:
  using Actor::Actor;

  [[nodiscard]] v1::CollectiveAnswer take(const v1::CollectiveCall&) const {
    return {};
  }
};

// Members wait in methods for what this one takes: it would wait for them.
template <class B>
concept CanBeAnyMethod = requires(B builder) {
  builder.method(collective_method, &Sink::take);
};
static_assert(!CanBeAnyMethod<ActorTypeBuilder<Sink>>);

GPUACTORS_ACTOR("sink", Sink).concurrent_method(collective_method, &Sink::take);

constexpr std::size_t sent_count = 3;
const Operation three_from_one{OperationKind::broadcast, DType::f32, Reduction::sum, sent_count, 1};
const std::array<float, sent_count> sent_values{1, 2, 3};

/// Rank 0 of two, whose neighbour takes everything.
struct OneOfTwo {
  Cluster cluster = embed_peers();
  ActorRef sink = must(cluster.spawn("sink"));
  std::shared_ptr<Member> member = std::make_shared<Member>();

  void join(std::uint64_t generation) {
    member->join({generation, 0, {"a", "b"}}, sink);
    must(member->start(generation));
  }

  /// What comes from rank 1 in a broadcast.
  [[nodiscard]] static v1::CollectivePiece piece() {
    v1::CollectivePiece piece;
    piece.set_number(1);
    *piece.mutable_operation() = to_message(three_from_one);
    piece.set_count(sent_count);
    piece.set_values(sent_values.data(), sizeof(sent_values));
    return piece;
  }
};

Errc code_of_answer(Future<v1::CollectiveAnswer> answer) {
  return static_cast<Errc>(must(answer.get()).code());
}

} // namespace

TEST_CASE("an operation that is done stays done when the group ends before its thread has seen it", "[collective]") {
  OneOfTwo pair;
  // The two follow each other so closely that the thread of the operation hardly ever comes between them.
  for (std::uint64_t generation = 2; generation < 200; generation += 2) {
    pair.join(generation);
    std::array<float, sent_count> values{};
    std::atomic<int> looks{0};
    Result<void> ended;
    std::thread operation{[&] {
      const auto stop = [&] {
        ++looks;
        return false;
      };
      ended = pair.member->run(generation, three_from_one, std::as_writable_bytes(std::span{values}), {stop});
    }};
    // The second look is that of one who waits.
    CHECK(eventually([&] { return looks > 1; }));
    CHECK(code_of_answer(pair.member->take(generation, OneOfTwo::piece())) == Errc::none);
    if (generation % 4 == 0)
      pair.member->abort(generation, {Errc::unavailable, "rank 1 of 2 (b) is gone"});
    else
      pair.join(generation + 1);
    operation.join();
    CHECK(ended.has_value());
    CHECK(values == sent_values);
  }
}

TEST_CASE("a call that is over takes part in no group that it has begun nothing in, and does not end it",
          "[collective]") {
  OneOfTwo pair;
  pair.join(1);
  const auto past = Clock::now();
  const auto yes = [] { return true; };
  const auto no = [] { return false; };
  // A caller takes its call back at the deadline, so that both are true then.
  const Patience late{yes, past, past};
  const Patience cancelled{yes};
  CHECK(code_of(pair.member->await_place(late)) == Errc::deadline_exceeded);
  CHECK(code_of(pair.member->await_place(cancelled)) == Errc::cancelled);
  std::array<float, sent_count> values{};
  const auto run = [&](const Patience& patience) {
    return pair.member->run(1, three_from_one, std::as_writable_bytes(std::span{values}), patience);
  };
  auto early = pair.member->take(1, OneOfTwo::piece());
  CHECK(code_of(run(late)) == Errc::deadline_exceeded);
  CHECK(code_of(run(cancelled)) == Errc::cancelled);
  CHECK_FALSE(early.ready());
  CHECK(values == std::array<float, sent_count>{});
  CHECK_FALSE(pair.member->ended());
  must(pair.member->await_place({no}));
  must(run({no}));
  CHECK(values == sent_values);
  // It is in the group now: others wait for it.
  const auto stopped = run(cancelled);
  CHECK(code_of(stopped) == Errc::cancelled);
  CHECK(says(stopped, "this member, rank 0 of 2 (a), was asked to stop during broadcast"));
  CHECK(code_of_answer(pair.member->watch(1)) == Errc::unavailable);
  CHECK(says(*pair.member->ended(), "this member"));
}

TEST_CASE("an operation ends at its own timeout for all, also the first one of a group", "[collective]") {
  OneOfTwo pair;
  pair.join(1);
  CHECK(code_of(pair.member->await_place({[] { return false; }, never, Clock::now()})) == Errc::deadline_exceeded);
  CHECK(code_of_answer(pair.member->watch(1)) == Errc::deadline_exceeded);
}

TEST_CASE("a loss of one member's device or lease is none of the others", "[collective]") {
  OneOfTwo pair;
  std::uint64_t generation = 0;
  for (const auto& [code, told] :
       {std::pair{Errc::context_lost, Errc::unavailable}, std::pair{Errc::device_lost, Errc::unavailable},
        std::pair{Errc::stale_epoch, Errc::unavailable}, std::pair{Errc::out_of_memory, Errc::out_of_memory}}) {
    pair.join(++generation);
    auto watched = pair.member->watch(generation);
    CHECK(pair.member->refuse(generation, "barrier", {code, "the device has gone"}).error().code() == code);
    const auto answer = must(watched.get());
    CHECK(answer.code() == static_cast<std::uint32_t>(told));
    CHECK_FALSE(answer.elsewhere());
    CHECK(answer.text() == "rank 0 of 2 (a) could not take part in barrier: the device has gone");
  }
  // One that is told of an earlier group ends no later one.
  pair.join(++generation);
  static_cast<void>(pair.member->refuse(generation - 1, "barrier", {Errc::device_lost, "the device has gone"}));
  CHECK_FALSE(pair.member->ended());
  CHECK(must(pair.member->watch(generation - 1).get()).elsewhere());
}

TEST_CASE("a piece that cannot wait for its turn ends the group", "[collective]") {
  OneOfTwo pair;
  std::uint64_t generation = 0;
  auto piece = OneOfTwo::piece();
  const auto refused = [&](const v1::CollectivePiece& wrong, std::string_view why) {
    pair.join(++generation);
    piece.set_number(2);
    auto waits = pair.member->take(generation, piece);
    CHECK_FALSE(waits.ready());
    CHECK(code_of_answer(pair.member->take(generation, wrong)) == Errc::internal);
    CHECK(code_of_answer(std::move(waits)) == Errc::internal);
    CHECK(says(*pair.member->ended(), why));
  };
  auto wrong = piece;
  refused(wrong, "of operation 1 came to rank 0 of 2 (a) before its turn");
  wrong.set_number(17);
  refused(wrong, "of operations 2 to 16, may come now");
  wrong.set_number(2);
  wrong.set_values(std::string((std::size_t{256} << 10) + 1, 'x'));
  refused(wrong, "262145 B");
}
