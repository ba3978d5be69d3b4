// Requests of a sequence at the replica that has what they build on: batches and streams of replicas that the test
// plays, and an actor with state behind a table of models.
#include "models_played.hpp"

#include <apps/serve/models/request_check.hpp>
#include <support/eventually.hpp>

#include <fmt/format.h>

#include <cstring>
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
    return [this](wire::ReplicaBatch batch, BatchDone done) {
      const std::lock_guard lock{mutex_};
      batches_.emplace_back(std::move(batch), std::move(done));
    };
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
    std::pair<wire::ReplicaBatch, BatchDone> batch;
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
  std::vector<std::pair<wire::ReplicaBatch, BatchDone>> batches_;
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

bool has_not_come(const std::future<Result<void>>& coming) {
  return coming.wait_for(std::chrono::seconds{0}) != std::future_status::ready;
}

Result<void> broken(Errc code) {
  return gpuactors::fail(code, "as the test says");
}

/// Adds up the numbers of each sequence; answers the sum, and which replica it is.
class Counter : public gpuactors::Actor {
public:
  Counter(gpuactors::Init init, const wire::ReplicaConfig& config)
    : Actor(std::move(init)), cache_(config.settings().contains("cache")), number_(++made()) {
    if (config.sequence_idle_ms() != 60'000)
      throw std::runtime_error{"it is not told when sequences are forgotten"};
  }

  static std::atomic<int>& made() {
    static std::atomic<int> count{0};
    return count;
  }

  wire::ReplicaDescription describe(const google::protobuf::Empty& /*ask*/) {
    wire::ReplicaDescription description;
    const auto fill = [](wire::ReplicaTensor& tensor, const char* name) {
      tensor.set_name(name);
      tensor.set_datatype("INT32");
    };
    fill(*description.add_inputs(), "n");
    fill(*description.add_outputs(), "sum");
    fill(*description.add_outputs(), "replica");
    description.set_sequences(cache_ ? wire::SEQUENCE_MEMORY_CACHE : wire::SEQUENCE_MEMORY_STATE);
    return description;
  }

  Result<wire::ReplicaReply> infer(const wire::ReplicaBatch& batch) {
    std::vector<std::int32_t> numbers(static_cast<std::size_t>(batch.rows()));
    std::memcpy(numbers.data(), batch.inputs(0).data(), batch.inputs(0).size());
    auto number = numbers.begin();
    for (const auto& one : batch.sequences()) {
      auto own = one.id().empty() || one.start() ? 0 : sums_.at(one.id());
      for (std::int64_t row = 0; row < one.rows(); ++row)
        own = *number++ += own;
      if (one.end())
        sums_.erase(one.id());
      else if (!one.id().empty())
        sums_[one.id()] = own;
    }
    if (number != numbers.end())
      return gpuactors::fail(Errc::internal, "rows that are in no request");
    wire::ReplicaReply reply;
    reply.add_outputs()->assign(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(std::int32_t));
    numbers.assign(numbers.size(), number_);
    reply.add_outputs()->assign(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(std::int32_t));
    return reply;
  }

private:
  bool cache_;
  int number_;
  std::map<std::string, std::int32_t> sums_;
};

GPUACTORS_ACTOR("test/counter", Counter, wire::ReplicaConfig)
    .method("describe", &Counter::describe)
    .method("infer", &Counter::infer);

InferRequest count_on(const std::vector<std::int32_t>& numbers, const SequenceStep& step) {
  InferRequest request;
  request.model = "counts";
  request.sequence = step;
  request.inputs.push_back({"n", DataType::int32, {static_cast<std::int64_t>(numbers.size())}, Bytes::of(numbers)});
  return request;
}

std::vector<std::int32_t> numbers_of(const NamedTensor& tensor) {
  std::vector<std::int32_t> values(tensor.data.size() / sizeof(std::int32_t));
  std::memcpy(values.data(), tensor.data.view().data(), tensor.data.size());
  return values;
}

} // namespace

// -- batches --------------------------------------------------------------------------------------

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

// -- streams --------------------------------------------------------------------------------------

TEST_CASE("requests of a conversation are at one replica, one after the other", "[serve]") {
  ChatDesk desk{2, 100, false, wire::SEQUENCE_MEMORY_STATE};
  PlayedGenerator one;
  PlayedGenerator two;
  desk.add(1, one);
  auto first = desk.ask("hello", {}, 1, {"c", true, false});
  REQUIRE(one.count() == 1);
  CHECK(one.play(0).request.sequence().id() == "c");
  CHECK(one.play(0).request.sequence().start());
  desk.add(2, two);
  auto second = desk.ask("and", {}, 1, {"c", false, false});
  auto other = desk.ask("other");
  // The replica has room for the second, which waits for the first one's end.
  CHECK(one.count() == 1);
  CHECK(two.count() == 1);
  one.play(0).item("hi");
  CHECK(read(first.next()) == "hi");
  one.play(0).finish();
  CHECK(read(first.next()) == "END");
  REQUIRE(one.count() == 2);
  CHECK_FALSE(one.play(1).request.sequence().start());
  auto third = desk.ask("bye", {}, 1, {"c", false, true});
  desk.dispatcher->lose(1, {Errc::actor_died, "as the test says"});
  for (auto* client : {&second, &third})
    CHECK(read(client->next()).find("the state of the sequence \"c\" was lost with its replica") != std::string::npos);
  CHECK(two.count() == 1);
  CHECK(read(desk.ask("again", {}, 1, {"c", false, false}).next()).find("there is no sequence \"c\"")
        != std::string::npos);
  two.play(0).finish();
  CHECK(read(other.next()) == "END");
}

TEST_CASE("who stops an answer that has begun goes on with the conversation from there", "[serve]") {
  ChatDesk desk{2, 100, false, wire::SEQUENCE_MEMORY_STATE};
  PlayedGenerator replica;
  desk.add(1, replica);
  auto first = desk.ask("hello", {}, 1, {"c", true, false});
  replica.play(0).item("hi");
  CHECK(read(first.next()) == "hi");
  first.generation->cancel();
  auto second = desk.ask("and", {}, 1, {"c", false, false});
  REQUIRE(replica.count() == 2);
  replica.play(1).finish();
  CHECK(read(second.next()) == "END");
}

TEST_CASE("requests that were lost with a replica go one by one, whatever waits before them for another", "[serve]") {
  ChatDesk desk{4, 100, false, wire::SEQUENCE_MEMORY_STATE};
  PlayedGenerator one;
  PlayedGenerator two;
  desk.add(2, two);
  auto runs = desk.ask("runs", {}, 1, {"x", true, false});
  auto waits = desk.ask("waits", {}, 1, {"x", false, false});
  desk.add(1, one);
  auto a = desk.ask("a", {}, 1, {"a", true, false});
  desk.dispatcher->lose(1, {Errc::actor_died, "as the test says"});
  CHECK(one.count() == 1);
  REQUIRE(two.count() == 2);
  PlayedGenerator three;
  desk.add(3, three);
  auto b = desk.ask("b", {}, 1, {"b", true, false});
  REQUIRE(three.count() == 1);
  desk.dispatcher->lose(3, {Errc::actor_died, "as the test says"});
  // The one of "a" has no item yet.
  CHECK(two.count() == 2);
  two.play(1).item("an item");
  CHECK(read(a.next()) == "an item");
  REQUIRE(two.count() == 3);
  two.play(2).finish();
  CHECK(read(b.next()) == "END");
}

TEST_CASE("a request of a sequence that was lost goes where the fewest run, although others are not half full",
          "[serve]") {
  ChatDesk desk{4, 100, true, wire::SEQUENCE_MEMORY_STATE};
  PlayedGenerator one;
  PlayedGenerator two;
  PlayedGenerator three;
  desk.add(1, one);
  auto stays = desk.ask("stays");
  auto ends = desk.ask("ends");
  desk.add(3, three);
  auto lost = desk.ask("lost", {}, 1, {"a", true, false});
  REQUIRE(three.count() == 1);
  one.play(1).finish();
  CHECK(read(ends.next()) == "END");
  desk.add(2, two);
  desk.dispatcher->lose(3, {Errc::actor_died, "as the test says"});
  CHECK(one.count() == 2);
  REQUIRE(two.count() == 1);
  two.play(0).finish();
  CHECK(read(lost.next()) == "END");
}

TEST_CASE("requests reach a replica in the order in which they were begun, and not when they were withdrawn",
          "[serve]") {
  ChatDesk desk{2, 100, false, wire::SEQUENCE_MEMORY_STATE};
  PlayedGenerator replica;
  std::promise<void> goes_on;
  std::promise<void> sends;
  auto a = desk.ask("a", {}, 1, {"a", true, false});
  auto b = desk.ask("b", {}, 1, {"b", true, false});
  auto sending = std::async(std::launch::async, [&] {
    auto run = [&, play = replica.run()](wire::GenerateRequest request, gpuactors::Duration time) {
      if (request.id() == "a") {
        sends.set_value();
        goes_on.get_future().wait();
      }
      return play(std::move(request), time);
    };
    desk.dispatcher->add_generative({1, gpuactors::Share{2'500}, 0}, run);
  });
  sends.get_future().wait();
  b.generation->cancel();
  auto c = desk.ask("c", {}, 1, {"c", true, false});
  CHECK(replica.count() == 0);
  goes_on.set_value();
  sending.get();
  REQUIRE(replica.count() == 2);
  CHECK(replica.play(0).request.id() == "a");
  CHECK(replica.play(1).request.id() == "c");
}

TEST_CASE("a client that leaves its conversation lets the next request of it go", "[serve]") {
  ChatDesk desk{2, 100, false, wire::SEQUENCE_MEMORY_CACHE};
  PlayedGenerator replica;
  desk.add(1, replica);
  auto gone = desk.ask("hello", {}, 1, {"c", false, false});
  auto next = desk.ask("and", {}, 1, {"c", false, false});
  REQUIRE(replica.count() == 1);
  gone.generation->cancel();
  REQUIRE(replica.count() == 2);
  replica.play(1).finish();
  CHECK(read(next.next()) == "END");
}

// -- with an actor --------------------------------------------------------------------------------

TEST_CASE("an actor with state for each sequence is served", "[serve]") {
  Server server;
  must(server.table.add(must(parse_model("counts,actor=test/counter,replicas=2,max-batch=8", {}))));
  must(server.table.load("counts", {}));
  // All at once: the second request of each does not wait for its client.
  std::vector<std::vector<Asked>> asked(20);
  for (std::size_t i = 0; i < asked.size(); ++i)
    for (int round = 0; round < 10; ++round)
      asked[i].push_back(ask_async(
          server.table, count_on({static_cast<std::int32_t>(i), 1}, {std::to_string(i + 1), round == 0, round == 9})));
  for (std::size_t i = 0; i < asked.size(); ++i) {
    std::int32_t sum = 0;
    std::vector<std::int32_t> replicas;
    for (auto& one : asked[i]) {
      const auto reply = must(one.reply.get());
      sum += static_cast<std::int32_t>(i) + 1;
      CHECK(numbers_of(reply.outputs[0]) == std::vector{sum - 1, sum});
      replicas.push_back(numbers_of(reply.outputs[1])[0]);
    }
    CHECK(std::count(replicas.begin(), replicas.end(), replicas[0]) == 10);
  }
  CHECK(says(ask(server.table, count_on({1}, {"1", false, false})), "there is no sequence \"1\""));
  CHECK(numbers_of(must(ask(server.table, count_on({1, 2}, {}))).outputs[0]) == std::vector{1, 3});
}

TEST_CASE("a model that keeps nothing refuses sequences, and a limit bounds those of others", "[serve]") {
  auto request = request_for("digits", some_rows(1, 1));
  request.sequence = {"a", true, false};
  CHECK(says(check_request(request, digits_facts(), 4), "model digits keeps nothing from one request for the next"));
  auto chat = prompt("a");
  chat.sequence = request.sequence;
  CHECK(says(check_generation(chat, chat_facts()), "model chat keeps nothing from one request for the next"));
  Server server;
  must(server.table.add(must(parse_model("counts,actor=test/counter,max-sequences=1", {}))));
  must(server.table.load("counts", {}));
  must(ask(server.table, count_on({1}, {"a", true, false})));
  const auto refused = ask(server.table, count_on({1}, {"b", true, false}));
  CHECK(code_of(refused) == Errc::queue_full);
  CHECK(says(refused, "1 sequences go on, and 1 may"));
  CHECK(numbers_of(must(ask(server.table, count_on({1}, {"a", false, true}))).outputs[0]) == std::vector{2});
  must(ask(server.table, count_on({1}, {"b", true, false})));
}

TEST_CASE("sequences of the version before go on there to their ends, and new ones begin at the new version",
          "[serve]") {
  TableOptions options;
  options.drain = std::chrono::hours{1};
  Server server{options};
  must(server.table.add(must(parse_model("counts,actor=test/counter", {}))));
  must(server.table.load("counts", {}));
  const auto count = [&](std::int32_t number, const SequenceStep& step) {
    const auto reply = must(ask(server.table, count_on({number}, step)));
    return fmt::format("{} by version {}", numbers_of(reply.outputs[0])[0], reply.version);
  };
  const auto serves = [&](const char* version) {
    return eventually([&] { return must(server.table.describe("counts", "")).versions[0] == version; });
  };
  CHECK(count(1, {"a", true, false}) == "1 by version 1");
  CHECK(count(5, {"b", true, false}) == "5 by version 1");
  auto loading = std::async(std::launch::async, [&] { return server.table.load("counts", {}); });
  REQUIRE(serves("2"));
  CHECK(count(1, {"a", false, false}) == "2 by version 1");
  // What reads a request asks where it goes, also if the request names its version.
  for (const auto* version : {"", "1"}) {
    CHECK(must(server.table.describe("counts", version, {"a", false, false})).versions[0] == "1");
    CHECK_FALSE(must(server.table.generative("counts", version, {"a", false, false})));
  }
  CHECK(code_of(server.table.generative("counts", "1", {"c", false, false})) == Errc::unavailable);
  CHECK(must(server.table.describe("counts", "", {"a", true, false})).versions[0] == "2");
  CHECK(count(3, {"c", true, false}) == "3 by version 2");
  // One that is started anew is at the new version from then on.
  CHECK(count(7, {"b", true, false}) == "7 by version 2");
  CHECK(count(1, {"b", false, true}) == "8 by version 2");
  CHECK(says(ask(server.table, count_on({1}, {"b", false, false})), "there is no sequence \"b\""));
  CHECK(count(1, {}) == "1 by version 2");
  CHECK(has_not_come(loading));
  CHECK(count(1, {"a", false, true}) == "3 by version 1");
  must(loading.get());
  CHECK(says(ask(server.table, count_on({1}, {"a", false, false})), "there is no sequence \"a\""));
  // The end of the server waits for no sequence.
  loading = std::async(std::launch::async, [&] { return server.table.load("counts", {}); });
  REQUIRE(serves("3"));
  CHECK(count(1, {"c", false, false}) == "4 by version 2");
  server.table.close(Clock::now() + std::chrono::hours{1});
  must(loading.get());
}

TEST_CASE("a start that the new version refuses leaves the sequence at the version before", "[serve]") {
  TableOptions options;
  options.drain = std::chrono::hours{1};
  Server server{options};
  must(server.table.add(must(parse_model("counts,actor=test/counter,max-sequences=1", {}))));
  must(server.table.load("counts", {}));
  must(ask(server.table, count_on({1}, {"a", true, false})));
  auto loading = std::async(std::launch::async, [&] { return server.table.load("counts", {}); });
  REQUIRE(eventually([&] { return must(server.table.describe("counts", "")).versions[0] == "2"; }));
  must(ask(server.table, count_on({1}, {"b", true, false})));
  CHECK(code_of(ask(server.table, count_on({1}, {"a", true, false}))) == Errc::queue_full);
  const auto reply = must(ask(server.table, count_on({1}, {"a", false, true})));
  CHECK(reply.version == "1");
  CHECK(numbers_of(reply.outputs[0]) == std::vector{2});
  must(loading.get());
}

TEST_CASE("what a replica keeps of sequences is part of what it says of itself", "[serve]") {
  auto description = digits_description();
  description.set_sequences(wire::SEQUENCE_MEMORY_CACHE);
  const auto facts = must(read_facts(description));
  CHECK(facts.has_sequences());
  CHECK(facts.max_rows < digits_facts().max_rows);
  CHECK(says(check_same(digits_facts(), description),
             "it keeps SEQUENCE_MEMORY_CACHE of sequences, and the first replica of model digits, version 1 "
             "SEQUENCE_MEMORY_NONE"));
  description.set_sequences(static_cast<wire::SequenceMemory>(7));
  CHECK(says(read_facts(description), "it keeps 7 between the requests of a sequence: 0 to 2 are known"));
}
