// Lives: how often an actor is restarted, and after which pause.
#include <gpuactors/base/limits.hpp>
#include <gpuactors/broker/core/lives.hpp>

#include <support/catch.hpp>

#include <limits>

using namespace gpuactors;
using namespace std::chrono_literals;

namespace {

const TimePoint start{1h};

} // namespace

TEST_CASE("an actor is restarted as often as it may be", "[broker]") {
  Lives lives;
  CHECK_FALSE(lives.end({}, LifeEnd::crash, start));
  CHECK(lives.end({.most = 2}, LifeEnd::crash, start));
  CHECK(lives.end({.most = 2}, LifeEnd::crash, start));
  CHECK_FALSE(lives.end({.most = 2}, LifeEnd::crash, start));
  CHECK(lives.restarts() == 2);
}

TEST_CASE("an actor that may always be restarted is, also after moves", "[broker]") {
  Lives lives;
  for (int i = 0; i < 1'000; ++i) {
    lives.forgive_one();
    CHECK(lives.end({.most = -1}, LifeEnd::crash, start));
  }
  // As often as there are numbers: a move used to raise the limit by one, and with it beyond the largest number.
  Lives many;
  many.forgive_one();
  CHECK(many.end({.most = std::numeric_limits<int>::max()}, LifeEnd::asked, start));
}

TEST_CASE("a move does not use up a restart", "[broker]") {
  Lives lives;
  for (int i = 0; i < 3; ++i) {
    lives.forgive_one();
    CHECK(lives.end({.most = 1}, LifeEnd::asked, start));
  }
  CHECK(lives.restarts() == 3);
  CHECK(lives.end({.most = 1}, LifeEnd::crash, start));
  CHECK_FALSE(lives.end({.most = 1}, LifeEnd::crash, start));
}

TEST_CASE("moves are told apart from restarts that count, and from those that a long life has made good", "[broker]") {
  const RestartRule rule{.most = 3, .window = 1min};
  Lives lives;
  CHECK(lives.end(rule, LifeEnd::crash, start));
  lives.forgive_one();
  // Its restart is still to come.
  CHECK(lives.moves() == 1);
  CHECK(lives.moves_so_far() == 0);
  CHECK(lives.forgiven_so_far() == 0);
  CHECK(lives.end(rule, LifeEnd::asked, start));
  CHECK(lives.restarts() == 2);
  CHECK(lives.moves_so_far() == 1);
  CHECK(lives.forgiven_so_far() == 1);
  lives.began(start);
  CHECK(lives.end(rule, LifeEnd::crash, start + 1min));
  CHECK(lives.restarts() == 3);
  CHECK(lives.moves_so_far() == 1);
  CHECK(lives.forgiven_so_far() == 2);
  // The next broker does not know that a move is under way, and counts none that has no restart.
  CHECK(Lives{0, 1, 1, true}.forgiven_so_far() == 0);
  CHECK(Lives{0, 1, 1, true}.moves_so_far() == 0);
}

TEST_CASE("a long life makes the restarts before it good", "[broker]") {
  const RestartRule rule{.most = 1, .window = 1min};
  Lives lives;
  auto now = start;
  for (int i = 0; i < 5; ++i) {
    lives.began(now);
    now += 1min;
    CHECK(lives.end(rule, LifeEnd::crash, now));
  }
  lives.began(now);
  now += 59s;
  CHECK_FALSE(lives.end(rule, LifeEnd::crash, now));
}

TEST_CASE("a move after a long life does not use up a restart either", "[broker]") {
  const RestartRule rule{.most = 1, .window = 1min};
  Lives lives;
  lives.began(start);
  lives.forgive_one();
  CHECK(lives.end(rule, LifeEnd::asked, start + 1h));
  CHECK(lives.end(rule, LifeEnd::crash, start + 1h));
  CHECK_FALSE(lives.end(rule, LifeEnd::crash, start + 1h));
}

TEST_CASE("time that an actor waits for a place is no part of its life", "[broker]") {
  const RestartRule rule{.most = 1, .window = 1min};
  Lives lives;
  lives.began(start);
  CHECK(lives.end(rule, LifeEnd::crash, start + 1s));
  CHECK_FALSE(lives.end(rule, LifeEnd::crash, start + 1h));
}

TEST_CASE("an actor that crashes again and again waits longer each time, up to a limit", "[broker]") {
  Lives lives;
  const RestartRule rule{.most = -1};
  auto now = start;
  CHECK(lives.end(rule, LifeEnd::crash, now) == Duration::zero());
  Duration expected = limits::restart_pause;
  for (int i = 0; i < 20; ++i) {
    lives.began(now);
    now += 999ms;
    CHECK(lives.end(rule, LifeEnd::crash, now) == expected);
    expected = std::min<Duration>(2 * expected, limits::restart_pause_most);
  }
  CHECK(expected == limits::restart_pause_most);
}

TEST_CASE("an actor that lives for a second waits for no more than that", "[broker]") {
  Lives lives;
  const RestartRule rule{.most = -1};
  for (int i = 0; i < 20; ++i)
    lives.end(rule, LifeEnd::crash, start);
  auto now = start;
  for (int i = 0; i < 5; ++i) {
    lives.began(now);
    now += 1s;
    CHECK(lives.end(rule, LifeEnd::crash, now) == Duration{1s});
  }
  lives.began(now);
  CHECK(lives.end(rule, LifeEnd::crash, now) == Duration{2s});
}

TEST_CASE("after a calm life an actor is restarted at once again", "[broker]") {
  Lives lives;
  const RestartRule rule{.most = -1};
  for (int i = 0; i < 5; ++i)
    lives.end(rule, LifeEnd::crash, start);
  lives.began(start);
  CHECK(lives.end(rule, LifeEnd::crash, start + limits::restart_calm) == Duration::zero());
  CHECK(lives.end(rule, LifeEnd::crash, start + limits::restart_calm) == Duration{limits::restart_pause});
}

TEST_CASE("who lost its place or was asked to restart does not wait", "[broker]") {
  Lives lives;
  const RestartRule rule{.most = -1};
  for (int i = 0; i < 5; ++i) {
    CHECK(lives.end(rule, LifeEnd::lost_place, start) == Duration::zero());
    CHECK(lives.end(rule, LifeEnd::asked, start) == Duration::zero());
  }
}

TEST_CASE("another broker goes on counting where the last one stopped", "[broker]") {
  Lives lives{3, 2, 1, true};
  CHECK(lives.lived());
  CHECK(lives.moves() == 1);
  CHECK(lives.end({.most = 2}, LifeEnd::crash, start));
  CHECK_FALSE(lives.end({.most = 2}, LifeEnd::crash, start));
}
