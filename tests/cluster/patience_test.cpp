// Actors that wait for others when they are told to end.
#include "fixtures.hpp"

#include <support/catch.hpp>
#include <support/eventually.hpp>

#include <atomic>
#include <thread>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

std::atomic<int> waiting{0};

class Waiter : public Actor {
public:
  Waiter(Init init, const google::protobuf::Empty&) : Actor(std::move(init)) {
    // nop
  }

  /// Waits for what nobody does.
  Result<Number> wait_for_others(const google::protobuf::Empty&) {
    ++waiting;
    return others_.future().get();
  }

  /// In the first life, an answer that never comes.
  Future<Number> answer_later(const google::protobuf::Empty&) {
    ++waiting;
    return restarts() == 0 ? others_.future() : Future<Number>::ready_with(number(restarts()));
  }

  /// In the first life, works until it is asked to stop.
  Result<Number> work(const google::protobuf::Empty&) {
    ++waiting;
    if (restarts() > 0)
      return number(restarts());
    while (!stop_requested())
      std::this_thread::yield();
    return fail(Errc::cancelled, "asked to stop");
  }

  /// Writes as long as somebody reads.
  Result<void> write(const google::protobuf::Empty&, ReplyStream<Number>& out) {
    for (++waiting;;)
      GPUACTORS_TRY(out.write(number(1)));
  }

private:
  Promise<Number> others_;
};

/// The answer that the first run of a task promises and does not give.
Promise<Number> of_the_first_run;

std::shared_ptr<const TypeRegistry> waiters() {
  static const auto registry = [] {
    auto made = std::make_shared<TypeRegistry>();
    define_task(
        "answer_later",
        [](TaskContext&, const google::protobuf::Empty&) -> Future<Number> {
          return waiting++ == 0 ? of_the_first_run.future() : Future<Number>::ready_with(number(2));
        },
        *made);
    define_actor<Waiter>("waiter", *made)
        .method("wait_for_others", &Waiter::wait_for_others)
        .method("answer_later", &Waiter::answer_later)
        .method("work", &Waiter::work)
        .method("write", &Waiter::write);
    return made;
  }();
  waiting = 0;
  return registry;
}

Cluster embed_waiter() {
  return embed(waiters());
}

} // namespace

TEST_CASE("an actor that waits for others ends within its grace", "[cluster]") {
  auto cluster = embed_waiter();
  const auto actor = must(cluster.spawn("waiter"));
  auto call = actor.call<Number>("wait_for_others");
  REQUIRE(eventually([] { return waiting == 1; }));
  CHECK(cluster.kill(actor, {.grace = 2s}));
  const auto answer = call.get();
  REQUIRE_FALSE(answer);
  CHECK(answer.error().code() == Errc::lease_revoked);
  CHECK(must(cluster.state()).actors_size() == 0);
}

TEST_CASE("a call that is to be answered later is lost with its actor's life, and made again in the next",
          "[cluster]") {
  auto cluster = embed_waiter();
  const auto actor = must(cluster.spawn("waiter", {}, {.max_restarts = 1, .max_task_retries = 1}));
  auto call = actor.call<Number>("answer_later");
  REQUIRE(eventually([] { return waiting == 1; }));
  must(cluster.kill(actor, {.restart = true}));
  CHECK(must(call.get()).value() == 1);
}

TEST_CASE("a call that stops because its actor ends is lost with its life, and made again in the next", "[cluster]") {
  auto cluster = embed_waiter();
  const auto actor = must(cluster.spawn("waiter", {}, {.max_restarts = 1, .max_task_retries = 1}));
  auto call = actor.call<Number>("work");
  REQUIRE(eventually([] { return waiting == 1; }));
  must(cluster.kill(actor, {.restart = true, .grace = 2s}));
  CHECK(must(call.get()).value() == 1);
}

TEST_CASE("the reader of a stream whose actor is told to end has not withdrawn it", "[cluster]") {
  auto cluster = embed_waiter();
  const auto actor = must(cluster.spawn("waiter"));
  auto stream = actor.stream<Number>("write");
  REQUIRE(eventually([] { return waiting == 1; }));
  must(cluster.kill(actor, {.grace = 2s}));
  const auto end = stream.for_each([](const Number&) {});
  REQUIRE_FALSE(end);
  CHECK(end.error().code() == Errc::lease_revoked);
}

TEST_CASE("a call that is to be answered later was not withdrawn when its actor is killed", "[cluster]") {
  auto cluster = embed_waiter();
  const auto actor = must(cluster.spawn("waiter"));
  auto call = actor.call<Number>("answer_later");
  REQUIRE(eventually([] { return waiting == 1; }));
  must(cluster.kill(actor));
  const auto answer = call.get();
  REQUIRE_FALSE(answer);
  CHECK(answer.error().code() == Errc::actor_died);
}

TEST_CASE("a task that is to answer later is lost with its lease, and made again where there is another one",
          "[cluster]") {
  of_the_first_run = {};
  EmbedOptions options;
  for (const auto* name : {"n0", "n1"})
    options.nodes.push_back({.name = name, .devices = "host:1x64MiB"});
  options.registry = waiters();
  auto cluster = must(Cluster::embed(std::move(options)));
  auto task = cluster.submit<Number>("answer_later", {}, {.gpus = 1, .max_retries = 1});
  REQUIRE(eventually([] { return waiting == 1; }));
  must(cluster.drain(must(cluster.state()).leases(0).node(), 0s));
  CHECK(must(task.get()).value() == 2);
}
