// The queue of a model: admission, order, batches, timeouts, in cases with times that the test says.
#include <apps/serve/batching/batch_queue.hpp>
#include <support/catch.hpp>

using namespace std::chrono_literals;
using namespace serve::batching;
using gpuactors::Duration;
using gpuactors::Errc;
using gpuactors::never;
using gpuactors::Share;
using gpuactors::TimePoint;

namespace {

constexpr Share share{2'500};
constexpr TimePoint start{1h};

RequestPtr request(std::uint64_t rows = 1, std::uint64_t priority = 1, TimePoint deadline = never,
                   TimePoint arrived = start) {
  auto result = std::make_shared<Request>();
  result->rows = rows;
  result->priority = priority;
  result->arrived = arrived;
  result->deadline = deadline;
  return result;
}

constexpr Capacity one_idle{1, start, share};

/// A millisecond for each row, and one more.
BatchTimes millisecond_a_row() {
  BatchTimes times;
  for (std::uint64_t rows = 1; rows <= 64; rows *= 2)
    times.add(share, rows, std::chrono::milliseconds{rows + 1});
  return times;
}

} // namespace

TEST_CASE("a batch is the head of the queue as far as its rows fit", "[serve]") {
  const BatchTimes times;
  BatchQueue queue{{.max_batch = 8}, times};
  const auto first = request(3);
  const auto second = request(4);
  const auto third = request(2);
  const auto fourth = request(1);
  for (const auto& one : {first, second, third, fourth})
    REQUIRE(queue.admit(one, start, one_idle));
  CHECK(queue.waiting_rows() == 10);
  const auto batch = queue.next(start, share);
  // The third does not fit, and the fourth does not overtake it.
  CHECK(batch.batch == std::vector{first, second});
  CHECK(batch.rows == 7);
  CHECK(queue.next(start, share).batch == std::vector{third, fourth});
  CHECK(queue.next(start, share).batch.empty());
  CHECK(queue.running() == 4);
  CHECK(queue.waiting_rows() == 0);
}

TEST_CASE("batches of halved rows grow again, each time later if that was in vain", "[serve]") {
  const BatchTimes times;
  BatchQueue queue{{.max_batch = 32}, times};
  queue.lower_rows(30);
  CHECK(queue.batch_rows() == 15);
  const auto grown_after = [&](std::uint64_t rows) {
    const auto before = queue.batch_rows();
    int batches = 0;
    for (; queue.batch_rows() == before && batches < 10'000; ++batches)
      queue.rows_fit(rows);
    return batches;
  };
  // A request of 10 rows is alone in its batch, since two have 20.
  CHECK(grown_after(10) == 64);
  CHECK(queue.batch_rows() == 30);
  queue.lower_rows(30);
  CHECK(grown_after(15) == 256);
  CHECK(queue.batch_rows() == 30);
  // Small ones say nothing.
  CHECK(grown_after(15) == 10'000);
  CHECK(grown_after(16) == 256);
  CHECK(queue.batch_rows() == 32);
}

TEST_CASE("a request that was put back does not wait for company again", "[serve]") {
  const BatchTimes times;
  BatchQueue queue{{.max_batch = 8, .max_delay = 1h}, times};
  const auto first = request(8);
  REQUIRE(queue.admit(first, start, one_idle));
  CHECK(queue.next(start, share).batch == std::vector{first});
  const auto fresh = request(1);
  REQUIRE(queue.admit(fresh, start, one_idle));
  CHECK(queue.next(start, share).batch.empty());
  REQUIRE(queue.cancel(*fresh));
  const auto half = request(4);
  half->arrived = start - 1h;
  REQUIRE(queue.admit(half, start, one_idle));
  REQUIRE(queue.next(start, share).batch == std::vector{half});
  half->arrived = start;
  REQUIRE(queue.put_back(half));
  CHECK(queue.next(start, share).batch == std::vector{half});
}

TEST_CASE("one request whose answer is too large alone does not keep batches small", "[serve]") {
  const BatchTimes times;
  BatchQueue queue{{.max_batch = 32}, times};
  for (const std::uint64_t rows : {32, 16, 8, 4, 2})
    queue.lower_rows(rows);
  CHECK(queue.batch_rows() == 1);
  queue.one_was_large();
  CHECK(queue.batch_rows() == 32);
  queue.lower_rows(32);
  queue.rows_fit(16);
  queue.one_was_large();
  CHECK(queue.batch_rows() == 16);
}

TEST_CASE("a batch is the head of the queue as far as its bytes fit", "[serve]") {
  const BatchTimes times;
  BatchQueue queue{{.max_batch = 8, .max_batch_bytes = 100}, times};
  const auto first = request();
  const auto second = request();
  const auto third = request();
  const auto fourth = request();
  first->bytes = 60;
  second->bytes = 40;
  third->bytes = 100;
  fourth->bytes = 0;
  for (const auto& one : {first, second, third, fourth})
    REQUIRE(queue.admit(one, start, one_idle));
  CHECK(queue.next(start, share).batch == std::vector{first, second});
  // One of no bytes fits beside one that has them all.
  CHECK(queue.next(start, share).batch == std::vector{third, fourth});
  const auto large = request();
  large->bytes = 101;
  const auto refused = queue.admit(large, start, one_idle);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == Errc::invalid_argument);
  CHECK(refused.error().message() == "a request has up to 100 bytes, this one 101");
}

TEST_CASE("urgent requests are served first, and those of one priority in the order in which they came", "[serve]") {
  const BatchTimes times;
  BatchQueue queue{{.max_batch = 2}, times};
  const auto low = request(1, 3);
  const auto first = request(1, 2);
  const auto second = request(1, 2);
  const auto urgent = request(1, 1);
  for (const auto& one : {low, first, second, urgent})
    REQUIRE(queue.admit(one, start, one_idle));
  CHECK(queue.next(start, share).batch == std::vector{urgent, first});
  CHECK(queue.next(start, share).batch == std::vector{second, low});
}

TEST_CASE("a batch grows only while all in it can be answered in time", "[serve]") {
  const auto times = millisecond_a_row();
  BatchQueue queue{{.max_batch = 64}, times};
  const auto patient = request(4);
  const auto hurried = request(4, 1, start + 10ms);
  const auto large = request(16);
  for (const auto& one : {patient, hurried, large})
    REQUIRE(queue.admit(one, start, one_idle));
  // Eight rows take 9 ms, which is in time; with 24 rows it would be 33.
  CHECK(queue.next(start, share).batch == std::vector{patient, hurried});
  CHECK(queue.next(start, share).batch == std::vector{large});
}

TEST_CASE("a request that makes its own batch late waits for one of its own", "[serve]") {
  const auto times = millisecond_a_row();
  BatchQueue queue{{.max_batch = 64}, times};
  const auto large = request(32);
  REQUIRE(queue.admit(large, start, one_idle));
  const auto hurried = request(1, 2, start + 40ms);
  REQUIRE(queue.admit(hurried, start, {1, start - 60ms, share}).has_value() == false);
  const auto later = request(1, 2, start + 70ms);
  REQUIRE(queue.admit(later, start, one_idle));
  CHECK(queue.next(start, share).batch == std::vector{large, later});
}

TEST_CASE("a request that nobody can answer in time is refused at once, with the times", "[serve]") {
  const auto times = millisecond_a_row();
  BatchQueue queue{{.max_batch = 8}, times};
  const auto refused = queue.admit(request(8, 1, start + 5ms), start, one_idle);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == Errc::queue_full);
  CHECK(refused.error().message()
        == "no answer can come in time: as long as batches take now, it would come in 9.000 ms, and 5.000 ms are left");
  CHECK(queue.counts().refused_late == 1);
  CHECK(queue.admit(request(8, 1, start + 9ms), start, one_idle));
}

TEST_CASE("what waits before it, and what runs, count when a request is admitted", "[serve]") {
  const auto times = millisecond_a_row();
  BatchQueue queue{{.max_batch = 8}, times};
  for (int i = 0; i < 4; ++i)
    REQUIRE(queue.admit(request(8, 2), start, one_idle));
  // Four batches of 9 ms stand before it, then its own of 2.
  CHECK_FALSE(queue.admit(request(1, 2, start + 37ms), start, one_idle));
  CHECK(queue.admit(request(1, 2, start + 38ms), start, one_idle));
  // An urgent one overtakes them, but not what runs for 5 ms more.
  CHECK_FALSE(queue.admit(request(1, 1, start + 6ms), start, {1, start + 5ms, share}));
  CHECK(queue.admit(request(1, 1, start + 7ms), start, {1, start + 5ms, share}));
  // Two replicas take two at a time: two rounds, then three rows, which count as four.
  CHECK_FALSE(queue.admit(request(1, 2, start + 22ms), start, {2, start, share}));
  CHECK(queue.admit(request(1, 2, start + 23ms), start, {2, start, share}));
}

TEST_CASE("as long as there is no replica, every deadline may be met", "[serve]") {
  const auto times = millisecond_a_row();
  BatchQueue queue{{.max_batch = 8}, times};
  CHECK(queue.admit(request(8, 1, start + 1ms), start, {}));
}

TEST_CASE("one hopeless request in sixteen is tried where a replica is idle", "[serve]") {
  const auto times = millisecond_a_row();
  BatchQueue queue{{.max_batch = 8}, times};
  int tried = 0;
  for (int i = 0; i < 64; ++i) {
    const auto probe = request(1, 1, start + 1ms);
    if (!queue.admit(probe, start, one_idle))
      continue;
    ++tried;
    // It goes alone, although the table says that it will be late.
    REQUIRE(queue.admit(request(), start, one_idle));
    REQUIRE(queue.next(start, share).batch == std::vector{probe});
    REQUIRE(queue.next(start, share).batch.size() == 1);
  }
  CHECK(tried == 4);
  CHECK(queue.counts().refused_late == 60);
}

TEST_CASE("a full queue refuses at once, by requests and by rows", "[serve]") {
  const BatchTimes times;
  BatchQueue queue{{.max_batch = 8, .max_requests = 3, .max_rows = 10}, times};
  REQUIRE(queue.admit(request(8), start, one_idle));
  const auto many_rows = queue.admit(request(3), start, one_idle);
  REQUIRE_FALSE(many_rows);
  CHECK(many_rows.error().code() == Errc::queue_full);
  REQUIRE(queue.admit(request(1), start, one_idle));
  REQUIRE(queue.admit(request(1), start, one_idle));
  const auto many = queue.admit(request(1), start, one_idle);
  REQUIRE_FALSE(many);
  CHECK(many.error().message() == "the queue is full: 3 requests with 10 rows wait, and 3 requests with 10 rows may");
  CHECK(queue.counts().refused_full == 2);
  // What runs does not wait.
  REQUIRE(queue.next(start, share).batch.size() == 1);
  CHECK(queue.admit(request(1), start, one_idle));
}

TEST_CASE("requests without rows or with more than a batch are invalid", "[serve]") {
  const BatchTimes times;
  BatchQueue queue{{.max_batch = 8}, times};
  CHECK(queue.admit(request(0), start, one_idle).error().code() == Errc::invalid_argument);
  CHECK(queue.admit(request(9), start, one_idle).error().code() == Errc::invalid_argument);
}

TEST_CASE("timeouts come when they are due, for those that wait and those that run", "[serve]") {
  const BatchTimes times;
  BatchQueue queue{{.max_batch = 1}, times};
  const auto runs = request(1, 1, start + 10ms);
  const auto waits = request(1, 1, start + 5ms);
  const auto patient = request(1, 1, start + 20ms);
  for (const auto& one : {runs, waits, patient})
    REQUIRE(queue.admit(one, start, one_idle));
  REQUIRE(queue.next(start, share).batch == std::vector{runs});
  CHECK(queue.next_due() == start + 5ms);
  CHECK(queue.expire(start + 5ms - 1ns).empty());
  CHECK(queue.expire(start + 5ms) == std::vector{waits});
  CHECK(queue.next_due() == start + 10ms);
  CHECK(queue.expire(start + 15ms) == std::vector{runs});
  // Its batch comes back to nobody.
  CHECK_FALSE(queue.settle(*runs));
  CHECK_FALSE(queue.put_back(runs));
  CHECK_FALSE(queue.cancel(*waits));
  CHECK(queue.counts().expired_waiting == 1);
  CHECK(queue.counts().expired_running == 1);
  CHECK(queue.waiting() == 1);
  CHECK(queue.running() == 0);
}

TEST_CASE("a request that has waited until no batch can be in time is dropped then", "[serve]") {
  const auto times = millisecond_a_row();
  BatchQueue queue{{.max_batch = 8}, times};
  const auto hurried = request(1, 1, start + 5ms);
  const auto patient = request(1, 2);
  REQUIRE(queue.admit(hurried, start, one_idle));
  REQUIRE(queue.admit(patient, start, one_idle));
  const auto next = queue.next(start + 4ms, share);
  CHECK(next.late == std::vector{hurried});
  CHECK(next.batch == std::vector{patient});
  CHECK(queue.counts().dropped == 1);
  CHECK(queue.expire(start + 1h).empty());
}

TEST_CASE("a batch waits for more until its delay is over, it is full, or somebody would be late", "[serve]") {
  const auto times = millisecond_a_row();
  BatchQueue queue{{.max_batch = 4, .max_delay = 10ms}, times};
  const auto first = request(1);
  REQUIRE(queue.admit(first, start, one_idle));
  const auto held = queue.next(start + 1ms, share);
  CHECK(held.batch.empty());
  CHECK(held.ask_again == start + 10ms);
  const auto hurried = request(1, 1, start + 8ms);
  REQUIRE(queue.admit(hurried, start + 1ms, one_idle));
  // Two rows take 3 ms, and one is for whoever is late: it goes at 4 ms at the latest.
  CHECK(queue.next(start + 1ms, share).ask_again == start + 4ms);
  CHECK(queue.next(start + 4ms, share).batch == std::vector{first, hurried});
  for (int i = 0; i < 4; ++i)
    REQUIRE(queue.admit(request(1), start, one_idle));
  CHECK(queue.next(start, share).batch.size() == 4);
  REQUIRE(queue.admit(request(1), start, one_idle));
  CHECK(queue.next(start, share).batch.empty());
  CHECK(queue.next(start, share, false).batch.size() == 1);
}

TEST_CASE("a batch that was held back until its deadline comes near is in time although the timer is late", "[serve]") {
  const auto times = millisecond_a_row();
  BatchQueue queue{{.max_batch = 64, .max_delay = 10ms}, times};
  const auto hurried = request(1, 1, start + 8ms);
  REQUIRE(queue.admit(hurried, start, one_idle));
  const auto small = queue.next(start, share).ask_again;
  CHECK(queue.next(small + 100us, share).batch == std::vector{hurried});
  // A quarter of the time that a long batch takes: 33 of 42 ms, and 8 of slack.
  const auto large = request(32, 1, start + 42ms);
  REQUIRE(queue.admit(large, start, one_idle));
  CHECK(queue.next(start, share).ask_again < start + 1ms);
  CHECK(queue.next(start + 7ms, share).batch == std::vector{large});
}

TEST_CASE("a refusal counts for one more replica when that one could have answered", "[serve]") {
  const auto times = millisecond_a_row();
  BatchQueue queue{{.max_batch = 8, .max_requests = 1}, times};
  // One row takes 2 ms: no replica helps somebody who is in such a hurry.
  CHECK_FALSE(queue.admit(request(1, 1, start + 1ms), start, one_idle));
  CHECK(queue.counts().refused_busy == 0);
  CHECK_FALSE(queue.admit(request(1, 1, start + 4ms), start, {1, start + 5ms, share}));
  CHECK(queue.counts().refused_busy == 1);
  REQUIRE(queue.admit(request(1), start, one_idle));
  CHECK_FALSE(queue.admit(request(1), start, one_idle));
  CHECK(queue.counts().refused_busy == 2);
}

TEST_CASE("a batch that was lost waits again, before all that came after it", "[serve]") {
  const BatchTimes times;
  BatchQueue queue{{.max_batch = 2}, times};
  const auto first = request();
  const auto second = request();
  const auto third = request();
  for (const auto& one : {first, second, third})
    REQUIRE(queue.admit(one, start, one_idle));
  const auto lost = queue.next(start, share);
  REQUIRE(lost.batch == std::vector{first, second});
  REQUIRE(queue.admit(request(), start, one_idle));
  CHECK(queue.put_back(second));
  CHECK(queue.put_back(first));
  CHECK_FALSE(queue.put_back(first));
  CHECK(queue.next(start, share).batch == std::vector{first, second});
  CHECK(queue.settle(*first));
  CHECK_FALSE(queue.settle(*first));
  CHECK(queue.give_up(*second));
  CHECK(queue.counts().answered == 1);
  CHECK(queue.counts().failed == 1);
}

TEST_CASE("a suspect goes alone", "[serve]") {
  const BatchTimes times;
  BatchQueue queue{{.max_batch = 8}, times};
  const auto before = request();
  const auto suspect = request();
  const auto after = request();
  suspect->alone = true;
  for (const auto& one : {before, suspect, after})
    REQUIRE(queue.admit(one, start, one_idle));
  CHECK(queue.next(start, share).batch == std::vector{before});
  CHECK(queue.next(start, share).batch == std::vector{suspect});
  CHECK(queue.next(start, share).batch == std::vector{after});
}

TEST_CASE("a client that has gone takes its request along", "[serve]") {
  const BatchTimes times;
  BatchQueue queue{{.max_batch = 1}, times};
  const auto runs = request();
  const auto waits = request(1, 1, start + 1s);
  REQUIRE(queue.admit(runs, start, one_idle));
  REQUIRE(queue.admit(waits, start, one_idle));
  REQUIRE(queue.next(start, share).batch == std::vector{runs});
  CHECK(queue.cancel(*waits));
  CHECK(queue.cancel(*runs));
  CHECK_FALSE(queue.cancel(*runs));
  CHECK(queue.next_due() == never);
  CHECK(queue.next(start, share).batch.empty());
  CHECK(queue.counts().cancelled == 2);
}

TEST_CASE("all that is here can be taken at the end", "[serve]") {
  const BatchTimes times;
  BatchQueue queue{{.max_batch = 1}, times};
  for (int i = 0; i < 3; ++i)
    REQUIRE(queue.admit(request(1, 1, start + 1s), start, one_idle));
  REQUIRE(queue.next(start, share).batch.size() == 1);
  CHECK(queue.take_all().size() == 3);
  CHECK(queue.waiting() + queue.running() == 0);
  CHECK(queue.waiting_rows() == 0);
  CHECK(queue.next_due() == never);
  CHECK(queue.counts().failed == 3);
}

TEST_CASE("a request gives up when it has waited for its turn as long as it may, and not when it runs", "[serve]") {
  const BatchTimes times;
  BatchQueue queue{{.max_batch = 1}, times};
  const auto first = request(1, 1, start + 10s);
  const auto second = request(1, 1, start + 10s);
  const auto third = request(1, 1, start + 1s);
  for (const auto& one : {first, second, third}) {
    one->begin_by = start + 2s;
    REQUIRE(queue.admit(one, start, one_idle));
  }
  CHECK(queue.next_due() == start + 1s);
  CHECK(queue.next(start, share).batch == std::vector{first});
  CHECK(queue.expire(start + 1s) == std::vector{third});
  CHECK(queue.next_due() == start + 2s);
  CHECK(queue.expire(start + 2s) == std::vector{second});
  CHECK(queue.counts().expired_waiting == 2);
  // What runs has its own time, and what was lost with its batch waits again without one.
  CHECK(queue.next_due() == start + 10s);
  REQUIRE(queue.put_back(first));
  CHECK(queue.next_due() == start + 10s);
  CHECK(queue.expire(start + 9s).empty());
  CHECK(queue.next(start + 9s, share).batch == std::vector{first});
  CHECK(queue.settle(*first));
  CHECK(queue.next_due() == never);
}

TEST_CASE("a batch that is held back goes before one of its requests has waited for as long as it may", "[serve]") {
  const BatchTimes times;
  BatchQueue queue{{.max_batch = 8, .max_delay = 100ms}, times};
  const auto one = request();
  one->begin_by = start + 20ms;
  REQUIRE(queue.admit(one, start, one_idle));
  const auto held = queue.next(start, share);
  CHECK(held.batch.empty());
  CHECK(held.ask_again == start + 19ms);
  CHECK(queue.next(start + 19ms, share).batch == std::vector{one});
}

TEST_CASE("those that wait are taken out together, but for those that are to stay", "[serve]") {
  const BatchTimes times;
  BatchQueue queue{{.max_batch = 1}, times};
  const auto runs = request();
  const auto stays = request();
  const auto goes = request(1, 1, start + 1s);
  for (const auto& one : {runs, stays, goes})
    REQUIRE(queue.admit(one, start, one_idle));
  CHECK(queue.next(start, share).batch == std::vector{runs});
  CHECK(queue.take_waiting([&](const Request& one) { return &one == stays.get(); }) == std::vector{goes});
  CHECK(queue.waiting() == 1);
  CHECK(queue.running() == 1);
  CHECK(queue.counts().failed == 1);
  CHECK(queue.next_due() == never);
}
