// Work that waits for one of a few threads.
#include <apps/serve/protocol/work_pool.hpp>
#include <support/catch.hpp>

#include <atomic>
#include <future>

using namespace serve;

TEST_CASE("a pool refuses work when much waits, and queues what its caller bounds") {
  std::promise<void> first_may_end;
  std::promise<void> first_runs;
  std::atomic<int> done{0};
  WorkPool pool{1, 1};
  REQUIRE(pool.run([&] {
    first_runs.set_value();
    first_may_end.get_future().wait();
    ++done;
  }));
  first_runs.get_future().wait();
  CHECK(pool.run([&] { ++done; }));
  CHECK_FALSE(pool.run([&] { ++done; }));
  CHECK(pool.queue([&] { ++done; }));
  CHECK(pool.queue([&] { ++done; }));
  first_may_end.set_value();
  pool.end();
  CHECK(done == 4);
  CHECK_FALSE(pool.queue([&] { ++done; }));
}
