// Sequences: who is next, where, and who cannot go any more, in cases and in random histories with times that the test
// says.
#include <apps/serve/batching/batch_queue.hpp>
#include <apps/serve/batching/sequences.hpp>
#include <support/catch.hpp>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using namespace serve::batching;
using gpuactors::Errc;
using gpuactors::TimePoint;

namespace {

constexpr TimePoint noon{12h};

RequestPtr step(bool starts = false, bool ends = false) {
  auto request = std::make_shared<Request>();
  request->starts = starts;
  request->ends = ends;
  return request;
}

RequestPtr first() {
  return step(true);
}

/// It is answered by a replica.
void run(Sequences& sequences, const RequestPtr& request, TimePoint now) {
  sequences.sent(*request, 1);
  CHECK(sequences.leave(*request, true, now).empty());
}

bool refused(const gpuactors::Result<void>& result, Errc code, const std::string& words) {
  return !result && result.error().code() == code && result.error().message().find(words) != std::string::npos;
}

} // namespace

TEST_CASE("requests of a sequence go one by one, in the order in which they came, to one replica", "[serve]") {
  Sequences sequences{{}};
  const auto one = first();
  const auto two = step();
  const auto other = first();
  REQUIRE(sequences.enter(one, "a", noon));
  REQUIRE(sequences.enter(two, "a", noon));
  REQUIRE(sequences.enter(other, "b", noon));
  CHECK(Sequences::is_next(*one));
  CHECK_FALSE(Sequences::is_next(*two));
  CHECK(Sequences::is_next(*other));
  sequences.sent(*one, 7);
  CHECK_FALSE(Sequences::is_next(*one));
  CHECK_FALSE(Sequences::is_next(*two));
  Sequences::returned(*one);
  CHECK(Sequences::is_next(*one));
  sequences.sent(*one, 7);
  CHECK(sequences.leave(*one, true, noon).empty());
  CHECK(Sequences::is_next(*two));
  CHECK(two->sequence->replica == 7);
  CHECK(sequences.by_replica(noon) == std::map<std::uint64_t, std::size_t>{{7, 1}});
}

TEST_CASE("a request that builds on nothing is refused, and told to start anew", "[serve]") {
  Sequences sequences{{.idle = 5s}};
  const auto none = [&](TimePoint now) {
    return refused(sequences.enter(step(), "a", now), Errc::invalid_argument,
                   "there is no sequence \"a\": it has not begun, has ended, had no request for 5 s");
  };
  CHECK(none(noon));
  const auto one = first();
  REQUIRE(sequences.enter(one, "a", noon));
  sequences.sent(*one, 1);
  sequences.leave(*one, true, noon);
  const auto two = step();
  REQUIRE(sequences.enter(two, "a", noon + 4s));
  sequences.leave(*two, true, noon + 4s);
  // A request is there, however long it runs.
  const auto three = step();
  REQUIRE(sequences.enter(three, "a", noon + 8s));
  CHECK(sequences.by_replica(noon + 1h).size() == 1);
  sequences.leave(*three, true, noon + 1h);
  CHECK(none(noon + 1h + 5s));
  sequences.forget_expired(noon + 1h + 5s);
  CHECK(sequences.size() == 0);
  // The last one ends it, also while it waits.
  const auto last = step(true, true);
  REQUIRE(sequences.enter(last, "a", noon));
  CHECK(none(noon));
  const auto again = first();
  REQUIRE(sequences.enter(again, "a", noon));
  sequences.leave(*last, true, noon);
  CHECK(Sequences::is_next(*again));
  sequences.leave(*again, true, noon);
  CHECK(sequences.size() == 1);
}

TEST_CASE("a sequence that was started anew elsewhere ends with what is here", "[serve]") {
  Sequences sequences{{}};
  const auto one = first();
  REQUIRE(sequences.enter(one, "a", noon));
  CHECK(sequences.has("a", noon));
  sequences.end("a");
  sequences.end("b");
  CHECK_FALSE(sequences.has("a", noon));
  CHECK(Sequences::is_next(*one));
  sequences.leave(*one, true, noon);
  CHECK(sequences.size() == 0);
  REQUIRE(sequences.enter(one, "a", noon));
  run(sequences, one, noon);
  CHECK(sequences.size() == 1);
  sequences.end("a");
  CHECK(sequences.size() == 0);
}

TEST_CASE("a request that was never sent has changed nothing", "[serve]") {
  Sequences sequences{{}};
  const auto one = first();
  REQUIRE(sequences.enter(one, "a", noon));
  run(sequences, one, noon);
  // The last one is refused, and a new start: what was before goes on.
  const auto last = step(false, true);
  REQUIRE(sequences.enter(last, "a", noon));
  CHECK(sequences.leave(*last, false, noon).empty());
  CHECK(sequences.has("a", noon));
  const auto anew = first();
  const auto behind = step();
  REQUIRE(sequences.enter(anew, "a", noon));
  REQUIRE(sequences.enter(behind, "a", noon));
  CHECK(sequences.leave(*anew, false, noon) == std::vector{behind});
  CHECK(sequences.has("a", noon));
  const auto next = step(false, true);
  REQUIRE(sequences.enter(next, "a", noon));
  run(sequences, next, noon);
  CHECK(sequences.size() == 0);
  CHECK(sequences.count_at(1) == 0);
}

TEST_CASE("when the request that starts a sequence fails, those that build on it fail", "[serve]") {
  Sequences sequences{{}};
  const auto one = first();
  const auto two = step();
  const auto three = step();
  const auto anew = first();
  const auto after = step();
  for (const auto& request : {one, two, three, anew, after})
    REQUIRE(sequences.enter(request, "a", noon));
  CHECK(sequences.leave(*one, false, noon) == std::vector{two, three});
  CHECK(two->sequence == nullptr);
  CHECK(Sequences::is_next(*anew));
  // One in the middle fails alone.
  sequences.sent(*anew, 1);
  sequences.leave(*anew, true, noon);
  const auto more = step();
  REQUIRE(sequences.enter(more, "a", noon));
  CHECK(sequences.leave(*after, false, noon).empty());
  CHECK(Sequences::is_next(*more));
  sequences.leave(*more, true, noon);
  const auto failed = first();
  REQUIRE(sequences.enter(failed, "a", noon));
  sequences.sent(*failed, 1);
  CHECK(sequences.leave(*failed, false, noon).empty());
  CHECK_FALSE(sequences.enter(step(), "a", noon));
  CHECK(sequences.size() == 0);
}

TEST_CASE("with a replica goes the state of its sequences, but not what starts anew", "[serve]") {
  Sequences sequences{{}};
  const auto ran = first();
  REQUIRE(sequences.enter(ran, "a", noon));
  sequences.sent(*ran, 1);
  sequences.leave(*ran, true, noon);
  const auto runs = step();
  const auto waits = step();
  const auto anew = first();
  const auto begins = first();
  const auto follows = step();
  const auto elsewhere = first();
  for (const auto& request : {runs, waits, anew})
    REQUIRE(sequences.enter(request, "a", noon));
  for (const auto& request : {begins, follows})
    REQUIRE(sequences.enter(request, "b", noon));
  REQUIRE(sequences.enter(elsewhere, "c", noon));
  sequences.sent(*runs, 1);
  sequences.sent(*begins, 1);
  sequences.sent(*elsewhere, 2);
  CHECK(sequences.lose(1) == std::vector{runs, waits});
  CHECK(Sequences::is_next(*anew));
  CHECK(Sequences::is_next(*begins));
  CHECK(begins->sequence->replica == 0);
  CHECK_FALSE(Sequences::is_next(*elsewhere));
  sequences.sent(*begins, 2);
  sequences.leave(*begins, true, noon);
  CHECK(Sequences::is_next(*follows));
  sequences.leave(*follows, true, noon);
  CHECK(sequences.lose(2) == std::vector<RequestPtr>{});
  CHECK_FALSE(sequences.enter(step(), "b", noon));
}

TEST_CASE("a cache is no reason to fail: any request begins, and goes on elsewhere", "[serve]") {
  Sequences sequences{{.memory = Memory::cache, .most = 2}};
  const auto one = step();
  const auto two = step();
  REQUIRE(sequences.enter(one, "a", noon));
  REQUIRE(sequences.enter(two, "a", noon));
  sequences.sent(*one, 1);
  CHECK(sequences.lose(1).empty());
  CHECK(Sequences::is_next(*one));
  sequences.sent(*one, 2);
  CHECK(sequences.leave(*one, false, noon).empty());
  CHECK(two->sequence->replica == 2);
  sequences.leave(*two, true, noon);
  // When there are too many, the one that has been idle for longest is forgotten.
  const auto three = step();
  REQUIRE(sequences.enter(three, "b", noon + 1s));
  sequences.leave(*three, true, noon + 1s);
  const auto four = step();
  REQUIRE(sequences.enter(four, "c", noon + 2s));
  REQUIRE(sequences.enter(step(), "b", noon + 2s));
  CHECK(sequences.size() == 2);
  CHECK(refused(sequences.enter(step(), "d", noon + 2s), Errc::queue_full, "2 sequences go on, and 2 may"));
}

TEST_CASE("to ask whether a request may enter changes nothing", "[serve]") {
  Sequences sequences{{.memory = Memory::cache, .most = 1, .idle = 5s}};
  const auto one = step();
  REQUIRE(sequences.enter(one, "a", noon));
  CHECK(refused(sequences.check(*step(), "b", noon), Errc::queue_full, "1 sequences go on, and 1 may"));
  run(sequences, one, noon);
  CHECK(sequences.check(*step(), "b", noon));
  CHECK(sequences.has("a", noon));
  CHECK_FALSE(sequences.has("b", noon));
  REQUIRE(sequences.enter(step(), "b", noon));
  CHECK_FALSE(sequences.has("a", noon));
}

TEST_CASE("of one sequence no more requests wait than may, beside the one that runs", "[serve]") {
  Sequences sequences{{}};
  const auto one = first();
  REQUIRE(sequences.enter(one, "a", noon));
  for (std::size_t i = 1; i < most_waiting_in_sequence; ++i)
    REQUIRE(sequences.enter(step(), "a", noon));
  CHECK(refused(sequences.enter(step(), "a", noon), Errc::queue_full,
                "32 requests of the sequence \"a\" wait, and 32 may"));
  CHECK(sequences.enter(first(), "b", noon));
  sequences.sent(*one, 1);
  CHECK(sequences.enter(step(), "a", noon));
  CHECK_FALSE(sequences.enter(first(), "a", noon));
}

TEST_CASE("there are no more sequences than may be, and those that are idle for too long make room", "[serve]") {
  Sequences sequences{{.most = 2, .idle = 5s}};
  for (const auto* id : {"a", "b"}) {
    const auto one = first();
    REQUIRE(sequences.enter(one, id, noon));
    sequences.leave(*one, true, noon);
  }
  CHECK(refused(sequences.enter(first(), "c", noon + 4s), Errc::queue_full, "2 sequences go on, and 2 may"));
  CHECK(sequences.enter(first(), "c", noon + 5s));
  CHECK(sequences.size() == 1);
}

TEST_CASE("a batch has one request of each sequence, and those that may not go are passed over", "[serve]") {
  const BatchTimes times;
  BatchQueue queue{{.max_batch = 8}, times};
  Sequences sequences{{}};
  std::vector<RequestPtr> requests{first(), step(), first(), step()};
  for (std::size_t i = 0; i < requests.size(); ++i) {
    REQUIRE(sequences.enter(requests[i], i < 2 ? "a" : "b", noon));
    REQUIRE(queue.admit(requests[i], noon, {1, noon, gpuactors::Share{2'500}}));
  }
  const auto next = [&] {
    return queue.next(noon, gpuactors::Share{2'500}, true,
                      [](const Request& request) { return Sequences::is_next(request); });
  };
  CHECK(next().batch == std::vector{requests[0], requests[2]});
  for (const auto i : {0U, 2U})
    sequences.sent(*requests[i], 1);
  CHECK(next().batch.empty());
  queue.settle(*requests[2]);
  sequences.leave(*requests[2], true, noon);
  CHECK(next().batch == std::vector{requests[3]});
}

namespace {

/// Sequences with replicas that remember, by the name of a sequence, which request they have run last.
class SequenceHistory {
public:
  explicit SequenceHistory(unsigned seed) : random_(seed) {
    // nop
  }

  void go_on() {
    now_ += std::chrono::milliseconds{random_() % 1'000};
    const auto what = random_() % 16;
    if (what < 6)
      enter();
    else if (what < 10)
      send();
    else if (what < 14 && !here_.empty())
      leave(here_[random_() % here_.size()]);
    else if (what < 15 && random_() % 2 == 0)
      lose(1 + random_() % 3);
    else if (random_() % 4 == 0)
      end(some_id());
    REQUIRE(sequences_.size() <= 4);
    for (const auto& one : here_)
      REQUIRE(one.request->sequence != nullptr);
  }

  void finish() {
    while (!here_.empty())
      leave(here_.back());
    sequences_.by_replica(now_ + 11s);
    REQUIRE(sequences_.size() == 0);
  }

private:
  struct One {
    RequestPtr request;
    std::string id;
    std::uint64_t number = 0;
    /// Where it runs, and what that replica had before.
    std::uint64_t replica = 0;
    std::uint64_t before = 0;
  };

  std::string some_id() {
    return {static_cast<char>('a' + random_() % 6)};
  }

  std::string open() {
    std::string ids;
    for (char id = 'a'; id < 'g'; ++id)
      if (sequences_.has(std::string(1, id), now_))
        ids += id;
    return ids;
  }

  void enter() {
    const auto request = step(random_() % 3 == 0, random_() % 6 == 0);
    const auto id = some_id();
    const auto before = open();
    if (!sequences_.enter(request, id, now_)) {
      REQUIRE(request->sequence == nullptr);
      REQUIRE(open() == before);
      return;
    }
    REQUIRE((request->starts || !elsewhere_.contains(id)));
    elsewhere_.erase(id);
    here_.push_back({request, id, ++last_, 0, 0});
  }

  void send() {
    for (auto& one : here_) {
      if (one.replica != 0 || !Sequences::is_next(*one.request))
        continue;
      one.replica = one.request->sequence->replica;
      if (one.replica == 0)
        one.replica = 1 + random_() % 3;
      auto& state = states_[one.replica][one.id];
      // What it builds on is there; nothing has overtaken it.
      if (!one.request->starts)
        REQUIRE(state > 0);
      REQUIRE(state < one.number);
      one.before = std::exchange(state, one.number);
      sequences_.sent(*one.request, one.replica);
      return;
    }
  }

  void leave(One one) {
    const auto runs = one.replica != 0;
    auto& state = states_[one.replica][one.id];
    const auto how = runs ? random_() % 8 : 7;
    if (how == 0) { // its batch runs again
      state = one.before;
      Sequences::returned(*one.request);
      std::find_if(here_.begin(), here_.end(), [&](const auto& other) {
        return other.request == one.request;
      })->replica = 0;
      return;
    }
    std::vector<RequestPtr> behind;
    if (how == 1) {
      state = 0;
      behind = Sequences::spoil(*one.request);
    } else if (how == 2) {
      state = one.request->starts ? 0 : one.before;
    } else if (runs && one.request->ends) {
      state = 0;
    }
    drop(one.request);
    for (const auto& other : sequences_.leave(*one.request, runs && how > 2, now_))
      behind.push_back(other);
    for (const auto& other : behind)
      drop(other);
  }

  void lose(std::uint64_t replica) {
    states_.erase(replica);
    for (const auto& request : sequences_.lose(replica))
      drop(request);
    for (auto& one : here_)
      if (one.replica == replica)
        one.replica = 0;
  }

  void end(const std::string& id) {
    sequences_.end(id);
    REQUIRE_FALSE(sequences_.has(id, now_));
    elsewhere_.insert(id);
  }

  void drop(const RequestPtr& request) {
    REQUIRE(std::erase_if(here_, [&](const auto& one) { return one.request == request; }) == 1);
  }

  std::mt19937 random_;
  Sequences sequences_{{.most = 4, .idle = 10s}};
  TimePoint now_ = noon;
  std::vector<One> here_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, std::map<std::string, std::uint64_t>> states_;
  /// Those that were ended because they go on elsewhere.
  std::set<std::string> elsewhere_;
};

} // namespace

TEST_CASE("in every history the requests of a sequence reach a replica in order, on the state of those before",
          "[serve]") {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    SequenceHistory history{seed};
    for (int i = 0; i < 400; ++i)
      history.go_on();
    history.finish();
  }
}
