// Random histories of a queue: nothing is lost or answered twice, no batch makes one of its own late by the table, and
// nobody is overtaken by what is less urgent or came later.
#include <apps/serve/batching/batch_queue.hpp>
#include <support/catch.hpp>

#include <algorithm>
#include <map>
#include <random>

using namespace std::chrono_literals;
using namespace serve::batching;
using gpuactors::Duration;
using gpuactors::never;
using gpuactors::Share;
using gpuactors::TimePoint;

namespace {

constexpr Share a_quarter{2'500};

/// A queue, two replicas, clients that come, give up and go, and what should be known of all of them.
class History {
public:
  explicit History(unsigned seed) : random_(seed), queue_(limits(random_), times_) {
    // nop
  }

  void step() {
    now_ += std::chrono::microseconds{random_() % 3'000};
    switch (random_() % 8) {
    case 0:
    case 1:
    case 2:
      return admit();
    case 3:
      return begin();
    case 4:
    case 5:
      return end();
    case 6:
      return expire();
    default:
      return random_() % 4 == 0 ? lose() : cancel();
    }
  }

  /// Everything that was admitted is answered once.
  void finish() {
    while (queue_.waiting() + queue_.running() > 0) {
      begin();
      end();
    }
    check_books();
    for (const auto& [request, answers] : answers_)
      REQUIRE(answers == 1);
  }

  void check_books() const {
    const auto& counts = queue_.counts();
    const auto gone = counts.answered + counts.failed + counts.cancelled + counts.expired_waiting
                      + counts.expired_running + counts.dropped;
    REQUIRE(counts.admitted == gone + queue_.waiting() + queue_.running());
    std::uint64_t rows = 0;
    std::size_t waiting = 0;
    for (const auto& [request, answers] : answers_)
      if (request->state == Request::State::waiting) {
        ++waiting;
        rows += request->rows;
      }
    REQUIRE(queue_.waiting() == waiting);
    REQUIRE(queue_.waiting_rows() == rows);
  }

private:
  static QueueLimits limits(std::mt19937& random) {
    QueueLimits limits;
    limits.max_batch = 1 + random() % 16;
    limits.max_batch_bytes = 50 + random() % 100;
    limits.max_requests = 1 + random() % 40;
    limits.max_rows = limits.max_batch + random() % 200;
    limits.max_delay = random() % 2 == 0 ? 0ms : 4ms;
    return limits;
  }

  void admit() {
    const auto request = std::make_shared<Request>();
    request->rows = 1 + random_() % queue_.limits().max_batch;
    request->bytes = random_() % 51;
    request->priority = 1 + random_() % 3;
    request->arrived = now_;
    if (random_() % 2 == 0)
      request->deadline = now_ + std::chrono::microseconds{random_() % 60'000};
    if (random_() % 4 == 0)
      request->begin_by = now_ + std::chrono::microseconds{random_() % 30'000};
    const Capacity capacity{random_() % 3, now_ + std::chrono::microseconds{random_() % 4'000}, a_quarter};
    if (queue_.admit(request, now_, capacity))
      answers_[request] = 0;
    else
      REQUIRE(request->state == Request::State::outside);
  }

  void begin() {
    const auto start = now_ + std::chrono::microseconds{random_() % 2 == 0 ? 0 : random_() % 2'000};
    auto next = queue_.next(start, a_quarter);
    for (const auto& request : next.late)
      answer(request);
    if (next.batch.empty()) {
      REQUIRE((queue_.waiting() == 0 || next.ask_again > start));
      if (next.ask_again != never)
        now_ = std::max(now_, next.ask_again);
      return;
    }
    std::uint64_t rows = 0;
    std::uint64_t bytes = 0;
    for (const auto& request : next.batch) {
      rows += request->rows;
      bytes += request->bytes;
    }
    REQUIRE(rows == next.rows);
    REQUIRE(rows <= queue_.limits().max_batch);
    REQUIRE(bytes <= queue_.limits().max_batch_bytes);
    REQUIRE(std::is_sorted(next.batch.begin(), next.batch.end(),
                           [](const auto& a, const auto& b) { return a->place < b->place; }));
    for (const auto& request : next.batch) {
      REQUIRE(request->state == Request::State::running);
      if (request->alone)
        REQUIRE(next.batch.size() == 1);
      else
        REQUIRE((request->deadline == never || start + times_.estimate(a_quarter, rows) <= request->deadline));
    }
    for (const auto& [request, answers] : answers_)
      if (request->state == Request::State::waiting)
        REQUIRE(request->place > next.batch.back()->place);
    batches_.push_back(std::move(next));
  }

  void end() {
    if (batches_.empty())
      return;
    const auto batch = take_batch();
    times_.add(a_quarter, batch.rows, std::chrono::microseconds{300 + 100 * batch.rows + random_() % 500});
    for (const auto& request : batch.batch)
      if (random_() % 10 == 0 ? queue_.give_up(*request) : queue_.settle(*request))
        answer(request);
  }

  void lose() {
    if (batches_.empty())
      return;
    for (const auto& request : take_batch().batch) {
      request->alone = ++request->losses >= 2;
      queue_.put_back(request);
    }
  }

  void expire() {
    for (const auto& request : queue_.expire(now_)) {
      REQUIRE((request->deadline <= now_ || (request->begin_by <= now_ && !request->again)));
      answer(request);
    }
    REQUIRE(queue_.next_due() > now_);
  }

  void cancel() {
    if (answers_.empty())
      return;
    const auto one = std::next(answers_.begin(), static_cast<std::ptrdiff_t>(random_() % answers_.size()));
    if (queue_.cancel(*one->first))
      answer(one->first);
  }

  void answer(const RequestPtr& request) {
    REQUIRE(request->state == Request::State::outside);
    REQUIRE(++answers_.at(request) == 1);
  }

  BatchQueue::Next take_batch() {
    const auto one = batches_.begin() + static_cast<std::ptrdiff_t>(random_() % batches_.size());
    auto batch = std::move(*one);
    batches_.erase(one);
    return batch;
  }

  std::mt19937 random_;
  TimePoint now_{1h};
  BatchTimes times_;
  BatchQueue queue_;
  std::vector<BatchQueue::Next> batches_;
  /// How often each admitted request was answered.
  std::map<RequestPtr, int> answers_;
};

} // namespace

TEST_CASE("in every history each request is answered once, in order, and late by no batch of its own", "[serve]") {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    History history{seed};
    for (int i = 0; i < 300; ++i) {
      history.step();
      if (i % 20 == 0)
        history.check_books();
    }
    history.finish();
  }
}
