// What is called when something takes too long, and when it is not called any more.
#include <apps/serve/grpc/deadlines.hpp>
#include <support/catch.hpp>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

using namespace std::chrono_literals;
using namespace serve;

TEST_CASE("of several deadlines of one key the earliest holds, and each is told of once") {
  Deadlines deadlines;
  std::promise<int> told;
  deadlines.begin(1, 1h, [&] { told.set_value(1); });
  deadlines.begin(1, 0s, [&] { told.set_value(2); });
  CHECK(told.get_future().get() == 2);
  deadlines.end_and_wait(1);
  CHECK_FALSE(deadlines.end(1));
  deadlines.begin(1, 1h, [] {});
  deadlines.begin(1, 2h, [] {});
  CHECK(deadlines.end(1));
  CHECK_FALSE(deadlines.end(1));
}

TEST_CASE("who waits for the end of a key waits for what is running for it, and for nothing else") {
  Deadlines deadlines;
  std::promise<void> running;
  std::promise<void> go_on;
  std::atomic<bool> returned = false;
  deadlines.begin(1, 0s, [&] {
    running.set_value();
    go_on.get_future().wait();
    returned = true;
  });
  running.get_future().wait();
  deadlines.end_and_wait(2);
  deadlines.end(1);
  CHECK_FALSE(returned);
  std::thread release{[&] { go_on.set_value(); }};
  deadlines.end_and_wait(1);
  CHECK(returned);
  release.join();
}

TEST_CASE("what is called may begin and end the same key itself") {
  Deadlines deadlines;
  std::promise<void> done;
  deadlines.begin(1, 0s, [&] {
    deadlines.end_and_wait(1);
    deadlines.begin(1, 0s, [&] { done.set_value(); });
  });
  done.get_future().wait();
  deadlines.end_and_wait(1);
}
