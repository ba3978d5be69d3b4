// Streams that stay open: credit, what waits, and the one answer.
#include <gpuactors/actor/holder_control.hpp>
#include <gpuactors/actor/hosted_stream.hpp>
#include <gpuactors/actor/posts.hpp>
#include <gpuactors/base/limits.hpp>

#include <support/catch.hpp>
#include <support/messages.hpp>

#include <limits>
#include <memory>
#include <string>
#include <vector>

using namespace gpuactors;
using namespace gpuactors::test;
using detail::HostedStream;
using detail::Posts;

namespace {

/// A stream, and what its caller gets.
struct Played {
  explicit Played(TimePoint deadline = never, bool in_method = false) {
    detail::StreamWay way;
    way.call = CallId{7};
    way.deadline = deadline;
    way.send = [this](StreamItem item) { items += std::move(item.payload).take_as<Text>().value().text(); };
    way.reply = [this](Result<Payload> end) { ends.push_back(end ? "end" : end.error().message()); };
    way.reader_is_there = [this] { return reader_is_there; };
    way.why_ended = [] { return Error{Errc::actor_died, "the actor is gone"}; };
    stream = std::make_shared<HostedStream>(std::move(way));
    if (!in_method)
      stream->method_returned(Payload{});
  }

  Result<void> write(const std::string& item) const {
    return stream->write(Payload::of(text(item)));
  }

  std::shared_ptr<HostedStream> stream;
  std::string items;
  std::vector<std::string> ends;
  bool reader_is_there = true;
};

using Ends = std::vector<std::string>;

} // namespace

TEST_CASE("items go out as far as there is credit, and the rest in order when there is more", "[actor]") {
  Played played;
  played.stream->credit(2);
  for (const auto* item : {"a", "b", "c", "d", "e"})
    REQUIRE(played.write(item).has_value());
  CHECK(played.items == "ab");
  CHECK(played.stream->waiting() == 3);
  played.stream->credit(2);
  REQUIRE(played.write("f").has_value());
  CHECK(played.items == "abcd");
  played.stream->finish({});
  CHECK(played.ends.empty());
  CHECK(played.write("g").error().code() == Errc::invalid_argument);
  played.stream->credit(1);
  CHECK(played.ends.empty());
  played.stream->credit(1);
  CHECK(played.items == "abcdef");
  CHECK(played.ends == Ends{"end"});
  // Only the first end counts.
  played.stream->finish(fail(Errc::internal, "another"));
  played.stream->withdraw();
  CHECK(played.ends == Ends{"end"});
}

TEST_CASE("large items wait for those on their way to be taken, however much credit there is", "[actor]") {
  Played played;
  played.stream->begin(limits::stream_window - 2); // two went before
  const std::string large(limits::stream_window_bytes / 2, 'x');
  for (int i = 0; i < 3; ++i)
    REQUIRE(played.write(large).has_value());
  CHECK(played.items.size() == 2 * large.size());
  CHECK(played.stream->waiting() == 1);
  // These are the two before.
  played.stream->credit(2);
  CHECK(played.stream->waiting() == 1);
  played.stream->credit(1);
  CHECK(played.stream->waiting() == 0);
  // One that is larger than the window goes when there is room for something.
  REQUIRE(played.write(std::string(2 * limits::stream_window_bytes, 'y')).has_value());
  CHECK(played.stream->waiting() == 1);
  played.stream->credit(1);
  CHECK(played.stream->waiting() == 0);
}

TEST_CASE("an end without items before it is told at once", "[actor]") {
  Played played;
  played.stream->finish(fail(Errc::unavailable, "not now"));
  CHECK(played.ends == Ends{"not now"});
  CHECK(played.stream->stop_requested());
}

TEST_CASE("a stream whose reader is gone takes nothing, and lets go of what waits", "[actor]") {
  Played played;
  REQUIRE(played.write("a").has_value());
  CHECK_FALSE(played.stream->stop_requested());
  played.stream->look();
  played.stream->finish({});
  CHECK(played.ends.empty());
  played.reader_is_there = false;
  CHECK(played.write("b").error().code() == Errc::invalid_argument);
  played.stream->look();
  CHECK(played.stream->waiting() == 0);
  CHECK(played.ends == Ends{"the actor is gone"});

  Played open;
  open.reader_is_there = false;
  CHECK(open.stream->stop_requested());
  CHECK(open.write("a").error().code() == Errc::cancelled);
  open.stream->look();
  CHECK(open.ends.empty());
  open.stream->finish({});
  CHECK(open.ends == Ends{"the actor is gone"});
}

TEST_CASE("a reader never takes a part of a stream for all of it", "[actor]") {
  Played played;
  REQUIRE(played.write("a").has_value());
  played.stream->finish({});
  played.stream->withdraw();
  CHECK(played.ends == Ends{"the actor is gone"});
  // Credit that comes late changes nothing.
  played.stream->credit(5);
  CHECK(played.items.empty());
  CHECK(played.ends.size() == 1);
}

TEST_CASE("a producer that is refused and then finishes in order does not make a part the whole", "[actor]") {
  Played played;
  REQUIRE(played.write("a").has_value());
  played.stream->withdraw();
  CHECK(played.write("b").error().code() == Errc::cancelled);
  played.stream->finish({});
  CHECK(played.ends == Ends{"the actor is gone"});

  Played late{Clock::now()};
  CHECK_FALSE(late.write("a").has_value());
  late.stream->finish({});
  CHECK(late.ends == Ends{"the call's deadline has passed"});
}

TEST_CASE("an error ends a stream at once, whatever waits for its reader", "[actor]") {
  Played played;
  REQUIRE(played.write("a").has_value());
  played.stream->finish(fail(Errc::queue_full, "too slow"));
  CHECK(played.ends == Ends{"too slow"});
  CHECK(played.stream->waiting() == 0);
  played.stream->credit(5);
  CHECK(played.items.empty());
}

TEST_CASE("what a method says, or promises, counts more than that it dropped its stream", "[actor]") {
  Played failed{never, true};
  failed.stream->drop();
  CHECK(failed.ends.empty());
  failed.stream->method_returned(fail(Errc::unavailable, "the reason"));
  CHECK(failed.ends == Ends{"the reason"});

  Played promised{never, true};
  promised.stream->promise_end();
  promised.stream->drop();
  promised.stream->method_returned(Payload{});
  promised.stream->drop();
  CHECK(promised.ends.empty());
  promised.stream->finish({});
  CHECK(promised.ends == Ends{"end"});

  Played dropped{never, true};
  dropped.stream->drop();
  dropped.stream->method_returned(Payload{});
  CHECK(dropped.ends == Ends{"the stream was dropped without an end"});
}

TEST_CASE("more credit than a reader can owe is none", "[actor]") {
  Played played;
  played.stream->credit(std::numeric_limits<std::uint32_t>::max());
  played.stream->credit(1);
  for (std::uint32_t i = 0; i <= limits::stream_window; ++i)
    REQUIRE(played.write("x").has_value());
  CHECK(played.items.size() == limits::stream_window);
  // Now it owes so many.
  played.stream->credit(std::numeric_limits<std::uint32_t>::max());
  CHECK(played.items.size() == limits::stream_window + 1);
  CHECK(played.stream->waiting() == 0);
}

TEST_CASE("a stream that is withdrawn says so to its producer, once to each who asks", "[actor]") {
  Played played;
  int told = 0;
  played.stream->on_withdraw([&] { ++told; });
  played.stream->withdraw();
  played.stream->withdraw();
  CHECK(told == 1);
  played.stream->on_withdraw([&] { ++told; });
  CHECK(told == 2);
  CHECK(played.write("a").error().code() == Errc::cancelled);
  CHECK(played.stream->stop_requested());
}

TEST_CASE("a stream takes nothing after its call's deadline", "[actor]") {
  Played played{Clock::now()};
  played.stream->credit(1);
  CHECK(played.write("a").error().code() == Errc::deadline_exceeded);
  CHECK(played.stream->stop_requested());
}

TEST_CASE("the bytes that wait in a stream are bounded, and an item that is too large is refused", "[actor]") {
  Played played;
  const std::string half(limits::open_stream_bytes / 2 - 64, 'x');
  REQUIRE(played.write(half).has_value());
  REQUIRE(played.write(half).has_value());
  const auto full = played.write(half);
  CHECK(full.error().code() == Errc::queue_full);
  CHECK(full.error().message().find("2 items of ") == 0);
  CHECK(played.write(std::string(limits::payload_bytes, 'x')).error().code() == Errc::invalid_argument);
  played.stream->credit(1);
  CHECK(played.write(half).has_value());
  CHECK(played.stream->waiting() == 2);
}

TEST_CASE("the control of a holder passes credit and withdrawals to the streams that were kept", "[actor]") {
  HolderControl control;
  std::uint32_t credit = 0;
  int withdrawn = 0;
  const auto count_credit = [&](std::uint32_t items) { credit += items; };
  const auto count_withdrawal = [&] { ++withdrawn; };
  REQUIRE(control.begin(CallId{1}, 32).has_value());
  REQUIRE(control.take_credit(never));
  CHECK(control.keep(CallId{1}, count_withdrawal, count_credit) == 31);
  control.credit(CallId{1}, 1);
  control.end();
  control.credit(CallId{1}, 2);
  CHECK(credit == 3);
  // The next call has credit of its own.
  REQUIRE(control.begin(CallId{2}, 5).has_value());
  control.credit(CallId{2}, 1);
  control.credit(CallId{1}, 4);
  CHECK(credit == 7);
  CHECK(control.keep(CallId{2}, count_withdrawal, count_credit) == 6);
  control.end();
  CHECK(control.cancel(CallId{1}));
  CHECK(withdrawn == 1);
  control.credit(CallId{1}, 8);
  CHECK(credit == 7);
  control.settle(CallId{2});
  control.stop_all();
  CHECK(withdrawn == 1);
}

TEST_CASE("a stream that is kept in a call that was cancelled is withdrawn at once", "[actor]") {
  HolderControl control;
  int withdrawn = 0;
  REQUIRE(control.begin(CallId{1}, 32).has_value());
  CHECK(control.cancel(CallId{1}));
  CHECK(control.keep(
            CallId{1}, [&] { ++withdrawn; }, [](std::uint32_t) {})
        == 0);
  CHECK(withdrawn == 1);
}

TEST_CASE("a method that has kept its stream and still runs is asked to stop when its call is cancelled", "[actor]") {
  HolderControl control;
  int withdrawn = 0;
  REQUIRE(control.begin(CallId{1}, 32).has_value());
  CHECK(control.keep(
            CallId{1}, [&] { ++withdrawn; }, [](std::uint32_t) {})
        == 32);
  CHECK(control.cancel(CallId{1}));
  CHECK(control.stop_requested());
  CHECK(withdrawn == 1);
}

TEST_CASE("between calls, a holder is asked to stop only by its end", "[actor]") {
  HolderControl control;
  REQUIRE(control.begin(CallId{1}, 0).has_value());
  control.cancel(CallId{1});
  CHECK(control.stop_requested());
  control.end();
  CHECK_FALSE(control.stop_requested());
  control.stop_all();
  CHECK(control.stop_requested());
}

TEST_CASE("functions wait for their actor's thread in order, by number or not at all", "[actor]") {
  std::vector<std::uint64_t> woken;
  Posts posts{[&](std::uint64_t number) { woken.push_back(number); }};
  std::string ran;
  REQUIRE(posts.push(Duration::zero(), [&] { ran += "a"; }));
  REQUIRE(posts.push(std::chrono::hours{1}, [&] { ran += "later"; }));
  REQUIRE(posts.push(Duration{-1}, [&] { ran += "b"; }));
  CHECK(woken == std::vector<std::uint64_t>{0, 1, 0});
  CHECK(posts.wait_of(1) > std::chrono::minutes{59});
  CHECK(posts.wait_of(2) == Duration::zero());
  posts.take(0)();
  posts.take(0)();
  CHECK_FALSE(posts.take(0));
  posts.take(1)();
  CHECK_FALSE(posts.take(1));
  CHECK(ran == "ablater");
  auto token = std::make_shared<int>();
  REQUIRE(posts.push(Duration::max(), [token] {}));
  posts.close();
  CHECK(token.use_count() == 1);
  CHECK_FALSE(posts.push(Duration::zero(), [token] {}));
  CHECK(token.use_count() == 1);
}
