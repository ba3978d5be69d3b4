// How many replicas a model has, in looks whose times the test says.
#include <apps/serve/batching/scaling.hpp>
#include <support/catch.hpp>

using namespace std::chrono_literals;
using namespace serve::batching;
using gpuactors::TimePoint;

namespace {

constexpr TimePoint begin{1h};

ScalingLimits one_to_three() {
  ScalingLimits limits;
  limits.min_replicas = 1;
  limits.max_replicas = 3;
  limits.grow_after = 300ms;
  limits.idle_after = 30s;
  return limits;
}

/// Replicas 1, 2, ... that are all busy.
ScalingLook busy(std::size_t replicas, std::size_t waiting) {
  ScalingLook look;
  look.waiting = waiting;
  for (std::size_t i = 1; i <= replicas; ++i)
    look.replicas.push_back({i, true, begin});
  return look;
}

/// Replicas 1, 2, ... that have been idle since these times.
ScalingLook idle(const std::vector<TimePoint>& since) {
  ScalingLook look;
  for (const auto& time : since)
    look.replicas.push_back({look.replicas.size() + 1, false, time});
  return look;
}

} // namespace

TEST_CASE("what is missing to the least is started at once", "[serve]") {
  auto limits = one_to_three();
  limits.min_replicas = 2;
  Scaling scaling{limits};
  CHECK(scaling.decide(begin, busy(0, 0)).start == 2);
  CHECK(scaling.decide(begin, busy(1, 0)).start == 1);
  CHECK(scaling.decide(begin, busy(2, 0)).start == 0);
}

TEST_CASE("what is given up to the next version is not started again until it is taken back", "[serve]") {
  auto limits = one_to_three();
  limits.min_replicas = 3;
  Scaling scaling{limits};
  scaling.give_up_beyond(2);
  CHECK(scaling.decide(begin, busy(2, 5)).start == 0);
  CHECK(scaling.decide(begin + 1s, busy(2, 5)).start == 0);
  CHECK(scaling.decide(begin + 1s, busy(1, 5)).start == 1); // one was lost
  scaling.give_up_beyond(1);
  CHECK(scaling.decide(begin + 2s, busy(1, 5)).start == 0);
  scaling.take_back(3);
  CHECK(scaling.decide(begin + 3s, busy(1, 0)).start == 2);
}

TEST_CASE("what was given up beyond the least comes back, and may go again when it is idle", "[serve]") {
  Scaling scaling{one_to_three()};
  scaling.give_up_beyond(1);
  scaling.take_back(2);
  CHECK(scaling.decide(begin, busy(1, 0)).start == 1);
  CHECK_FALSE(scaling.decide(begin, idle({begin, begin})).stop);
  CHECK(scaling.decide(begin + 31s, idle({begin, begin})).stop);
  CHECK(scaling.decide(begin + 31s, idle({begin})).start == 0);
}

TEST_CASE("what is owed is forgotten where those that there are have nothing to do", "[serve]") {
  Scaling scaling{one_to_three()};
  scaling.take_back(3);
  CHECK(scaling.decide(begin, busy(2, 0)).start == 1);
  const auto step = scaling.decide(begin + 31s, idle({begin, begin}));
  CHECK(step.start == 0);
  CHECK(step.stop);
}

TEST_CASE("replicas that are being started are not started twice", "[serve]") {
  auto limits = one_to_three();
  limits.min_replicas = 2;
  Scaling scaling{limits};
  auto look = busy(0, 0);
  look.starting = 1;
  CHECK(scaling.decide(begin, look).start == 1);
  look.starting = 2;
  CHECK(scaling.decide(begin, look).start == 0);
  // Nor is one more wished for beside one that comes.
  look = busy(2, 5);
  look.starting = 1;
  CHECK(scaling.decide(begin, look).start == 0);
  CHECK(scaling.decide(begin + 1s, look).start == 0);
  look.starting = 0;
  CHECK(scaling.decide(begin + 2s, look).start == 1);
}

TEST_CASE("one more is started when requests have waited long enough while all were busy", "[serve]") {
  Scaling scaling{one_to_three()};
  CHECK(scaling.decide(begin, busy(1, 5)).start == 0);
  CHECK(scaling.decide(begin + 200ms, busy(1, 5)).start == 0);
  CHECK(scaling.decide(begin + 300ms, busy(1, 5)).start == 1);
  // The next one has to be earned again.
  CHECK(scaling.decide(begin + 310ms, busy(2, 5)).start == 0);
  CHECK(scaling.decide(begin + 600ms, busy(2, 5)).start == 1);
  CHECK(scaling.decide(begin + 2s, busy(3, 5)).start == 0);
}

TEST_CASE("a queue that was empty once, or an idle replica, is no reason for one more", "[serve]") {
  Scaling scaling{one_to_three()};
  CHECK(scaling.decide(begin, busy(1, 5)).start == 0);
  CHECK(scaling.decide(begin + 200ms, busy(1, 0)).start == 0);
  CHECK(scaling.decide(begin + 400ms, busy(1, 5)).start == 0);
  CHECK(scaling.decide(begin + 600ms, busy(1, 5)).start == 0);
  auto look = idle({begin});
  look.waiting = 5;
  CHECK(scaling.decide(begin + 650ms, look).start == 0);
  CHECK(scaling.decide(begin + 700ms, busy(1, 5)).start == 0);
  CHECK(scaling.decide(begin + 1000ms, busy(1, 5)).start == 1);
}

TEST_CASE("refusals are a reason for one more, also when nothing waits at any look", "[serve]") {
  Scaling scaling{one_to_three()};
  auto look = busy(1, 0);
  for (auto at = 0ms; at < 300ms; at += 100ms) {
    look.refused += 5;
    CHECK(scaling.decide(begin + at, look).start == 0);
    // Between two batches, and before the next refusal.
    look.replicas[0].busy = !look.replicas[0].busy;
    CHECK(scaling.decide(begin + at + 50ms, look).start == 0);
  }
  look.refused += 5;
  CHECK(scaling.decide(begin + 300ms, look).start == 1);
}

TEST_CASE("requests that were refused in one moment are no reason for one more", "[serve]") {
  Scaling scaling{one_to_three()};
  auto look = busy(1, 0);
  look.refused = 100;
  for (auto at = 0ms; at < 2s; at += 50ms)
    CHECK(scaling.decide(begin + at, look).start == 0);
}

TEST_CASE("the one that has been idle longest goes, down to the least", "[serve]") {
  Scaling scaling{one_to_three()};
  CHECK_FALSE(scaling.decide(begin + 29s, idle({begin, begin + 1s, begin})).stop);
  CHECK(scaling.decide(begin + 30s, idle({begin + 10s, begin, begin + 5s})).stop == 2U);
  CHECK(scaling.decide(begin + 35s, idle({begin + 10s, begin + 5s})).stop == 2U);
  CHECK_FALSE(scaling.decide(begin + 1h, idle({begin})).stop);
  auto mixed = idle({begin, begin + 50s});
  mixed.replicas[0].busy = true;
  CHECK_FALSE(scaling.decide(begin + 60s, mixed).stop);
  CHECK(scaling.decide(begin + 80s, mixed).stop == 2U);
}

TEST_CASE("after starts that fail the next one waits, longer each time, and not after one that succeeded", "[serve]") {
  Scaling scaling{one_to_three()};
  CHECK(scaling.decide(begin, busy(0, 0)).start == 1);
  scaling.start_failed(begin, true);
  CHECK(scaling.decide(begin + 99ms, busy(0, 0)).start == 0);
  CHECK(scaling.decide(begin + 100ms, busy(0, 0)).start == 1);
  scaling.start_failed(begin + 100ms, true);
  CHECK(scaling.decide(begin + 299ms, busy(0, 0)).start == 0);
  CHECK(scaling.decide(begin + 300ms, busy(0, 0)).start == 1);
  for (int i = 0; i < 20; ++i)
    scaling.start_failed(begin + 1s, true);
  CHECK(scaling.decide(begin + 5900ms, busy(0, 0)).start == 0);
  CHECK(scaling.decide(begin + 6s, busy(0, 0)).start == 1);
  scaling.start_succeeded();
  CHECK(scaling.decide(begin + 6s, busy(0, 0)).start == 1);
}

TEST_CASE("starts that were only wished for, and failed, hold up none that is needed", "[serve]") {
  Scaling scaling{one_to_three()};
  CHECK(scaling.decide(begin, busy(1, 5)).start == 0);
  const auto wished = scaling.decide(begin + 300ms, busy(1, 5));
  CHECK(wished.start == 1);
  CHECK_FALSE(wished.needed);
  for (int i = 0; i < 20; ++i)
    scaling.start_failed(begin + 1s, false);
  CHECK(scaling.decide(begin + 2s, busy(1, 5)).start == 0);
  // The only one dies.
  const auto step = scaling.decide(begin + 2s, busy(0, 5));
  CHECK(step.start == 1);
  CHECK(step.needed);
  // Nor does one that is needed hold up the wish for another.
  scaling.start_failed(begin + 2s, true);
  CHECK_FALSE(scaling.may_start(begin + 2s, true));
  CHECK(scaling.may_start(begin + 6s, false));
  scaling.start_succeeded();
  CHECK(scaling.may_start(begin + 2s, true));
}
