#include <gpuactors/actor/holder_control.hpp>
#include <gpuactors/base/limits.hpp>

#include <support/catch.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

using namespace gpuactors;

TEST_CASE("a call that is taken back before it began never begins; one that has begun is left alone", "[actor]") {
  HolderControl control;
  REQUIRE(control.begin(CallId{1}, 0).value());
  CHECK_FALSE(control.take_back(CallId{1}));
  CHECK_FALSE(control.stop_requested());
  CHECK(control.take_back(CallId{2}));
  CHECK_FALSE(control.take_back(CallId{2}));
  control.end();
  CHECK_FALSE(control.take_back(CallId{1}));
  CHECK_FALSE(control.begin(CallId{2}, 0).value());
  CHECK(control.begin(CallId{3}, 0).value());
}

TEST_CASE("a call that was cancelled while it waited does not begin", "[actor]") {
  HolderControl control;
  control.cancel(CallId{1});
  CHECK(control.begin(CallId{1}, 0).error().code() == Errc::cancelled);
  // Once: another call under the same number is another call.
  CHECK(control.begin(CallId{1}, 0).has_value());
}

TEST_CASE("cancelling the running call asks it to stop, and the next one starts fresh", "[actor]") {
  HolderControl control;
  REQUIRE(control.begin(CallId{1}, 0).has_value());
  CHECK_FALSE(control.stop_requested());
  control.cancel(CallId{1});
  CHECK(control.stop_requested());
  control.end();
  REQUIRE(control.begin(CallId{2}, 0).has_value());
  CHECK_FALSE(control.stop_requested());
}

TEST_CASE("calls that run beside the others are cancelled one by one, and end with the holder", "[actor]") {
  constexpr auto beside = CallThread::concurrent;
  HolderControl control;
  REQUIRE(control.begin(CallId{1}, 0).has_value());
  REQUIRE(control.begin(CallId{2}, 0, beside).has_value());
  CHECK(control.cancel(CallId{2}));
  CHECK(control.stop_requested(beside));
  CHECK_FALSE(control.stop_requested());
  control.end(beside);
  CHECK(control.calls() == 1);
  CHECK_FALSE(control.cancel(CallId{3}));
  CHECK(control.begin(CallId{3}, 0, beside).error().code() == Errc::cancelled);
  REQUIRE(control.begin(CallId{4}, 0, beside).has_value());
  CHECK_FALSE(control.stop_requested(beside));
  // Its answer comes later; the next one runs meanwhile.
  int withdrawn = 0;
  control.defer(
      CallId{4}, [&] { ++withdrawn; }, beside);
  control.end(beside);
  REQUIRE(control.begin(CallId{5}, 0, beside).has_value());
  control.revoke({Errc::lease_revoked, "taken away"});
  CHECK(withdrawn == 1);
  CHECK(control.stop_requested());
  CHECK(control.stop_requested(beside));
  control.end(beside);
  CHECK(control.begin(CallId{6}, 0, beside).error().code() == Errc::lease_revoked);
}

TEST_CASE("cancelling another call leaves the running one alone", "[actor]") {
  HolderControl control;
  REQUIRE(control.begin(CallId{1}, 0).has_value());
  control.cancel(CallId{2});
  control.cancel(CallId{});
  CHECK_FALSE(control.stop_requested());
}

TEST_CASE("cancellations that come too late are forgotten, the oldest first", "[actor]") {
  HolderControl control;
  for (std::uint64_t i = 1; i <= limits::remembered_cancellations + 1; ++i)
    control.cancel(CallId{i});
  CHECK(control.begin(CallId{1}, 0).has_value());
  control.end();
  CHECK(control.begin(CallId{2}, 0).error().code() == Errc::cancelled);
  CHECK(control.begin(CallId{limits::remembered_cancellations + 1}, 0).error().code() == Errc::cancelled);
}

TEST_CASE("whoever cancels calls that never come makes the holder forget no call that another one has cancelled",
          "[actor]") {
  HolderControl control;
  control.cancel(CallId{1}, "ann");
  control.take_back(CallId{2}, "ann");
  constexpr std::uint64_t first = 10;
  for (auto i = first; i <= first + limits::remembered_cancellations_per_name; ++i) {
    control.cancel(CallId{i}, "bob");
    control.take_back(CallId{i + (1U << 20)}, "bob");
  }
  CHECK(control.begin(CallId{1}, 0).error().code() == Errc::cancelled);
  CHECK_FALSE(control.begin(CallId{2}, 0).value());
  // Bob's own oldest ones are forgotten.
  CHECK(control.begin(CallId{first}, 0).value());
  control.end();
  CHECK(control.begin(CallId{first + 1}, 0).error().code() == Errc::cancelled);
}

TEST_CASE("calls that were taken back and never come are forgotten, the oldest first", "[actor]") {
  HolderControl control;
  for (std::uint64_t i = 1; i <= limits::remembered_cancellations + 1; ++i)
    control.take_back(CallId{i});
  CHECK(control.begin(CallId{1}, 0).value());
  control.end();
  CHECK_FALSE(control.begin(CallId{2}, 0).value());
  CHECK_FALSE(control.begin(CallId{limits::remembered_cancellations + 1}, 0).value());
}

TEST_CASE("who waits for credit is let go when nobody is left to give any", "[actor]") {
  HolderControl control;
  REQUIRE(control.begin(CallId{1}, 1).has_value());
  CHECK(control.take_credit(never, [] { return true; }));
  int looks = 0;
  CHECK_FALSE(control.take_credit(never, [&] { return ++looks < 2; }));
  CHECK(looks == 2);
}

TEST_CASE("a method that gets on is busy since it did: by saving, by an item, or by its word", "[actor]") {
  HolderControl control;
  control.on_save([](const Payload&) {});
  const auto long_ago = Clock::now() - std::chrono::hours{1};
  const auto gets_on = [&](const std::function<void()>& by) {
    REQUIRE(control.begin(CallId{1}, 1, CallThread::own, "train", long_ago).has_value());
    CHECK(control.busy()->since == long_ago);
    by();
    CHECK(control.busy()->since > long_ago);
    control.end();
  };
  gets_on([&] { control.get_on(); });
  gets_on([&] { control.save({}); });
  gets_on([&] { CHECK(control.take_credit(never, [] { return true; })); });
  // Nothing runs, and so nothing gets on.
  control.get_on();
  CHECK_FALSE(control.busy());
}

TEST_CASE("a deferred call that is cancelled is withdrawn once", "[actor]") {
  HolderControl control;
  int withdrawn = 0;
  REQUIRE(control.begin(CallId{1}, 0).has_value());
  control.defer(CallId{1}, [&] { ++withdrawn; });
  control.end();
  control.cancel(CallId{1});
  control.cancel(CallId{1});
  CHECK(withdrawn == 1);
}

TEST_CASE("a deferred call that has its answer is not withdrawn", "[actor]") {
  HolderControl control;
  int withdrawn = 0;
  REQUIRE(control.begin(CallId{1}, 0).has_value());
  control.defer(CallId{1}, [&] { ++withdrawn; });
  control.end();
  CHECK(control.is_deferred(CallId{1}));
  CHECK_FALSE(control.is_deferred(CallId{2}));
  control.settle(CallId{1});
  CHECK_FALSE(control.is_deferred(CallId{1}));
  control.cancel(CallId{1});
  control.stop_all();
  CHECK(withdrawn == 0);
}

TEST_CASE("a call that was asked to stop before it is deferred is withdrawn at once", "[actor]") {
  HolderControl control;
  int withdrawn = 0;
  REQUIRE(control.begin(CallId{1}, 0).has_value());
  control.cancel(CallId{1});
  control.defer(CallId{1}, [&] { ++withdrawn; });
  CHECK(withdrawn == 1);
}

TEST_CASE("a holder that ends stops what runs, withdraws what was deferred and begins nothing", "[actor]") {
  HolderControl control;
  int withdrawn = 0;
  REQUIRE(control.begin(CallId{1}, 0).has_value());
  control.defer(CallId{1}, [&] { ++withdrawn; });
  control.end();
  REQUIRE(control.begin(CallId{2}, 0).has_value());
  control.stop_all();
  CHECK(withdrawn == 1);
  CHECK(control.stop_requested());
  control.end();
  CHECK(control.begin(CallId{3}, 0).error().code() == Errc::not_begun);
}

TEST_CASE("a deferred call that the holder's end has withdrawn has run, and is not taken back", "[actor]") {
  HolderControl control;
  REQUIRE(control.begin(CallId{1}, 0).value());
  control.defer(CallId{1}, [] {});
  control.end();
  REQUIRE(control.begin(CallId{2}, 0).value());
  control.end();
  control.stop_all();
  CHECK_FALSE(control.take_back(CallId{1}));
}

TEST_CASE("the end is told once, when the devices are free and the handles are down", "[actor]") {
  HolderControl control;
  int told = 0;
  control.on_end([&] { ++told; });
  control.half_ended();
  CHECK(told == 0);
  control.half_ended();
  CHECK(told == 1);
  control.half_ended();
  CHECK(told == 1);
}

TEST_CASE("a producer takes the credit that it has, then waits for more", "[actor]") {
  HolderControl control;
  REQUIRE(control.begin(CallId{1}, 2).has_value());
  CHECK(control.take_credit(never));
  CHECK(control.take_credit(never));
  CHECK_FALSE(control.take_credit(Clock::now()));
  control.credit(CallId{7}, 5); // of another call
  CHECK_FALSE(control.take_credit(Clock::now()));
  std::thread reader{[&] { control.credit(CallId{1}, 1); }};
  CHECK(control.take_credit(never));
  reader.join();
}

TEST_CASE("a producer gets no more credit than its reader can owe", "[actor]") {
  HolderControl control;
  REQUIRE(control.begin(CallId{1}, limits::stream_window).has_value());
  control.credit(CallId{1}, std::numeric_limits<std::uint32_t>::max());
  REQUIRE(control.take_credit(never));
  control.credit(CallId{1}, 1);
  control.credit(CallId{1}, limits::stream_window);
  for (std::uint32_t i = 0; i < limits::stream_window; ++i)
    REQUIRE(control.take_credit(Clock::now()));
  CHECK_FALSE(control.take_credit(Clock::now()));
}

TEST_CASE("a producer that waits for credit is woken when its call is cancelled", "[actor]") {
  HolderControl control;
  REQUIRE(control.begin(CallId{1}, 0).has_value());
  std::thread reader{[&] { control.cancel(CallId{1}); }};
  CHECK_FALSE(control.take_credit(never));
  reader.join();
}

TEST_CASE("a producer does not wait for credit of a reader that is gone", "[actor]") {
  HolderControl control;
  REQUIRE(control.begin(CallId{1}, 1).has_value());
  bool asked = false;
  const auto is_there = [&] {
    asked = true;
    return false;
  };
  CHECK(control.take_credit(never, is_there));
  CHECK_FALSE(asked);
  CHECK_FALSE(control.take_credit(never, is_there));
  CHECK(asked);
}

TEST_CASE("a lease that is taken back stops what runs, and what waits is told why", "[actor]") {
  HolderControl control;
  REQUIRE(control.begin(CallId{1}, 0).has_value());
  CHECK_FALSE(control.revoked());
  bool withdrawn = false;
  control.defer(CallId{1}, [&] { withdrawn = true; });
  const Error error{Errc::lease_revoked, "the device has failed"};
  control.revoke(error);
  CHECK(control.stop_requested());
  CHECK(withdrawn);
  CHECK(control.revoked() == error);
  control.end();
  CHECK(control.begin(CallId{2}, 0).error() == error);
}

TEST_CASE("a holder whose process is about to be killed has those answered that run, and begins nothing", "[actor]") {
  struct Seen : RunningCall {
    std::function<void(const Error&)> refusal() const override {
      return [this](const Error& error) { told->push_back(error.message()); };
    }
    std::vector<std::string>* told = nullptr;
  };
  std::vector<std::string> told;
  Seen own;
  Seen beside;
  own.told = beside.told = &told;
  HolderControl control;
  REQUIRE(control.begin(CallId{1}, 0, CallThread::own, {}, Clock::now(), &own).has_value());
  control.end();
  REQUIRE(control.begin(CallId{2}, 0, CallThread::concurrent, {}, Clock::now(), &beside).has_value());
  control.give_up(Error{Errc::worker_died, "no memory"});
  CHECK(told == std::vector<std::string>{"no memory"});
  CHECK(control.stop_requested(CallThread::concurrent));
  CHECK(control.begin(CallId{3}, 0).error().message() == "no memory");
  control.end(CallThread::concurrent);
  control.give_up(Error{Errc::worker_died, "once more"});
  CHECK(told.size() == 1);
  CHECK(control.why_ended().message() == "no memory");
}

TEST_CASE("a holder that ends itself goes on with what has begun, and what waits is told why", "[actor]") {
  HolderControl control;
  REQUIRE(control.begin(CallId{1}, 0).has_value());
  CHECK_FALSE(control.ends_itself());
  bool withdrawn = false;
  control.defer(CallId{1}, [&] { withdrawn = true; });
  const Error error{Errc::actor_died, "its work is done"};
  control.end_itself(error);
  control.end_itself(Error{Errc::actor_died, "it has nothing to do"});
  CHECK_FALSE(control.stop_requested());
  CHECK_FALSE(withdrawn);
  CHECK(control.ends_itself() == error);
  control.end();
  CHECK(control.begin(CallId{2}, 0).error() == error);
}

TEST_CASE("a holder says what it has been doing for longest", "[actor]") {
  using std::chrono::seconds;
  const TimePoint start{seconds{100}};
  HolderControl control;
  CHECK_FALSE(control.busy());
  REQUIRE(control.begin(CallId{1}, 0, CallThread::own, "train", start + seconds{1}).has_value());
  REQUIRE(control.begin(CallId{2}, 0, CallThread::concurrent, "progress", start + seconds{2}).has_value());
  CHECK(control.busy()->what == "train");
  CHECK(control.busy()->since == start + seconds{1});
  control.end();
  CHECK(control.busy()->what == "progress");
  control.begin_turn("a step", start);
  CHECK(control.busy()->what == "a step");
  control.end_turn();
  control.end(CallThread::concurrent);
  CHECK_FALSE(control.busy());
  // One that does not begin is none.
  control.cancel(CallId{3});
  CHECK_FALSE(control.begin(CallId{3}, 0, CallThread::own, "late", start).has_value());
  CHECK_FALSE(control.busy());
}
