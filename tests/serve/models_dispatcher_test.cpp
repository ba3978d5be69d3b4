// Requests on their way to replicas that the test plays itself: it says when a batch is answered, and how.
#include "models_fixture.hpp"

#include <apps/serve/models/dispatcher.hpp>

#include <atomic>
#include <thread>

using namespace std::chrono_literals;
using namespace serve;
using namespace serve::test;
using gpuactors::Clock;
using gpuactors::Errc;
using gpuactors::Result;
using gpuactors::Share;

namespace {

/// A replica whose batches the test answers.
class PlayedReplica {
public:
  struct Waiting {
    wire::ReplicaBatch batch;
    MessageDone done;
  };

  RunBatch run() {
    return by_messages([this](wire::ReplicaBatch batch, MessageDone done) {
      const std::lock_guard lock{mutex_};
      batches_.push_back({std::move(batch), std::move(done)});
    });
  }

  [[nodiscard]] std::size_t batches() {
    const std::lock_guard lock{mutex_};
    return batches_.size();
  }

  /// The oldest batch that is not answered.
  Waiting take() {
    const std::lock_guard lock{mutex_};
    REQUIRE_FALSE(batches_.empty());
    auto result = std::move(batches_.front());
    batches_.erase(batches_.begin());
    return result;
  }

  /// Answers the oldest with the first `outputs` elements of each row.
  std::int64_t answer() {
    const auto waiting = take();
    wire::ReplicaReply reply;
    auto& y = *reply.add_outputs();
    for (std::int64_t row = 0; row < waiting.batch.rows(); ++row)
      y.append(waiting.batch.inputs(0), static_cast<std::size_t>(row * inputs) * sizeof(float),
               outputs * sizeof(float));
    waiting.done(std::move(reply));
    return waiting.batch.rows();
  }

  void fail(Errc code) {
    take().done(gpuactors::fail(code, "as the test says"));
  }

private:
  std::mutex mutex_;
  std::vector<Waiting> batches_;
};

/// A dispatcher with clients that count their answers.
class Desk {
public:
  explicit Desk(std::uint64_t max_batch = 4, std::size_t ahead = 0, std::size_t max_requests = 100) {
    DispatcherOptions options;
    options.facts = digits_facts();
    options.limits.max_batch = max_batch;
    options.limits.max_requests = max_requests;
    options.ahead = ahead;
    dispatcher = must(Dispatcher::start(std::move(options), [this] { ++changes; }));
  }

  void add(std::uint64_t id, PlayedReplica& replica) {
    dispatcher->add({id, Share{2'500}, 0}, replica.run());
  }

  struct Client {
    std::shared_ptr<Pending> pending;
    gpuactors::Future<InferReply> reply;
  };

  Client ask(std::int64_t rows = 1, gpuactors::TimePoint deadline = gpuactors::never, std::uint64_t priority = 1) {
    const auto promise = std::make_shared<gpuactors::Promise<InferReply>>();
    auto pending = std::make_shared<Pending>(request_for("digits", some_rows(rows, ++seed_)),
                                             [promise](Result<InferReply> reply) { promise->set(std::move(reply)); });
    pending->rows = static_cast<std::uint64_t>(rows);
    pending->priority = priority;
    pending->arrived = Clock::now();
    pending->deadline = deadline;
    auto future = promise->future();
    accepted = dispatcher->submit(pending);
    return {std::move(pending), std::move(future)};
  }

  std::atomic<int> changes{0};
  bool accepted = false;
  std::shared_ptr<Dispatcher> dispatcher;

private:
  std::uint64_t seed_ = 0;
};

} // namespace

TEST_CASE("what comes while a batch runs forms the next one, and each gets its own rows", "[serve]") {
  Desk desk;
  PlayedReplica replica;
  desk.add(1, replica);
  auto first = desk.ask(1);
  auto second = desk.ask(2);
  auto third = desk.ask(1);
  REQUIRE(replica.batches() == 1);
  CHECK(replica.answer() == 1);
  CHECK(must(first.reply.get()).outputs[0].shape == std::vector<std::int64_t>{1, outputs});
  REQUIRE(replica.batches() == 1);
  CHECK(replica.answer() == 3);
  const auto reply = must(second.reply.get());
  CHECK(reply.version == "1");
  CHECK(reply.id == "a");
  const auto x = some_rows(2, 2);
  CHECK(values_of(reply) == std::vector<float>{x[0], x[1], x[2], x[8], x[9], x[10]});
  CHECK(values_of(must(third.reply.get()))[0] == some_rows(1, 3)[0]);
  const auto snapshot = desk.dispatcher->snapshot();
  CHECK(snapshot.statistics.success.count == 3);
  CHECK(snapshot.statistics.inference_count == 4);
  CHECK(snapshot.statistics.execution_count == 2);
  CHECK(snapshot.statistics.batches.at(3).count == 1);
}

TEST_CASE("a timeout fires while its batch runs, and the others in the batch do not notice", "[serve]") {
  Desk desk;
  PlayedReplica replica;
  auto hurried = desk.ask(1, Clock::now() + 3s);
  auto patient = desk.ask(1);
  desk.add(1, replica);
  REQUIRE(replica.batches() == 1);
  const auto late = hurried.reply.get();
  CHECK(code_of(late) == Errc::deadline_exceeded);
  CHECK(says(late, "model digits, version 1 did not answer within the timeout of"));
  CHECK_FALSE(patient.reply.ready());
  CHECK(replica.answer() == 2);
  CHECK(values_of(must(patient.reply.get()))[0] == some_rows(1, 2)[0]);
  CHECK(desk.dispatcher->snapshot().counts.expired_running == 1);
  CHECK(desk.dispatcher->snapshot().statistics.failures.at("REJECTED") == 1);
}

TEST_CASE("a timeout fires while there is no replica", "[serve]") {
  Desk desk;
  auto client = desk.ask(1, Clock::now() + 5ms);
  CHECK(code_of(client.reply.get()) == Errc::deadline_exceeded);
  CHECK(desk.dispatcher->snapshot().counts.expired_waiting == 1);
}

TEST_CASE("batches go to the replica with the fewest, and to none with more than it may have", "[serve]") {
  Desk desk{1, 1};
  PlayedReplica one;
  PlayedReplica two;
  desk.add(1, one);
  desk.add(2, two);
  std::vector<Desk::Client> clients;
  for (int i = 0; i < 5; ++i)
    clients.push_back(desk.ask());
  CHECK(one.batches() == 2);
  CHECK(two.batches() == 2);
  two.answer();
  CHECK(two.batches() == 2);
  CHECK(one.batches() == 2);
  while (one.batches() + two.batches() > 0)
    (one.batches() > 0 ? one : two).answer();
  for (auto& client : clients)
    must(client.reply.get());
}

TEST_CASE("a request goes to the replica that can begin with it first, and is not late for another's sake", "[serve]") {
  Desk desk{4, 1};
  PlayedReplica one;
  PlayedReplica two;
  desk.add(1, one);
  desk.add(2, two);
  desk.dispatcher->learn(Share{2'500}, 1, 10ms);
  desk.dispatcher->learn(Share{2'500}, 4, 100s);
  const auto large = desk.ask(4);
  const auto small = desk.ask(1);
  const auto third = desk.ask(1, Clock::now() + 50s);
  CHECK(one.batches() == 1);
  CHECK(two.batches() == 2);
  CHECK_FALSE(third.reply.ready());
  one.answer();
  two.answer();
  two.answer();
}

TEST_CASE("nothing is sent behind a batch that takes much longer than was expected", "[serve]") {
  Desk desk{1, 1};
  PlayedReplica late;
  PlayedReplica other;
  constexpr Share half{5'000};
  desk.dispatcher->learn(Share{2'500}, 1, 1ns);
  desk.dispatcher->learn(half, 1, 1h);
  desk.add(1, late);
  desk.dispatcher->add({2, half, 0}, other.run());
  auto first = desk.ask();
  auto second = desk.ask();
  REQUIRE(late.batches() == 1);
  REQUIRE(other.batches() == 1);
  auto third = desk.ask();
  REQUIRE(late.batches() == 1);
  REQUIRE(other.batches() == 2);
  // Nor where no other one has room, until it answers.
  auto fourth = desk.ask();
  REQUIRE(late.batches() == 1);
  late.answer();
  must(first.reply.get());
  REQUIRE(late.batches() == 1);
  late.answer();
  must(fourth.reply.get());
}

TEST_CASE("batches that are quicker than was thought do not make those behind them late", "[serve]") {
  Desk desk{1, 1};
  PlayedReplica replica;
  desk.add(1, replica);
  desk.dispatcher->learn(Share{2'500}, 1, 100s);
  std::vector<Desk::Client> clients;
  clients.push_back(desk.ask());
  clients.push_back(desk.ask());
  // Never idle, and each batch takes no time.
  for (int i = 0; i < 8; ++i) {
    replica.answer();
    clients.push_back(desk.ask());
  }
  replica.answer();
  // Behind one batch, whatever the table says of the eight before it.
  clients.push_back(desk.ask(1, Clock::now() + 600s));
  CHECK(desk.accepted);
  while (replica.batches() > 0)
    replica.answer();
  for (auto& client : clients)
    must(client.reply.get());
}

TEST_CASE("a replica that dies costs no request: its batch goes to another one", "[serve]") {
  for (const auto code :
       {Errc::worker_died, Errc::actor_died, Errc::unavailable, Errc::cancelled, Errc::context_lost}) {
    Desk desk;
    PlayedReplica one;
    PlayedReplica two;
    desk.add(1, one);
    auto client = desk.ask(2);
    desk.add(2, two);
    one.fail(code);
    CHECK(desk.changes == 1);
    const auto lost = desk.dispatcher->take_lost();
    REQUIRE(lost.size() == 1);
    CHECK(lost.front().id == 1);
    CHECK(lost.front().why.find("as the test says") != std::string::npos);
    CHECK(desk.dispatcher->replicas() == 1);
    REQUIRE(two.batches() == 1);
    two.answer();
    must(client.reply.get());
  }
}

TEST_CASE("a batch of a lost replica waits for the next one, and keeps its deadline", "[serve]") {
  Desk desk;
  PlayedReplica one;
  PlayedReplica two;
  desk.add(1, one);
  auto patient = desk.ask();
  auto hurried = desk.ask(1, Clock::now() + 20ms);
  one.fail(Errc::worker_died);
  CHECK(code_of(hurried.reply.get()) == Errc::deadline_exceeded);
  desk.add(2, two);
  two.answer();
  must(patient.reply.get());
}

TEST_CASE("a request that takes replica after replica along goes alone, and is failed in the end", "[serve]") {
  Desk desk{8};
  std::vector<std::unique_ptr<PlayedReplica>> replicas;
  auto poison = desk.ask();
  auto innocent = desk.ask();
  const auto next = [&]() -> PlayedReplica& {
    replicas.push_back(std::make_unique<PlayedReplica>());
    desk.add(replicas.size(), *replicas.back());
    return *replicas.back();
  };
  next().fail(Errc::worker_died);
  next().fail(Errc::worker_died);
  // Both are suspects now; the first one to come goes first.
  for (int i = 0; i < 3; ++i) {
    auto& replica = next();
    REQUIRE(replica.batches() == 1);
    replica.fail(Errc::worker_died);
  }
  const auto failed = poison.reply.get();
  CHECK(code_of(failed) == Errc::worker_died);
  CHECK(says(failed, "5 replicas were lost with this request"));
  CHECK(next().answer() == 1);
  must(innocent.reply.get());
}

TEST_CASE("replicas that are gone before a batch begins count against no request", "[serve]") {
  Desk desk;
  const RunBatch gone = [](const Batch&, const BatchDone& done) {
    done(gpuactors::fail(Errc::not_begun, "as the test says"));
  };
  for (std::uint64_t id = 1; id <= 6; ++id)
    desk.dispatcher->add({id, Share{2'500}, 0}, gone);
  PlayedReplica replica;
  desk.add(7, replica);
  auto client = desk.ask();
  REQUIRE(replica.batches() == 1);
  replica.answer();
  must(client.reply.get());
  CHECK(desk.dispatcher->snapshot().lost == 6);
}

TEST_CASE("a request that only waited behind the one that kills replicas is not suspected", "[serve]") {
  Desk desk{1, 1};
  std::vector<std::unique_ptr<PlayedReplica>> replicas;
  auto poison = desk.ask();
  auto innocent = desk.ask();
  const auto next = [&]() -> PlayedReplica& {
    replicas.push_back(std::make_unique<PlayedReplica>());
    desk.add(replicas.size(), *replicas.back());
    return *replicas.back();
  };
  for (int i = 0; i < 5; ++i) {
    auto& replica = next();
    REQUIRE(replica.batches() == 2);
    replica.fail(Errc::worker_died);
  }
  CHECK(code_of(poison.reply.get()) == Errc::worker_died);
  CHECK(innocent.pending->losses == 0);
  next().answer();
  must(innocent.reply.get());
}

TEST_CASE("requests that are refused while the replica is busy are counted in looks", "[serve]") {
  Desk desk{1, 0, 1};
  PlayedReplica replica;
  desk.add(1, replica);
  auto runs = desk.ask();
  auto waits = desk.ask();
  auto refused = desk.ask();
  CHECK(code_of(refused.reply.get()) == Errc::queue_full);
  CHECK(desk.dispatcher->look().refused == 1);
  replica.answer();
  replica.answer();
  must(runs.reply.get());
  must(waits.reply.get());
}

TEST_CASE("what a network reports fails the requests of its batch, and the replica goes on", "[serve]") {
  Desk desk;
  PlayedReplica replica;
  desk.add(1, replica);
  auto first = desk.ask();
  replica.fail(Errc::out_of_memory);
  const auto failed = first.reply.get();
  CHECK(code_of(failed) == Errc::task_failed);
  CHECK(says(failed, "could not infer: out_of_memory: as the test says"));
  auto second = desk.ask();
  replica.answer();
  must(second.reply.get());
  CHECK(desk.dispatcher->snapshot().statistics.failures.at("BACKEND") == 1);
}

TEST_CASE("when a replica blames the input, only the request that is at fault fails", "[serve]") {
  Desk desk;
  PlayedReplica replica;
  auto good = desk.ask(1);
  auto bad = desk.ask(2);
  auto other = desk.ask(1);
  desk.add(1, replica);
  replica.fail(Errc::invalid_argument);
  // Each comes again by itself, in the old order.
  CHECK(replica.answer() == 1);
  replica.fail(Errc::invalid_argument);
  CHECK(replica.answer() == 1);
  CHECK(replica.batches() == 0);
  CHECK(values_of(must(good.reply.get()))[0] == some_rows(1, 1)[0]);
  const auto failed = bad.reply.get();
  CHECK(code_of(failed) == Errc::invalid_argument);
  CHECK(says(failed, "could not infer: invalid_argument: as the test says"));
  must(other.reply.get());
  CHECK(desk.dispatcher->snapshot().statistics.success.count == 2);
  CHECK(desk.dispatcher->snapshot().statistics.fail.count == 1);
}

TEST_CASE("when a batch needs more memory than there is, its requests are tried alone", "[serve]") {
  Desk desk;
  PlayedReplica replica;
  auto small = desk.ask(1);
  auto large = desk.ask(2);
  desk.add(1, replica);
  replica.fail(Errc::out_of_memory);
  CHECK(replica.answer() == 1);
  replica.fail(Errc::out_of_memory);
  CHECK(replica.batches() == 0);
  must(small.reply.get());
  const auto failed = large.reply.get();
  CHECK(code_of(failed) == Errc::task_failed);
  CHECK(says(failed, "could not infer: out_of_memory: as the test says"));
}

TEST_CASE("where a replica names no times, its whole call counts as inference", "[serve]") {
  Desk desk;
  PlayedReplica replica;
  desk.add(1, replica);
  auto first = desk.ask();
  replica.answer();
  must(first.reply.get());
  CHECK(desk.dispatcher->snapshot().statistics.compute_infer.nanoseconds > 0);
  auto second = desk.ask();
  auto waiting = replica.take();
  wire::ReplicaReply reply;
  reply.add_outputs()->resize(outputs * sizeof(float));
  reply.set_output_ns(7);
  const auto before = desk.dispatcher->snapshot().statistics;
  waiting.done(std::move(reply));
  must(second.reply.get());
  const auto after = desk.dispatcher->snapshot().statistics;
  CHECK(after.compute_infer.nanoseconds == before.compute_infer.nanoseconds);
  CHECK(after.compute_output.nanoseconds == before.compute_output.nanoseconds + 7);
}

TEST_CASE("an answer of the wrong size is an error, not somebody else's rows", "[serve]") {
  Desk desk;
  PlayedReplica replica;
  desk.add(1, replica);
  auto client = desk.ask();
  wire::ReplicaReply reply;
  reply.add_outputs("too short");
  replica.take().done(std::move(reply));
  const auto failed = client.reply.get();
  CHECK(code_of(failed) == Errc::task_failed);
  CHECK(says(failed, "answered 9 bytes of \"y\" for 1 rows of 12 bytes"));
  auto another = desk.ask();
  replica.take().done(wire::ReplicaReply{});
  CHECK(says(another.reply.get(), "answered 0 outputs: it has 1"));
}

TEST_CASE("a client that goes is answered with cancelled once, whether its request waits or runs", "[serve]") {
  Desk desk{1};
  PlayedReplica replica;
  desk.add(1, replica);
  auto runs = desk.ask();
  auto waits = desk.ask();
  desk.dispatcher->cancel(*waits.pending);
  desk.dispatcher->cancel(*waits.pending);
  CHECK(code_of(waits.reply.get()) == Errc::cancelled);
  desk.dispatcher->cancel(*runs.pending);
  CHECK(code_of(runs.reply.get()) == Errc::cancelled);
  replica.answer();
  CHECK(replica.batches() == 0);
  CHECK(desk.dispatcher->snapshot().statistics.failures.at("CANCELED") == 2);
  CHECK(desk.dispatcher->snapshot().statistics.success.count == 0);
}

TEST_CASE("a full queue answers at once", "[serve]") {
  Desk desk{1, 0, 2};
  PlayedReplica replica;
  desk.add(1, replica);
  std::vector<Desk::Client> clients;
  for (int i = 0; i < 3; ++i)
    clients.push_back(desk.ask());
  auto refused = desk.ask();
  REQUIRE(refused.reply.ready());
  const auto reply = refused.reply.get();
  CHECK(code_of(reply) == Errc::queue_full);
  CHECK(says(reply, "model digits, version 1: the queue is full: 2 requests"));
  for (int i = 0; i < 3; ++i)
    replica.answer();
  for (auto& client : clients)
    must(client.reply.get());
}

TEST_CASE("what cannot be in time by the measured times is refused at once", "[serve]") {
  Desk desk;
  PlayedReplica replica;
  desk.add(1, replica);
  desk.dispatcher->learn(Share{2'500}, 1, 10s);
  auto refused = desk.ask(1, Clock::now() + 1s);
  REQUIRE(refused.reply.ready());
  const auto reply = refused.reply.get();
  CHECK(code_of(reply) == Errc::queue_full);
  CHECK(says(reply, "no answer can come in time"));
}

TEST_CASE("closing waits for what was accepted, and takes nothing more", "[serve]") {
  Desk desk;
  PlayedReplica replica;
  desk.add(1, replica);
  auto client = desk.ask();
  std::thread answers{[&] {
    // Once it refuses, it is closing, and waits.
    for (auto probe = desk.ask(); desk.accepted; probe = desk.ask())
      desk.dispatcher->cancel(*probe.pending);
    replica.answer();
  }};
  desk.dispatcher->close(gpuactors::never);
  answers.join();
  must(client.reply.get());
  auto refused = desk.ask();
  CHECK_FALSE(desk.accepted);
  CHECK_FALSE(refused.reply.ready());
}

TEST_CASE("closing fails what is not answered in its time", "[serve]") {
  Desk desk{1};
  PlayedReplica replica;
  desk.add(1, replica);
  auto runs = desk.ask();
  auto waits = desk.ask();
  desk.dispatcher->close(Clock::now() + 5ms);
  CHECK(code_of(runs.reply.get()) == Errc::unavailable);
  CHECK(says(waits.reply.get(), "was taken out of service before it could answer"));
  replica.answer(); // to nobody
}

TEST_CASE("a replica that retires gets nothing more, and goes when it has answered", "[serve]") {
  Desk desk;
  PlayedReplica old;
  PlayedReplica next;
  desk.add(1, old);
  auto first = desk.ask();
  desk.add(2, next);
  desk.dispatcher->retire(1);
  CHECK(desk.dispatcher->look().replicas.size() == 1);
  CHECK_FALSE(desk.dispatcher->remove_idle(1));
  auto second = desk.ask();
  next.answer();
  must(second.reply.get());
  // Though the other one is free, and was there first.
  old.answer();
  must(first.reply.get());
  auto third = desk.ask();
  next.answer();
  must(third.reply.get());
  CHECK(desk.dispatcher->remove_idle(1));
}

TEST_CASE("a replica that retires is none of those that serve, although it answers what it has", "[serve]") {
  Desk desk{1};
  PlayedReplica old;
  PlayedReplica next;
  desk.add(1, old);
  auto first = desk.ask();
  desk.add(2, next);
  desk.dispatcher->retire(1);
  CHECK(desk.dispatcher->replicas() == 1);
  CHECK(desk.dispatcher->snapshot().replicas.size() == 1);
  desk.dispatcher->lose(2, {Errc::worker_died, "as the test says"});
  CHECK(desk.dispatcher->replicas() == 0);
  old.answer();
  must(first.reply.get());
}

TEST_CASE("only an idle replica can be taken out", "[serve]") {
  Desk desk;
  PlayedReplica replica;
  desk.add(1, replica);
  auto client = desk.ask();
  CHECK_FALSE(desk.dispatcher->remove_idle(1));
  replica.answer();
  CHECK(desk.dispatcher->remove_idle(1));
  CHECK_FALSE(desk.dispatcher->remove_idle(1));
  CHECK(desk.dispatcher->look().replicas.empty());
}
