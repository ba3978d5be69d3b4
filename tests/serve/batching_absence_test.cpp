// A model without a replica: until when requests wait for one, and what they are told, at times that the test says.
#include <apps/serve/batching/absence.hpp>
#include <support/catch.hpp>

using namespace std::chrono_literals;
using namespace serve::batching;
using gpuactors::never;
using gpuactors::TimePoint;

namespace {

constexpr TimePoint lost_at{1h};

/// One whose last replica was lost.
Absence some_absence() {
  Absence absence{30s};
  absence.begin("the last one was lost: worker_died: it fell");
  return absence;
}

} // namespace

TEST_CASE("as long as no start has failed, a replica is waited for", "[serve]") {
  auto absence = some_absence();
  CHECK(absence.due() == never);
  CHECK_FALSE(absence.is_hopeless(lost_at + 24h));
  CHECK(absence.reason()
        == "has no replica: another one is being started, since the last one was lost: worker_died: it fell");
}

TEST_CASE("from the first start that failed, a replica is waited for as long as patience lasts", "[serve]") {
  auto absence = some_absence();
  absence.start_failed(lost_at + 1s, "no_capacity: no node has 2 GPUs");
  CHECK(absence.due() == lost_at + 31s);
  CHECK_FALSE(absence.is_hopeless(lost_at + 30s));
  // A later one changes what is said, and not how long is waited.
  absence.start_failed(lost_at + 20s, "no_capacity: no node has a GPU");
  CHECK(absence.due() == lost_at + 31s);
  CHECK(absence.is_hopeless(lost_at + 31s));
  CHECK(absence.due() == never);
  CHECK(absence.reason() == "has no replica: the last start failed: no_capacity: no node has a GPU");
  // So it is until a replica serves, whatever fails meanwhile.
  absence.start_failed(lost_at + 40s, "no_capacity: no node is there");
  CHECK(absence.is_hopeless(lost_at + 40s));
  absence.end();
  CHECK_FALSE(absence.is_hopeless(lost_at + 41s));
  absence.begin("the last one was lost: again");
  CHECK_FALSE(absence.is_hopeless(lost_at + 42s));
  CHECK(absence.due() == never);
}

TEST_CASE("a start that is on its way when patience ends is waited for, and those that begin later are not",
          "[serve]") {
  auto absence = some_absence();
  absence.start_failed(lost_at + 1s, "no_capacity: no node has 2 GPUs");
  absence.start_began(lost_at + 2s);
  CHECK(absence.due() == never);
  CHECK_FALSE(absence.is_hopeless(lost_at + 90s));
  CHECK(absence.reason()
        == "has no replica: the last start failed: no_capacity: no node has 2 GPUs; another start is on its way");
  absence.start_began(lost_at + 31s);
  absence.start_began(lost_at + 40s);
  absence.start_failed(lost_at + 91s, "task_failed: no such folder");
  absence.start_over(lost_at + 2s);
  CHECK_FALSE(absence.is_hopeless(lost_at + 91s));
  absence.start_over(lost_at + 31s);
  CHECK(absence.due() == lost_at + 31s);
  CHECK(absence.is_hopeless(lost_at + 92s));
  CHECK(absence.reason()
        == "has no replica: the last start failed: task_failed: no such folder; another start is on its way");
  absence.start_over(lost_at + 40s);
  CHECK(absence.reason() == "has no replica: the last start failed: task_failed: no such folder");
}

TEST_CASE("a start that has begun before a replica serves, and is lost, is waited for all the same", "[serve]") {
  Absence absence{0s};
  absence.start_began(lost_at);
  absence.end();
  absence.begin("the last one was lost: worker_died: it fell");
  CHECK(absence.reason()
        == "has no replica: another one is being started, since the last one was lost: worker_died: it fell");
  absence.start_failed(lost_at + 1s, "no_capacity: no node has 2 GPUs");
  CHECK_FALSE(absence.is_hopeless(lost_at + 1s));
  absence.start_over(lost_at);
  CHECK(absence.is_hopeless(lost_at + 1s));
}

TEST_CASE("without patience nobody waits once a start has failed", "[serve]") {
  Absence absence{0s};
  CHECK_FALSE(absence.is_hopeless(lost_at));
  absence.start_failed(lost_at, "no");
  CHECK(absence.is_hopeless(lost_at));
}

TEST_CASE("what is closed takes nothing until it is opened or a replica serves", "[serve]") {
  auto absence = some_absence();
  absence.close("the next version takes its share");
  CHECK(absence.is_closed());
  CHECK(absence.is_hopeless(lost_at));
  CHECK(absence.reason() == "takes no requests: the next version takes its share");
  absence.open();
  CHECK_FALSE(absence.is_closed());
  CHECK_FALSE(absence.is_hopeless(lost_at));
  absence.close("once more");
  absence.end();
  CHECK_FALSE(absence.is_closed());
}
