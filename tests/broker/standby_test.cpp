// Brokers that stand by: the copy of the state, and when they take over.
#include "core_scene.hpp"
#include "memory_store.hpp"

#include <gpuactors/broker/core/state_copy.hpp>
#include <gpuactors/broker/core/state_feed.hpp>
#include <gpuactors/broker/core/succession.hpp>

#include <support/catch.hpp>
#include <support/results.hpp>

#include <algorithm>
#include <random>

using namespace broker_test;
using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint start_time{1h};

/// All that a follower has to have, too.
std::vector<std::pair<StateSection, StateEntry>> shared_state(const DesiredState& state) {
  std::vector<std::pair<StateSection, StateEntry>> all;
  for (std::uint32_t number = 0; number < state_sections; ++number) {
    const auto section = static_cast<StateSection>(number);
    for (auto& entry : must(state.load(section)))
      if (!is_own_entry(section, entry.key))
        all.emplace_back(section, std::move(entry));
  }
  return all;
}

/// A feed and a follower.
struct Pair {
  std::shared_ptr<MemoryStore> source = std::make_shared<MemoryStore>();
  std::shared_ptr<MemoryStore> target = std::make_shared<MemoryStore>();
  StateFeed feed{source, 1};
  StateCopy copy{target, "b:1"};

  /// One question and its answer; whether there is more.
  bool step() {
    return must(copy.take(must(feed.read(copy.next()))));
  }

  void catch_up() {
    while (step()) {
    }
  }
};

/// One with a copy.
Succession succession_of(std::set<std::string> nodes, std::size_t votes = 0) {
  Succession succession{{5s, 10s, votes}, std::move(nodes), start_time};
  succession.copied(start_time);
  return succession;
}

Succession three_nodes(std::size_t votes = 0) {
  return succession_of({"n0", "n1", "n2"}, votes);
}

} // namespace

// -- the copy -------------------------------------------------------------------------------------

TEST_CASE("a follower has after each round what the broker has committed", "[standby]") {
  Pair pair;
  pair.feed.put(StateSection::actors, std::uint64_t{7}, "seven");
  pair.feed.put(StateSection::quotas, std::string{"*"}, "1");
  must(pair.feed.commit());
  pair.feed.put(StateSection::actors, std::uint64_t{8}, "not committed");
  pair.catch_up();
  CHECK(shared_state(*pair.target) == shared_state(*pair.source));
  CHECK(must(pair.target->load(StateSection::actors)).size() == 1);
  pair.feed.erase(StateSection::actors, std::uint64_t{7});
  must(pair.feed.commit());
  pair.catch_up();
  CHECK(shared_state(*pair.target) == shared_state(*pair.source));
  CHECK(must(pair.target->load(StateSection::actors)).front().value == "not committed");
}

TEST_CASE("what a follower had before, and what is one broker's own, stays out of the copy", "[standby]") {
  Pair pair;
  pair.target->put(StateSection::groups, std::uint64_t{3}, "of another life");
  pair.target->put(StateSection::ids, std::string{serves_key}, "the target's");
  must(pair.target->commit());
  pair.feed.put(StateSection::ids, std::string{standby_key}, "the source's");
  pair.feed.put(StateSection::ids, std::string{reserved_ids_key}, "100");
  pair.feed.put(StateSection::ids, std::string{term_key}, "3");
  must(pair.feed.commit());
  pair.catch_up();
  pair.feed.put(StateSection::ids, std::string{standby_key}, "the source's, later");
  must(pair.feed.commit());
  pair.catch_up();
  CHECK(must(pair.target->load(StateSection::groups)).empty());
  const auto ids = must(pair.target->load(StateSection::ids));
  CHECK(ids
        == std::vector<StateEntry>{{std::string{copied_key}, "1"},
                                   {std::string{reserved_ids_key}, "100"},
                                   {std::string{serves_key}, "the target's"},
                                   {std::string{term_key}, "3"}});
}

TEST_CASE("a large state comes in parts, and a follower's store has none of them before all are there", "[standby]") {
  Pair pair;
  const std::string large(limits::state_part_bytes / 2, 'x');
  for (std::uint64_t id = 1; id <= 7; ++id)
    pair.feed.put(id % 2 == 0 ? StateSection::actors : StateSection::groups, id, large);
  must(pair.feed.commit());
  REQUIRE(pair.step());
  REQUIRE(pair.step());
  // Changes between the parts: of an entry that was sent, of one that was not, and a new one.
  pair.feed.erase(StateSection::actors, std::uint64_t{2});
  pair.feed.put(StateSection::groups, std::uint64_t{7}, "changed");
  pair.feed.put(StateSection::actors, std::uint64_t{1}, "new");
  must(pair.feed.commit());
  CHECK(shared_state(*pair.target).empty());
  CHECK_FALSE(pair.copy.is_complete());
  pair.catch_up();
  CHECK(pair.copy.is_complete());
  CHECK(shared_state(*pair.target) == shared_state(*pair.source));
}

TEST_CASE("a follower begins anew with another broker, and when it is too far behind", "[standby]") {
  Pair pair;
  pair.catch_up();
  SECTION("another broker") {
    pair.source->put(StateSection::actors, std::uint64_t{1}, "of the next life");
    must(pair.source->commit());
    StateFeed next{pair.source, 2};
    CHECK(must(next.read(pair.copy.next())).anew());
    while (must(pair.copy.take(must(next.read(pair.copy.next()))))) {
    }
  }
  SECTION("too far behind") {
    const std::string large(limits::remembered_changes_bytes / 4, 'x');
    for (std::uint64_t id = 1; id <= 6; ++id) {
      pair.feed.put(StateSection::actors, std::uint64_t{1}, large);
      must(pair.feed.commit());
    }
    CHECK(must(pair.feed.read(pair.copy.next())).anew());
    pair.catch_up();
  }
  CHECK(shared_state(*pair.target) == shared_state(*pair.source));
}

TEST_CASE("what a broken off copy had is in no later one", "[standby]") {
  Pair pair;
  const std::string large(limits::state_part_bytes, 'x');
  pair.feed.put(StateSection::actors, std::uint64_t{1}, large);
  pair.feed.put(StateSection::actors, std::uint64_t{2}, large);
  must(pair.feed.commit());
  REQUIRE(pair.step());
  // The broker is started again, without the first of them.
  pair.source->erase(StateSection::actors, std::uint64_t{1});
  must(pair.source->commit());
  StateFeed next{pair.source, 2};
  while (must(pair.copy.take(must(next.read(pair.copy.next())))))
    CHECK(shared_state(*pair.target).empty());
  CHECK(shared_state(*pair.target) == shared_state(*pair.source));
}

TEST_CASE("a copy that could not be written is made anew", "[standby]") {
  Pair pair;
  pair.feed.put(StateSection::actors, std::uint64_t{1}, "one");
  must(pair.feed.commit());
  pair.target->is_full = true;
  Result<bool> more = true;
  while (more && *more)
    more = pair.copy.take(must(pair.feed.read(pair.copy.next())));
  CHECK_FALSE(more);
  pair.target->is_full = false;
  pair.catch_up();
  CHECK(shared_state(*pair.target) == shared_state(*pair.source));
  v1::StateChanges strange;
  strange.add_entries()->set_section(state_sections);
  CHECK(pair.copy.take(strange).error().code() == Errc::invalid_argument);
}

TEST_CASE("what is removed while a copy cannot be written is not in the copy afterwards", "[standby]") {
  Pair pair;
  pair.feed.put(StateSection::actors, std::uint64_t{1}, "one");
  pair.feed.put(StateSection::quotas, std::string{"ann"}, "two");
  must(pair.feed.commit());
  pair.target->is_full = true;
  while (const auto more = pair.copy.take(must(pair.feed.read(pair.copy.next()))))
    REQUIRE(*more);
  pair.feed.erase(StateSection::actors, std::uint64_t{1});
  must(pair.feed.commit());
  pair.target->is_full = false;
  pair.catch_up();
  REQUIRE(pair.copy.is_complete());
  CHECK(shared_state(*pair.target) == shared_state(*pair.source));
}

TEST_CASE("a follower has a state that the broker had, over random histories", "[standby]") {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random{seed};
    const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
    Pair pair;
    std::set<std::vector<std::pair<StateSection, std::string>>> had;
    const auto digest = [](const DesiredState& state) {
      std::vector<std::pair<StateSection, std::string>> all;
      for (const auto& [section, entry] : shared_state(state))
        all.emplace_back(section, std::to_string(std::get<std::uint64_t>(entry.key)) + "=" + entry.value.substr(0, 8));
      return all;
    };
    had.insert(digest(*pair.source));
    for (int i = 0; i < 120; ++i) {
      const auto section = static_cast<StateSection>(below(2));
      const std::uint64_t id = below(6);
      switch (below(8)) {
      case 0:
      case 1:
      case 2:
        pair.feed.put(section, id, std::to_string(i) + std::string(below(3) * limits::state_part_bytes / 3, '.'));
        break;
      case 3:
        pair.feed.erase(section, id);
        break;
      case 4:
        must(pair.feed.commit());
        had.insert(digest(*pair.source));
        break;
      case 5:
        // The follower starts again.
        if (below(4) == 0) {
          pair.target->lose_pending();
          pair.copy = StateCopy{pair.target, "b:1"};
        }
        break;
      default:
        pair.step();
      }
      CHECK(had.count(digest(*pair.target)) == 1);
    }
    must(pair.feed.commit());
    pair.catch_up();
    CHECK(digest(*pair.target) == digest(*pair.source));
  }
}

TEST_CASE("of two brokers the one with the lower term gives way, and one without a store cannot be followed",
          "[standby]") {
  World world;
  BrokerOptions options;
  options.term = 2;
  options.since_unix_ns = 100;
  BrokerCore core{world, std::move(options)};
  const auto stays = [&](std::uint64_t term, std::int64_t since) {
    v1::TakenOver other;
    other.set_address("b:1");
    other.set_term(term);
    other.set_since_unix_ns(since);
    return core.give_way_to(other);
  };
  CHECK(stays(1, 50));
  CHECK(stays(2, 150));
  CHECK(says(stays(3, 150), "the broker at b:1 serves this cluster, and has the later state"));
  // Of two with one term, the one that has served for longer.
  CHECK(code_of(stays(2, 50)) == Errc::unavailable);
  CHECK(code_of(core.follow({})) == Errc::unsupported);
}

TEST_CASE("who follows a broker is an event once, and is asked after a restart", "[standby]") {
  World world;
  const auto store = std::make_shared<MemoryStore>();
  BrokerOptions options;
  options.store = store;
  options.settle = 1s;
  options.link_timeout = 5s;
  options.heartbeat = 1s;
  options.term = 1;
  BrokerCore core{world, std::move(options)};
  core.start();
  v1::FollowState question;
  // Who only looks whether it serves has no address.
  must(core.follow(question));
  question.set_address("b:1");
  for (int times = 0; times < 3; ++times)
    must(core.follow(question));
  CHECK(must(core.follow(question)).settling());
  // One with a later state is not to be overwritten, and a second one is refused, until the first is silent.
  v1::FollowState later = question;
  later.set_term(2);
  CHECK(code_of(core.follow(later)) == Errc::unavailable);
  v1::FollowState second;
  second.set_address("c:1");
  CHECK(says(core.follow(second), "the broker at b:1 stands by already"));
  CHECK(code_of(core.follow(second)) == Errc::already_exists);
  core.finish();
  CHECK(must(store->load(StateSection::ids)).back() == StateEntry{std::string{standby_key}, "b:1"});
  v1::GetState all;
  all.set_events_from(1);
  const auto state = core.state(all);
  CHECK(std::count_if(state.events().begin(), state.events().end(),
                      [](const auto& event) { return event.kind() == "standby" && event.name() == "b:1"; })
        == 1);
}

TEST_CASE("a broker's state tells who stands by for it, and whether it does", "[standby]") {
  World world;
  BrokerOptions options;
  options.store = std::make_shared<MemoryStore>();
  options.link_timeout = 5s;
  options.term = 3;
  SECTION("the one that its store knows is missed until it asks") {
    options.other = "b:1";
    world.time += 2s;
    BrokerCore core{world, std::move(options)};
    core.start();
    world.time += 1s;
    CHECK(core.state({}).term() == 3);
    CHECK(core.state({}).standby().address() == "b:1");
    CHECK(core.state({}).standby().state() == "away");
    CHECK(core.state({}).standby().silent_ns() == Duration{1s}.count());
  }
  SECTION("another one that asks has a copy after a while, or asks no more") {
    BrokerCore core{world, std::move(options)};
    core.start();
    CHECK_FALSE(core.state({}).has_standby());
    v1::FollowState question;
    question.set_address("c:1");
    must(core.follow(question));
    CHECK(core.state({}).standby().state() == "copying");
    question.set_has_copy(true);
    must(core.follow(question));
    world.time += 5s;
    CHECK(core.state({}).standby().state() == "following");
    world.time += 1s;
    const auto state = core.state({});
    CHECK(state.standby().address() == "c:1");
    CHECK(state.standby().state() == "away");
    CHECK(state.standby().silent_ns() == Duration{6s}.count());
  }
}

// -- taking over ----------------------------------------------------------------------------------

TEST_CASE("a broker takes over when it hears nothing and most of the nodes have asked it", "[standby]") {
  auto succession = three_nodes();
  const auto silent = start_time + 6s;
  CHECK_FALSE(succession.is_due(silent));
  succession.asked("n0", silent);
  CHECK_FALSE(succession.is_due(silent));
  // One that it does not know counts as one more of all, and one that asks twice once.
  succession.asked("stranger", silent);
  succession.asked("n0", silent);
  CHECK_FALSE(succession.is_due(silent));
  succession.asked("n2", silent);
  CHECK(succession.is_due(silent));
  CHECK(succession.describe(silent)
        == "it has not answered for 6.0 s, and 3 of 4 nodes have asked here, of which 3 have to");
}

TEST_CASE("a broker without a copy does not take over", "[standby]") {
  Succession succession{{5s, 10s}, {"n0"}, start_time};
  succession.asked("n0", start_time + 6s);
  CHECK_FALSE(succession.is_due(start_time + 6s));
  succession.copied(start_time);
  CHECK(succession.is_due(start_time + 6s));
}

TEST_CASE("a broker that hears of the active one does not take over, whoever asks", "[standby]") {
  auto succession = three_nodes();
  auto now = start_time;
  for (int i = 0; i < 20; ++i) {
    now += 1s;
    for (const auto* node : {"n0", "n1", "n2"})
      succession.asked(node, now);
    succession.answered({"n0", "n1", "n2"}, now);
    CHECK_FALSE(succession.is_due(now + 4s));
  }
  // What was asked before the last answer does not count.
  CHECK_FALSE(succession.is_due(now + 6s));
}

TEST_CASE("that a node has asked counts for a while", "[standby]") {
  auto succession = three_nodes();
  succession.copied(start_time + 5s);
  succession.asked("n0", start_time + 6s);
  succession.asked("n1", start_time + 17s);
  CHECK_FALSE(succession.is_due(start_time + 17s));
  succession.asked("n0", start_time + 18s);
  CHECK(succession.is_due(start_time + 18s));
}

TEST_CASE("nodes that the active broker lost before it died decide, too", "[standby]") {
  auto succession = succession_of({"n0"});
  succession.asked("n1", start_time + 6s);
  CHECK_FALSE(succession.is_due(start_time + 6s));
  succession.asked("n2", start_time + 6s);
  CHECK(succession.is_due(start_time + 6s));
}

TEST_CASE("a broker with an old copy waits for the active one to come back", "[standby]") {
  auto succession = three_nodes();
  auto now = start_time + 100s;
  const auto ask = [&] {
    succession.asked("n0", now);
    succession.asked("n1", now);
  };
  for (ask(); now <= start_time + 130s; now += 5s, ask())
    CHECK_FALSE(succession.is_due(now));
  CHECK(succession.is_due(now));
  CHECK(says(Error{Errc::unavailable, succession.describe(now)}, "; the copy of its state is 135 s old"));
  // They are with the active one again, and then not.
  now += 11s;
  ask();
  CHECK_FALSE(succession.is_due(now));
  Succession restarted{{5s, 10s}, {"n0"}, start_time};
  restarted.copied();
  restarted.asked("n0", start_time + 6s);
  CHECK_FALSE(restarted.is_due(start_time + 6s));
  for (now = start_time + 6s; now <= start_time + 40s; now += 1s)
    restarted.asked("n0", now);
  CHECK(restarted.is_due(now));
}

TEST_CASE("a broker that stood still waits as one that has just heard of the active one", "[standby]") {
  auto succession = three_nodes();
  const auto now = start_time + 8s;
  for (const auto* node : {"n0", "n1", "n2"})
    succession.asked(node, now);
  CHECK(succession.is_due(now));
  succession.stood_still(now);
  CHECK_FALSE(succession.is_due(now));
  for (const auto* node : {"n0", "n1", "n2"})
    succession.asked(node, now);
  CHECK_FALSE(succession.is_due(now + 4s));
  CHECK(succession.is_due(now + 6s));
}

TEST_CASE("so many votes decide as it was told, and of a cluster without nodes the first one", "[standby]") {
  auto one = three_nodes(1);
  one.asked("n1", start_time + 6s);
  CHECK(one.is_due(start_time + 6s));
  auto empty = succession_of({});
  CHECK_FALSE(empty.is_due(start_time + 6s));
  empty.asked("n9", start_time + 6s);
  CHECK(empty.is_due(start_time + 6s));
  auto two = succession_of({"n0", "n1"});
  two.asked("n0", start_time + 6s);
  CHECK_FALSE(two.is_due(start_time + 6s));
}
