// Several actors that do the same.
#include "fixtures.hpp"

#include <gpuactors/cluster/actor_pool.hpp>

#include <support/catch.hpp>
#include <support/eventually.hpp>

#include <atomic>
#include <map>
#include <thread>
#include <vector>

using namespace gpuactors;
using namespace gpuactors::test;

namespace {

ActorPool pool_of(Cluster& cluster, int count) {
  std::vector<ActorRef> actors;
  for (int i = 0; i < count; ++i)
    actors.push_back(must(cluster.spawn("accumulator", number(0))));
  return ActorPool{std::move(actors)};
}

} // namespace

TEST_CASE("a pool takes its actors in turn while nothing waits", "[cluster]") {
  auto cluster = embed();
  const auto pool = pool_of(cluster, 3);
  std::map<ActorId, int> calls;
  for (int i = 0; i < 9; ++i) {
    const auto actor = pool.next();
    ++calls[actor.id()];
    CHECK(actor.call<Number>("add", number(1)).get().has_value());
    CHECK(eventually([&] { return actor.waiting_calls() == 0; }));
  }
  CHECK(calls.size() == 3);
  for (const auto& [id, count] : calls)
    CHECK(count == 3);
}

TEST_CASE("a pool gives the next call to whom the fewest wait for", "[cluster]") {
  auto cluster = embed();
  gate().close();
  const auto pool = pool_of(cluster, 2);
  const auto busy = pool.actors()[0];
  std::vector<Future<Number>> waiting;
  for (int i = 0; i < 3; ++i)
    waiting.push_back(busy.call<Number>("wait", number(1)));
  CHECK(busy.waiting_calls() == 3);
  for (int i = 0; i < 4; ++i)
    CHECK(pool.next().id() == pool.actors()[1].id());
  gate().open();
  for (auto& call : waiting)
    CHECK(call.get().has_value());
}

TEST_CASE("a pool passes over who is away, unless nobody is there", "[cluster]") {
  auto cluster = embed();
  const auto pool = pool_of(cluster, 2);
  const auto kill = [&](std::size_t i) {
    REQUIRE(cluster.kill(pool.actors()[i]).has_value());
    CHECK(eventually([&] { return pool.actors()[i].away(); }));
  };
  kill(0);
  for (int i = 0; i < 4; ++i)
    CHECK(pool.next().id() == pool.actors()[1].id());
  kill(1);
  CHECK(pool.next());
}

TEST_CASE("a pool uses an actor again that was started again, without a call of anybody", "[cluster]") {
  auto cluster = embed();
  std::vector<ActorRef> actors;
  for (int i = 0; i < 2; ++i)
    actors.push_back(must(cluster.spawn("accumulator", number(0), {.max_restarts = 1})));
  const ActorPool pool{actors};
  REQUIRE(cluster.kill(actors[0], {.restart = true}).has_value());
  CHECK(eventually([&] { return pool.next().id() == actors[0].id(); }));
  CHECK_FALSE(actors[0].away());
}

TEST_CASE("a pool without actors gives an empty reference", "[cluster]") {
  CHECK_FALSE(ActorPool{}.next());
  CHECK(ActorPool{}.next().call<Number>("add", number(1)).get().error().code() == Errc::invalid_argument);
}

TEST_CASE("calls of an actor that was started again are not lost because several look for it at once", "[cluster]") {
  auto cluster = embed();
  const auto actor = must(cluster.spawn("accumulator", number(0), {.max_restarts = -1}));
  const ActorPool pool{{actor}};
  std::atomic<bool> over{false};
  std::atomic<int> restarts{0};
  std::atomic<int> lost{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i)
    callers.emplace_back([&] {
      while (!over) {
        const auto before = restarts.load();
        const auto sum = pool.next().call<Number>("add", number(1)).get();
        // One restart may lose a call that it meets; without one, none is lost.
        if (!sum && restarts == before && before % 2 == 0)
          ++lost;
      }
    });
  for (int i = 0; i < 40; ++i) {
    ++restarts; // odd: one is under way
    CHECK(cluster.kill(actor, {.restart = true}).has_value());
    CHECK(eventually([&] { return actor.call<Number>("add", number(0)).get().has_value(); }));
    ++restarts;
    CHECK(eventually([&] { return !actor.away(); }));
  }
  over = true;
  for (auto& caller : callers)
    caller.join();
  CHECK(lost == 0);
}
