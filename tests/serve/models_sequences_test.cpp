// Requests of a sequence at the replica that has what they build on: batches of replicas that the test plays.
#include "models_played.hpp"

#include <support/eventually.hpp>

#include <fmt/format.h>

#include <functional>
#include <future>
#include <map>

using namespace serve;
using namespace serve::test;
using gpuactors::Clock;
using gpuactors::Errc;
using gpuactors::Result;
using gpuactors::test::eventually;

namespace {

/// A replica with batches, which the test answers.
class PlayedBatches {
public:
  RunBatch run() {
    return by_messages([this](wire::ReplicaBatch batch, MessageDone done) {
      const std::lock_guard lock{mutex_};
      batches_.emplace_back(std::move(batch), std::move(done));
    });
  }

  /// The sequences of the oldest batch: "a<", "b", "c>" begin, go on and end; "-" is none. Empty without a batch.
  std::string waits() {
    const std::lock_guard lock{mutex_};
    std::string text;
    if (!batches_.empty())
      for (const auto& one : batches_.front().first.sequences())
        text += fmt::format("{}{}{}{}", text.empty() ? "" : " ", one.id().empty() ? "-" : one.id(),
                            one.start() ? "<" : "", one.end() ? ">" : "");
    return text;
  }

  void answer(Result<void> how = {}) {
    std::pair<wire::ReplicaBatch, MessageDone> batch;
    {
      const std::lock_guard lock{mutex_};
      REQUIRE_FALSE(batches_.empty());
      batch = std::move(batches_.front());
      batches_.erase(batches_.begin());
    }
    if (!how)
      return batch.second(gpuactors::fail(how.error()));
    wire::ReplicaReply reply;
    reply.add_outputs()->resize(static_cast<std::size_t>(batch.first.rows()) * outputs * sizeof(float));
    batch.second(std::move(reply));
  }

private:
  std::mutex mutex_;
  std::vector<std::pair<wire::ReplicaBatch, MessageDone>> batches_;
};

class SequenceDesk {
public:
  explicit SequenceDesk(wire::SequenceMemory memory = wire::SEQUENCE_MEMORY_STATE,
                        const std::function<void(DispatcherOptions&)>& change = {}) {
    DispatcherOptions options;
    options.facts = digits_facts();
    options.facts.sequences = memory;
    options.limits.max_batch = 4;
    if (memory == wire::SEQUENCE_MEMORY_CACHE)
      options.sequences.memory = batching::Memory::cache;
    if (change)
      change(options);
    dispatcher = must(Dispatcher::start(std::move(options), [] {}));
  }

  SequenceDesk(const SequenceDesk&) = delete;
  SequenceDesk& operator=(const SequenceDesk&) = delete;

  ~SequenceDesk() {
    dispatcher->close({});
  }

  void add(std::uint64_t id, PlayedBatches& replica) {
    dispatcher->add({id, gpuactors::Share{2'500}, 0}, replica.run());
  }

  /// "a<": see `PlayedBatches::waits`.
  gpuactors::Future<InferReply> ask(std::string text, gpuactors::TimePoint deadline = gpuactors::never) {
    auto request = request_for("digits", some_rows(1, 1));
    request.sequence.end = text.ends_with('>');
    text.resize(text.size() - (request.sequence.end ? 1 : 0));
    request.sequence.start = text.ends_with('<');
    text.resize(text.size() - (request.sequence.start ? 1 : 0));
    request.sequence.id = text == "-" ? "" : text;
    const auto promise = std::make_shared<gpuactors::Promise<InferReply>>();
    const auto step = request.sequence;
    last = std::make_shared<Pending>(std::move(request),
                                     [promise](Result<InferReply> reply) { promise->set(std::move(reply)); });
    last->starts = step.start;
    last->ends = step.end;
    last->arrived = Clock::now();
    last->deadline = deadline;
    auto future = promise->future();
    REQUIRE(dispatcher->submit(last));
    return future;
  }

  std::shared_ptr<Dispatcher> dispatcher;
  std::shared_ptr<Pending> last;
};

Result<void> broken(Errc code) {
  return gpuactors::fail(code, "as the test says");
}

} // namespace

TEST_CASE("a batch has requests of several sequences, one of each, with what they are", "[serve]") {
  SequenceDesk desk;
  PlayedBatches replica;
  std::vector<gpuactors::Future<InferReply>> replies;
  for (const auto* text : {"a<", "a", "b<", "-", "a>", "b"})
    replies.push_back(desk.ask(text));
  desk.add(1, replica);
  CHECK(replica.waits() == "a< b< -");
  replica.answer();
  CHECK(replica.waits() == "a b");
  replica.answer();
  CHECK(replica.waits() == "a>");
  CHECK(desk.dispatcher->snapshot().sequences == 2);
  replica.answer();
  for (auto& reply : replies)
    must(reply.get());
  CHECK(desk.dispatcher->snapshot().sequences == 1);
  CHECK(says(desk.ask("a").get(), "there is no sequence \"a\""));
}

TEST_CASE("sequences that begin one after the other are spread over the replicas", "[serve]") {
  SequenceDesk desk;
  PlayedBatches replicas[3];
  for (std::uint64_t id = 1; id <= 3; ++id)
    desk.add(id, replicas[id - 1]);
  for (const auto& [name, at] : std::map<std::string, int>{{"a", 0}, {"b", 1}, {"c", 2}, {"d", 0}, {"e", 1}}) {
    auto reply = desk.ask(name + "<");
    CHECK(replicas[at].waits() == name + "<");
    replicas[at].answer();
    must(reply.get());
  }
}

TEST_CASE("where replicas come and go, sequences begin at the oldest one until it has many", "[serve]") {
  SequenceDesk desk{wire::SEQUENCE_MEMORY_STATE, [](DispatcherOptions& options) { options.fills = true; }};
  PlayedBatches first;
  PlayedBatches second;
  desk.add(1, first);
  desk.add(2, second);
  for (const auto* name : {"a<", "b<"}) {
    auto reply = desk.ask(name);
    REQUIRE(first.waits() == name);
    first.answer();
    must(reply.get());
  }
  CHECK(desk.dispatcher->remove_idle(2));
  desk.add(3, second);
  for (const auto* name : {"c<", "d<"}) {
    auto reply = desk.ask(name);
    REQUIRE(second.waits() == name);
    second.answer();
    must(reply.get());
  }
  auto reply = desk.ask("e<");
  CHECK(first.waits() == "e<");
}

TEST_CASE("what waits for the replica that has its sequence is no reason for another one", "[serve]") {
  SequenceDesk desk{wire::SEQUENCE_MEMORY_STATE};
  PlayedBatches replica;
  desk.add(1, replica);
  std::vector<gpuactors::Future<InferReply>> replies;
  const auto waits = [&](const char* name) {
    replies.push_back(desk.ask(name));
    const auto look = desk.dispatcher->look();
    return std::pair{look.waiting, look.bound};
  };
  CHECK(waits("a<") == std::pair<std::size_t, std::size_t>{0, 0});
  CHECK(waits("a") == std::pair<std::size_t, std::size_t>{0, 1});
  replica.answer();
  replica.answer();
  CHECK(waits("-") == std::pair<std::size_t, std::size_t>{0, 0});
  CHECK(waits("a") == std::pair<std::size_t, std::size_t>{0, 1});
  CHECK(waits("b<") == std::pair<std::size_t, std::size_t>{1, 1});
  CHECK(waits("-") == std::pair<std::size_t, std::size_t>{2, 1});
}

TEST_CASE("what another replica could take although its cache is here is a reason for that", "[serve]") {
  SequenceDesk desk{wire::SEQUENCE_MEMORY_CACHE};
  PlayedBatches replica;
  desk.add(1, replica);
  auto first = desk.ask("a");
  replica.answer();
  auto second = desk.ask("-");
  auto third = desk.ask("a");
  CHECK(desk.dispatcher->look().waiting == 1);
  auto fourth = desk.ask("a");
  CHECK(desk.dispatcher->look().waiting == 1);
  CHECK(desk.dispatcher->look().bound == 1);
}

TEST_CASE("a request that is refused ends no sequence, and forgets no cache", "[serve]") {
  for (const auto memory : {wire::SEQUENCE_MEMORY_STATE, wire::SEQUENCE_MEMORY_CACHE}) {
    SequenceDesk desk{memory, [](auto& options) {
                        options.limits.max_requests = 1;
                        options.sequences.most = 1;
                      }};
    PlayedBatches replica;
    desk.add(1, replica);
    auto begun = desk.ask("a<");
    replica.answer();
    auto runs = desk.ask("-");
    auto waits = desk.ask("-");
    for (const auto* text : {"a<", "a>", "b<"})
      CHECK(code_of(desk.ask(text).get()) == Errc::queue_full);
    CHECK(desk.dispatcher->snapshot().sequences == 1);
    replica.answer();
    replica.answer();
    auto goes_on = desk.ask("a");
    replica.answer();
    for (auto* reply : {&begun, &runs, &waits, &goes_on})
      must(reply->get());
  }
}

TEST_CASE("requests of a sequence wait for their replica, and others pass them", "[serve]") {
  SequenceDesk desk;
  PlayedBatches one;
  PlayedBatches two;
  desk.add(1, one);
  auto begun = desk.ask("a<");
  one.answer();
  desk.add(2, two);
  auto other = desk.ask("b<");
  CHECK(two.waits() == "b<");
  auto busy = desk.ask("-");
  CHECK(one.waits() == "-");
  auto goes_on = desk.ask("a");
  auto passes = desk.ask("c<");
  two.answer();
  CHECK(two.waits() == "c<");
  one.answer();
  CHECK(one.waits() == "a");
  // Where a sequence is, nothing is idle.
  one.answer();
  two.answer();
  CHECK_FALSE(desk.dispatcher->remove_idle(1));
  for (const auto& replica : desk.dispatcher->look().replicas)
    CHECK(Clock::now() - replica.idle_since < std::chrono::seconds{30});
  auto ends = desk.ask("c>");
  two.answer();
  auto ends_too = desk.ask("b>");
  two.answer();
  CHECK(desk.dispatcher->remove_idle(2));
  // One that retires goes on with what it has begun, and begins nothing.
  desk.dispatcher->retire(1);
  auto last = desk.ask("a");
  CHECK(one.waits() == "a");
  one.answer();
  must(last.get());
  auto nowhere = desk.ask("d<");
  auto loose = desk.ask("-");
  CHECK(one.waits().empty());
  CHECK_FALSE(desk.dispatcher->remove_idle(1));
  for (auto* reply : {&begun, &other, &busy, &goes_on, &passes, &ends, &ends_too})
    must(reply->get());
}

TEST_CASE("a lost replica takes the state of its sequences along, and no more", "[serve]") {
  SequenceDesk desk;
  PlayedBatches one;
  PlayedBatches two;
  desk.add(1, one);
  auto begun = desk.ask("a<");
  one.answer();
  auto runs = desk.ask("a");
  auto waits = desk.ask("a");
  auto begins = desk.ask("b<");
  auto follows = desk.ask("b");
  auto anew = desk.ask("a<");
  CHECK(one.waits() == "a");
  one.answer(broken(Errc::worker_died));
  for (auto* reply : {&runs, &waits}) {
    const auto lost = reply->get();
    CHECK(code_of(lost) == Errc::unavailable);
    CHECK(says(lost, "the state of the sequence \"a\" was lost with its replica; start it anew"));
  }
  desk.add(2, two);
  CHECK(two.waits() == "b< a<");
  // What starts a sequence is repeated at another replica, like any other request.
  two.answer(broken(Errc::worker_died));
  PlayedBatches three;
  desk.add(3, three);
  CHECK(three.waits() == "b< a<");
  three.answer();
  CHECK(three.waits() == "b");
  three.answer();
  for (auto* reply : {&begun, &begins, &follows, &anew})
    must(reply->get());
  desk.dispatcher->lose(3, {Errc::actor_died, "as the test says"});
  CHECK(says(desk.ask("b").get(), "or its state was lost with a replica; start it anew"));
}

TEST_CASE("requests that build on one that failed fail with it, whatever ended it", "[serve]") {
  SequenceDesk desk;
  PlayedBatches replica;
  auto cancelled = desk.ask("a<");
  const auto first = desk.last;
  auto behind = desk.ask("a");
  desk.dispatcher->cancel(*first);
  CHECK(code_of(cancelled.get()) == Errc::cancelled);
  CHECK(says(behind.get(), "the request that starts the sequence \"a\" failed, and this one builds on it"));
  desk.add(1, replica);
  auto blamed = desk.ask("b<");
  behind = desk.ask("b");
  replica.answer(broken(Errc::invalid_argument));
  CHECK(code_of(blamed.get()) == Errc::invalid_argument);
  CHECK(code_of(behind.get()) == Errc::unavailable);
  CHECK(desk.dispatcher->snapshot().sequences == 0);
  // One in the middle fails alone.
  auto begun = desk.ask("c<");
  auto bad = desk.ask("c");
  auto good = desk.ask("c");
  replica.answer();
  replica.answer(broken(Errc::invalid_argument));
  replica.answer();
  must(begun.get());
  CHECK(code_of(bad.get()) == Errc::invalid_argument);
  must(good.get());
}

TEST_CASE("what waits behind a request that would be late goes when that is given up", "[serve]") {
  SequenceDesk desk;
  PlayedBatches replica;
  desk.dispatcher->learn(gpuactors::Share{2'500}, 1, std::chrono::hours{2});
  auto late = desk.ask("a<", Clock::now() + std::chrono::hours{1});
  auto builds_on = desk.ask("a");
  auto anew = desk.ask("a<");
  desk.add(1, replica);
  CHECK(code_of(late.get()) == Errc::deadline_exceeded);
  CHECK(code_of(builds_on.get()) == Errc::unavailable);
  CHECK(replica.waits() == "a<");
  replica.answer();
  must(anew.get());
}

TEST_CASE("who ends waits for sequences until they end, or are dropped, also before that", "[serve]") {
  const auto far = Clock::now() + std::chrono::hours{1};
  PlayedBatches replica;
  for (const auto early : {false, true}) {
    SequenceDesk desk;
    desk.add(1, replica);
    auto begun = desk.ask("a<");
    replica.answer();
    must(begun.get());
    if (early)
      desk.dispatcher->drop_sequences();
    auto closing = std::async(std::launch::async, [&] { desk.dispatcher->close(far, true); });
    if (!early) {
      // One that begins is taken no more, and one that goes on is.
      REQUIRE(eventually([&] {
        auto request = request_for("digits", some_rows(1, 1));
        request.sequence = {"a", true, false};
        const auto begins = std::make_shared<Pending>(std::move(request), [](const auto&) {});
        begins->starts = true;
        const auto taken = desk.dispatcher->submit(begins);
        if (taken)
          replica.answer();
        return !taken;
      }));
      const auto in_none = std::make_shared<Pending>(request_for("digits", some_rows(1, 1)), [](const auto&) {});
      CHECK_FALSE(desk.dispatcher->submit(in_none));
      auto goes_on = desk.ask("a");
      replica.answer();
      must(goes_on.get());
      desk.dispatcher->drop_sequences();
    }
    closing.get();
  }
  // With a cache, nobody waits.
  SequenceDesk desk{wire::SEQUENCE_MEMORY_CACHE};
  desk.add(1, replica);
  auto begun = desk.ask("a");
  replica.answer();
  desk.dispatcher->close(far, true);
}

TEST_CASE("a batch that is run again request by request keeps the order of sequences", "[serve]") {
  SequenceDesk desk;
  PlayedBatches replica;
  std::vector<gpuactors::Future<InferReply>> replies;
  for (const auto* text : {"a<", "b<", "a", "b"})
    replies.push_back(desk.ask(text));
  desk.add(1, replica);
  CHECK(replica.waits() == "a< b<");
  replica.answer(broken(Errc::invalid_argument));
  CHECK(replica.waits() == "a<");
  replica.answer();
  CHECK(replica.waits() == "b<");
  replica.answer(broken(Errc::invalid_argument));
  CHECK(replica.waits() == "a");
  replica.answer();
  must(replies[0].get());
  CHECK(code_of(replies[1].get()) == Errc::invalid_argument);
  must(replies[2].get());
  CHECK(code_of(replies[3].get()) == Errc::unavailable);
}

TEST_CASE("an answer that is larger than a message ends the sequences whose state it has changed", "[serve]") {
  const auto large = Result<void>{gpuactors::fail(Errc::invalid_argument, "the message gpuactors.v1.ReplicaReply has "
                                                                          "6.5 MiB, at most 4 MiB are allowed")};
  SequenceDesk desk;
  PlayedBatches replica;
  auto begun = desk.ask("a<");
  auto changed = desk.ask("a");
  auto behind = desk.ask("a");
  auto anew = desk.ask("a<");
  auto other = desk.ask("b<");
  desk.add(1, replica);
  replica.answer();
  auto none = desk.ask("-");
  CHECK(replica.waits() == "a");
  replica.answer(large);
  CHECK(says(changed.get(),
             "the answer to this request of 1 rows has 6.5 MiB, and a message has at most 4 MiB: ask for "
             "less in one request; the sequence \"a\" has ended with it: start it anew"));
  CHECK(code_of(behind.get()) == Errc::unavailable);
  // What is in no sequence has changed nothing, and runs again; what has, does not.
  CHECK(replica.waits() == "a< -");
  replica.answer(large);
  const auto lost = anew.get();
  CHECK(code_of(lost) == Errc::task_failed);
  CHECK(says(lost, "the answers to a batch of 2 requests have 6.5 MiB together"));
  CHECK(replica.waits() == "-");
  replica.answer();
  CHECK(says(desk.ask("a").get(), "there is no sequence \"a\""));
  for (auto* reply : {&begun, &other, &none})
    must(reply->get());
  // A cache is only looked at again.
  SequenceDesk caches{wire::SEQUENCE_MEMORY_CACHE};
  auto one = caches.ask("a");
  auto two = caches.ask("b");
  caches.add(1, replica);
  CHECK(replica.waits() == "a b");
  replica.answer(large);
  CHECK(replica.waits() == "a");
  replica.answer();
  CHECK(replica.waits() == "b");
  replica.answer();
  must(one.get());
  must(two.get());
}

TEST_CASE("with a cache, requests prefer the replica that has it, and go elsewhere when it is busy or lost",
          "[serve]") {
  SequenceDesk desk{wire::SEQUENCE_MEMORY_CACHE};
  PlayedBatches one;
  PlayedBatches two;
  desk.add(1, one);
  auto begun = desk.ask("a");
  one.answer();
  desk.add(2, two);
  auto prefers = desk.ask("a");
  CHECK(one.waits() == "a");
  one.answer();
  auto busy = desk.ask("-");
  auto busy_too = desk.ask("-");
  CHECK(one.waits() == "-");
  auto elsewhere = desk.ask("a");
  two.answer();
  CHECK(two.waits() == "a");
  one.answer();
  two.answer(broken(Errc::worker_died));
  CHECK(one.waits() == "a");
  one.answer();
  for (auto* reply : {&begun, &prefers, &busy, &busy_too, &elsewhere})
    must(reply->get());
}

TEST_CASE("a cache is no reason to wait for a replica that retires", "[serve]") {
  for (const auto memory : {wire::SEQUENCE_MEMORY_CACHE, wire::SEQUENCE_MEMORY_STATE}) {
    SequenceDesk desk{memory};
    PlayedBatches one;
    PlayedBatches two;
    desk.add(1, one);
    auto begun = desk.ask("a<");
    one.answer();
    must(begun.get());
    desk.add(2, two);
    CHECK_FALSE(desk.dispatcher->remove_idle(1)); // as long as it serves, its sequences go on there
    desk.dispatcher->retire(1);
    const bool is_cache = memory == wire::SEQUENCE_MEMORY_CACHE;
    CHECK(desk.dispatcher->remove_idle(1) == is_cache);
    if (!is_cache)
      continue;
    auto goes_on = desk.ask("a");
    two.answer();
    must(goes_on.get());
  }
}
