// What a broker's store says about its part in a pair, and what one decides that stands by.
#include "core_scene.hpp"
#include "memory_store.hpp"

#include <gpuactors/broker/core/broker_role.hpp>
#include <gpuactors/broker/core/standby_core.hpp>
#include <gpuactors/broker/core/state_feed.hpp>

#include <support/catch.hpp>
#include <support/results.hpp>

using namespace broker_test;
using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint begin_time{1h};

/// A broker that stands by, and what it follows.
struct Standby {
  explicit Standby(std::shared_ptr<MemoryStore> to = std::make_shared<MemoryStore>(), std::set<std::string> nodes = {})
    : file(std::move(to)) {
    const auto role = must(role_in(*file));
    must(begin_to_stand_by(*file, "a:1"));
    core.emplace(file, role, StandbyCore::Options{"b:1", "a:1", {5s, 10s}, std::move(nodes)}, now);
  }

  /// One question, which the active broker answers.
  StandbyCore::Step follow() {
    auto answer = must(feed.read(core->question()));
    answer.set_lineage(lineage);
    answer.add_nodes("n0");
    return core->answered(answer, now);
  }

  void catch_up() {
    while (follow().next == StandbyCore::Step::Next::ask) {
    }
  }

  void pass(Duration time) {
    for (const auto end = now + time; now < end; now += 1s)
      CHECK_FALSE(core->look(now));
  }

  TimePoint now = begin_time;
  std::string lineage = "x";
  std::shared_ptr<MemoryStore> source = std::make_shared<MemoryStore>();
  StateFeed feed{source, 1};
  std::shared_ptr<MemoryStore> file;
  std::optional<StandbyCore> core;
};

/// A store of a broker that has served.
std::shared_ptr<MemoryStore> served(std::string_view lineage = "x") {
  auto store = std::make_shared<MemoryStore>();
  must(begin_to_serve(*store, false, 1, lineage));
  return store;
}

} // namespace

TEST_CASE("a broker begins as its store says", "[standby]") {
  MemoryStore store;
  auto role = must(role_in(store));
  CHECK_FALSE(role.has_state());
  CHECK(start_of(role, false) == BrokerStart::serve);
  CHECK(start_of(role, true) == BrokerStart::stand_by);
  must(begin_to_serve(store, false, 7, "x"));
  role = must(role_in(store));
  CHECK(role.lineage == "x");
  CHECK(role.term == 0);
  CHECK(start_of(role, true) == BrokerStart::ask);
  must(begin_to_stand_by(store, "a:1"));
  must(keep_nodes(store, {"n0", "n1"}));
  role = must(role_in(store));
  CHECK(role.other == "a:1");
  CHECK(role.nodes == std::set<std::string>{"n0", "n1"});
  CHECK(start_of(role, true) == BrokerStart::stand_by);
  // The lineage stays that of the state.
  must(begin_to_serve(store, true, 7, "y"));
  CHECK(must(role_in(store)).lineage == "x");
}

TEST_CASE("the nodes of the active broker are kept, also those that are known before its first answer", "[standby]") {
  Standby standby{std::make_shared<MemoryStore>(), {"n0"}};
  standby.follow();
  CHECK(must(role_in(*standby.file)).nodes == std::set<std::string>{"n0"});
}

TEST_CASE("only who takes over with a copy begins a term", "[standby]") {
  const auto file = served();
  SECTION("with the state with which it served itself, the other one has the later state") {
    must(begin_to_stand_by(*file, "a:1"));
    CHECK(must(begin_to_serve(*file, true, 1, "y")).term() == 0);
  }
  SECTION("with a copy, it has") {
    Standby standby{file};
    standby.source->put(StateSection::ids, std::string{lineage_key}, "x");
    standby.source->put(StateSection::ids, std::string{term_key}, "4");
    must(standby.source->commit());
    standby.catch_up();
    CHECK(standby.core->question().term() == 4);
    CHECK(must(begin_to_serve(*file, true, 1, "y")).term() == 5);
    // Started again, it goes on with that.
    CHECK(must(begin_to_serve(*file, false, 1, "y")).term() == 5);
    must(begin_to_stand_by(*file, "a:1"));
    CHECK(must(begin_to_serve(*file, true, 1, "y")).term() == 5);
  }
}

TEST_CASE("one that stands by says once that the active broker does not answer, and that it does again", "[standby]") {
  Standby standby;
  const Error lost{Errc::unavailable, "the connection is lost"};
  CHECK(standby.core->unreachable(lost) == "the broker at a:1 does not answer: the connection is lost");
  standby.follow();
  CHECK(standby.follow().notice == "follows the active broker: it has a copy of its state");
  CHECK_FALSE(standby.follow().notice);
  CHECK(standby.core->unreachable(lost)
        == "the broker at a:1 does not answer: the connection is lost; the copy of its state stays what it is");
  CHECK_FALSE(standby.core->unreachable(lost));
  const auto step = standby.core->answered(fail(Errc::deadline_exceeded, "late"), standby.now);
  CHECK(step.next == StandbyCore::Step::Next::dial);
  CHECK(standby.follow().notice == "follows the active broker: it has a copy of its state");
}

TEST_CASE("one that stood still does not take over by what it has not heard", "[standby]") {
  Standby standby;
  standby.catch_up();
  standby.pass(6s);
  standby.core->asked("n0", standby.now);
  standby.now += 6s;
  CHECK_FALSE(standby.core->look(standby.now));
  standby.core->asked("n0", standby.now);
  standby.pass(5s);
  standby.now += 1s;
  CHECK(standby.core->look(standby.now));
}

TEST_CASE("one that stands by ends where there is nothing that it could follow", "[standby]") {
  Standby standby{served("mine")};
  SECTION("another lineage") {
    standby.follow();
    CHECK(must(role_in(*standby.file)).lineage == "mine");
    const auto look = standby.core->look(standby.now);
    REQUIRE(look);
    CHECK(says(*look, "has the state of another cluster"));
  }
  SECTION("nothing is kept there") {
    // Said once, when it ends.
    CHECK_FALSE(standby.core->answered(fail(Errc::unsupported, "start it with --store"), standby.now).notice);
    CHECK_FALSE(standby.core->unreachable(Error{Errc::unsupported, "start it with --store"}));
    const auto look = standby.core->look(standby.now);
    REQUIRE(look);
    CHECK(code_of(*look) == Errc::unsupported);
  }
}

TEST_CASE("of two that stand by for each other, the one with a state goes first", "[standby]") {
  Standby standby{served()};
  v1::FollowState by;
  by.set_address("c:1");
  standby.core->followed(by);
  CHECK_FALSE(standby.core->look(standby.now));
  by.set_address("a:1");
  by.set_has_copy(true);
  by.set_term(1);
  standby.core->followed(by);
  CHECK_FALSE(standby.core->look(standby.now));
  by.set_has_copy(false);
  standby.core->followed(by);
  CHECK(standby.core->look(standby.now));
}

TEST_CASE("a broker that gives way asks the other one first when it is started again", "[standby]") {
  World world;
  const auto store = std::make_shared<MemoryStore>();
  BrokerOptions options;
  options.store = store;
  BrokerCore core{world, std::move(options)};
  v1::TakenOver other;
  other.set_address("b:1");
  other.set_term(1);
  CHECK(says(core.give_way_to(other), "stands by for it when it is started again"));
  core.finish();
  CHECK(must(role_in(*store)).other == "b:1");
}

TEST_CASE("a broker says that it has taken over, when nobody follows it any more, and when one does again",
          "[standby]") {
  World world;
  BrokerOptions options;
  options.store = std::make_shared<MemoryStore>();
  options.heartbeat = 1s;
  options.link_timeout = 5s;
  options.taken_from = "a:1";
  options.taken_why = "it is gone";
  BrokerCore core{world, std::move(options)};
  core.start();
  const auto reasons = [&] {
    v1::GetState all;
    all.set_events_from(1);
    std::vector<std::string> found;
    const auto state = core.state(all);
    for (const auto& event : state.events())
      if (event.kind() == "standby")
        found.push_back(event.reason());
    return found;
  };
  const std::string taken = "this broker has taken over: it is gone";
  const std::string follows = "follows this broker, to take over if it dies";
  const std::string is_lost = "does not follow this broker any more: what is kept from here on, it does not have";
  v1::FollowState question;
  question.set_address("b:1");
  must(core.follow(question));
  const auto pass = [&](int seconds) {
    for (int i = 0; i < seconds; ++i) {
      world.time += 1s;
      core.wake(Wake::pulse);
    }
  };
  pass(5);
  CHECK(reasons() == std::vector<std::string>{taken, follows});
  pass(5);
  CHECK(reasons() == std::vector<std::string>{taken, follows, is_lost});
  must(core.follow(question));
  CHECK(reasons() == std::vector<std::string>{taken, follows, is_lost, follows});
}

TEST_CASE("an active broker that answers with errors is asked again later, and it is said once", "[standby]") {
  Standby standby;
  const Result<v1::StateChanges> error = fail(Errc::internal, "something is wrong");
  auto step = standby.core->answered(error, standby.now);
  CHECK(step.next == StandbyCore::Step::Next::ask_later);
  CHECK(step.notice == "something is wrong");
  step = standby.core->answered(error, standby.now);
  CHECK(step.next == StandbyCore::Step::Next::ask_later);
  CHECK_FALSE(step.notice);
  for (const auto code : {Errc::unavailable, Errc::deadline_exceeded, Errc::actor_died, Errc::worker_died})
    CHECK(standby.core->answered(fail(code, "gone"), standby.now).next == StandbyCore::Step::Next::dial);
  CHECK_FALSE(standby.core->look(standby.now));
}

TEST_CASE("a broker that stands by ends where it does not understand the active one, or its state", "[standby]") {
  Standby other;
  CHECK(other.core->unreachable({Errc::unavailable, "connection refused"}));
  CHECK_FALSE(other.core->look(other.now));
  other.core->unreachable({Errc::unsupported, "release 9 with revision 9"});
  auto due = other.core->look(other.now);
  REQUIRE(due);
  CHECK(code_of(*due) == Errc::unsupported);
  Standby later;
  auto answer = must(later.feed.read(later.core->question()));
  answer.set_lineage(later.lineage);
  REQUIRE(answer.entries_size() > 0);
  answer.mutable_entries(0)->set_value("99");
  CHECK(later.core->answered(answer, later.now).next == StandbyCore::Step::Next::ask_later);
  due = later.core->look(later.now);
  REQUIRE(due);
  CHECK(code_of(*due) == Errc::unsupported);
  CHECK(says(*due, "revision 99"));
}
