// Methods that answer several calls together.
#include "fixtures.hpp"

#include <gpuactors/device/faulty.hpp>
#include <gpuactors/wire/errors.hpp>

#include <support/catch.hpp>
#include <support/eventually.hpp>

#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;
using google::protobuf::Empty;

namespace {

constexpr ActorKind adder{"adder"};
constexpr Method<> block{"block"};
constexpr Method<Number, Number> twice{"twice"};
constexpr Method<Number, Number> three{"three"};
constexpr Method<Number, Number> soon{"soon"};
constexpr Method<Number, Number> each{"each"};
constexpr Method<Text, Text> fault{"fault"};
constexpr Method<Number, Number> watch_both{"watch_both"};
constexpr Method<Number, Number> add_last{"add_last"};
constexpr Method<Number, Number> whoever{"whoever"};
constexpr Method<Text> say{"say"};
constexpr Method<> say_later{"say_later"};
constexpr Method<Empty, Number> take_memory{"take_memory"};
constexpr Method<Number, Number> take_all{"take_all"};
constexpr Method<Number, Number> give_up{"give_up"};

/// What actors have done, in that order.
struct Log {
  std::mutex mutex;
  std::string text;

  void add(const std::string& what) {
    const std::lock_guard lock{mutex};
    text += what + " ";
  }

  std::string get() {
    const std::lock_guard lock{mutex};
    return text;
  }
};

Log& done() {
  static Log log;
  return log;
}

class Adder : public FractionalGPUActor {
public:
  using FractionalGPUActor::FractionalGPUActor;

  void block(const Empty&) {
    gate().pass();
  }

  std::vector<Number> twice(const BatchOf<Number>& batch) {
    done().add(std::to_string(batch.size()));
    std::vector<Number> doubled;
    for (const auto& one : batch)
      doubled.push_back(number(2 * one.value()));
    return doubled;
  }

  /// Negative numbers fail, alone.
  std::vector<Result<Number>> each(const BatchOf<Number>& batch) {
    std::vector<Result<Number>> results;
    for (std::size_t i = 0; i < batch.size(); ++i)
      if (batch[i].value() < 0)
        results.push_back(fail(Errc::invalid_argument, "less than zero"));
      else
        results.push_back(batch[i]);
    return results;
  }

  /// Fails as its first message says.
  Result<std::vector<Text>> fault(const BatchOf<Text>& batch) {
    const auto& how = batch[0].text();
    if (how == "error")
      return fail(Errc::unavailable, "no model");
    if (how == "throw")
      throw std::runtime_error("on purpose");
    if (how == "too few")
      return std::vector<Text>(batch.size() - 1);
    return std::vector<Text>(batch.size(), text("well"));
  }

  /// Waits until nobody wants the first answer; says for each whether anybody does.
  std::vector<Number> watch_both(const BatchOf<Number>& batch) {
    gate().pass([&] { return batch.stop_requested(0); });
    std::vector<Number> wanted;
    for (std::size_t i = 0; i < batch.size(); ++i)
      wanted.push_back(number(batch.stop_requested(i) || batch.deadline(i) == never ? 0 : 1));
    return wanted;
  }

  std::vector<Number> add_last(const BatchOf<Number>& batch) {
    end("all is added");
    return std::vector<Number>(batch.size());
  }

  /// The number of callers of the batch, as seen by one without device and deadline.
  Result<std::vector<Number>> whoever(const BatchOf<Number>& batch) const {
    return std::vector<Number>(batch.size(), number(deadline() == never ? restarts() : -1));
  }

  void say(const Text& what) {
    done().add(what.text());
  }

  void say_later(const Empty&) {
    post([] { done().add("posted"); });
  }

  Result<Number> take_memory(const Empty&) {
    GPUACTORS_LET(buffer, gpu().stream().allocate(1024));
    return number(static_cast<double>(buffer.bytes()));
  }

  Result<std::vector<Number>> take_all(const BatchOf<Number>& batch) {
    GPUACTORS_LET(taken, take_memory({}));
    return std::vector<Number>(batch.size(), taken);
  }

  /// Stops when it is told to, for whichever reason.
  std::vector<Result<Number>> give_up(const BatchOf<Number>& batch) {
    gate().pass([&] { return batch.stop_requested(0); });
    return std::vector<Result<Number>>(batch.size(), fail(Errc::cancelled, "it was told to stop"));
  }
};

Cluster with_adders(const std::shared_ptr<faulty::Plan>& plan = std::make_shared<faulty::Plan>()) {
  gate().close();
  done().text.clear();
  auto types = std::make_shared<TypeRegistry>();
  define_actor<Adder>(adder, *types)
      .method(block, &Adder::block)
      .method(say, &Adder::say)
      .method(say_later, &Adder::say_later)
      .method(take_memory, &Adder::take_memory)
      .batch_method(twice, &Adder::twice, {.max_size = 4})
      .batch_method(three, &Adder::twice, {.max_size = 3, .max_wait = 24h})
      .batch_method(soon, &Adder::twice, {.max_wait = 1ms})
      .batch_method(take_all, &Adder::take_all, {.max_size = 2, .max_wait = 24h})
      .batch_method(give_up, &Adder::give_up, {.max_size = 2, .max_wait = 24h})
      .batch_method(each, &Adder::each, {.max_size = 3, .max_wait = 24h})
      .batch_method(fault, &Adder::fault, {.max_size = 2, .max_wait = 24h})
      .batch_method(watch_both, &Adder::watch_both, {.max_size = 2, .max_wait = 24h})
      .batch_method(add_last, &Adder::add_last, {.max_size = 2, .max_wait = 24h})
      .batch_method(whoever, &Adder::whoever, {.max_size = 1})
      .needs({.gpus = 0.5});
  EmbeddedNode node{.name = "local", .devices = "host:2x64MiB", .cpus = -1};
  node.decorate = faulty::decorator(plan, 0);
  EmbedOptions options;
  options.nodes = {node};
  options.registry = types;
  return must(Cluster::embed(std::move(options)));
}

/// Waits until the actor has taken all calls out of its mailbox that came before: by one of no method, which waits for
/// no batch.
void await_mailbox(Cluster& cluster, const ActorRef& actor) {
  caf::scoped_actor self{cluster.system()};
  caf_version::ask(self.ptr(), actor.handle(), std::string{"nothing"}, Payload::of(Empty{}))
      .receive([](const Payload&) { FAIL("it was answered"); }, [](const caf::error&) {});
}

/// Calls with the numbers from 1.
std::vector<Future<Number>> call(const ActorRef& actor, const Method<Number, Number>& method, int count) {
  std::vector<Future<Number>> futures;
  for (int i = 1; i <= count; ++i)
    futures.push_back(actor.call(method, number(i), Duration::max()));
  return futures;
}

double sum(std::vector<Future<Number>> futures) {
  const auto numbers = must(get_all(futures));
  return std::accumulate(numbers.begin(), numbers.end(), 0.0,
                         [](double all, const Number& n) { return all + n.value(); });
}

} // namespace

TEST_CASE("calls that come while an actor is at work are answered together", "[cluster]") {
  auto cluster = with_adders();
  auto actor = must(cluster.spawn(adder));
  auto held = actor.call(block);
  gate().await(1);
  auto calls = call(actor, twice, 5);
  gate().open();
  CHECK(must(get_all(calls)).at(4).value() == 10);
  CHECK(done().get() == "4 1 ");
}

TEST_CASE("each call of a batch gets its own answer, in whatever order calls come", "[cluster]") {
  auto cluster = with_adders();
  auto actor = must(cluster.spawn(adder));
  std::vector<Future<Number>> calls;
  for (int i = 0; i < 500; ++i)
    calls.push_back(actor.call(i % 3 == 0 ? soon : twice, number(i)));
  for (int i = 0; i < 500; ++i)
    CHECK(must(calls[static_cast<std::size_t>(i)].get()).value() == 2 * i);
}

TEST_CASE("a batch that may wait runs when it is full, or when it has waited", "[cluster]") {
  auto cluster = with_adders();
  auto actor = must(cluster.spawn(adder));
  auto two = call(actor, three, 2);
  await_mailbox(cluster, actor);
  CHECK(done().get().empty());
  CHECK(must(actor.call(three, number(3)).get()).value() == 6);
  CHECK(sum(std::move(two)) == 6);
  CHECK(must(actor.call(soon, number(1)).get()).value() == 2);
  CHECK(done().get() == "3 1 ");
}

TEST_CASE("a batch of one call answers it, and knows its actor", "[cluster]") {
  auto cluster = with_adders();
  auto actor = must(cluster.spawn(adder));
  CHECK(must(actor.call(whoever).get()).value() == 0);
  // As a message of CAF, too.
  caf::scoped_actor self{cluster.system()};
  caf_version::ask(self.ptr(), actor.handle(), std::string{"twice"}, Payload::of(number(4)))
      .receive([](Payload& answer) { CHECK(must(std::move(answer).take_as<Number>()).value() == 8); },
               [](const caf::error& error) { FAIL(caf_version::render(error)); });
}

TEST_CASE("calls of a batch fail together with the method, or each with its own error", "[cluster]") {
  auto cluster = with_adders();
  auto actor = must(cluster.spawn(adder, {}, {.name = "a"}));
  const auto both = [&](const std::string& how) {
    auto first = actor.call(fault, text(how));
    auto second = actor.call(fault, text("well"));
    const auto error = first.get().error();
    CHECK(second.get().error() == error);
    return error;
  };
  CHECK(both("error") == Error{Errc::unavailable, "no model"});
  CHECK(both("throw")
        == Error{Errc::task_failed, "fault of actor a (adder) on node local, device 0 threw an exception: on purpose"});
  CHECK(both("too few") == Error{Errc::task_failed, "the method has made 1 answers for a batch of 2 calls"});
  auto calls = call(actor, each, 2);
  CHECK(fails(actor.call(each, number(-1)).get().error(), Errc::invalid_argument, "less than zero"));
  CHECK(sum(std::move(calls)) == 3);
}

TEST_CASE("a message of another type fails alone, and the others of its batch are answered", "[cluster]") {
  auto cluster = with_adders();
  auto actor = must(cluster.spawn(adder));
  // The library refuses it where it is sent; a CAF program may send it.
  caf::scoped_actor self{cluster.system()};
  const auto ask_as_stranger = [&] {
    return caf_version::ask(self.ptr(), actor.handle(), std::string{"three"}, Payload::of(text("one")));
  };
  const auto check_refused = [](auto asked) {
    std::move(asked).receive(
        [](const Payload&) { FAIL("it was answered"); },
        [](const caf::error& error) { CHECK(fails(from_caf(error), Errc::invalid_argument, "Text")); });
  };
  auto calls = call(actor, three, 2);
  check_refused(ask_as_stranger());
  CHECK(sum(std::move(calls)) == 6);
  CHECK(done().get() == "2 ");
  // Where there is nothing else in it, the method is not called.
  auto first = ask_as_stranger();
  auto second = ask_as_stranger();
  check_refused(ask_as_stranger());
  check_refused(std::move(first));
  check_refused(std::move(second));
  CHECK(done().get() == "2 ");
}

TEST_CASE("calls that are withdrawn or late before their batch begins are not in it", "[cluster]") {
  auto cluster = with_adders();
  auto actor = must(cluster.spawn(adder));
  for (int i = 0; i < 2; ++i)
    CHECK(actor.call(three, number(i), 1ms).get().error().code() == Errc::deadline_exceeded);
  CHECK(must(actor.call(three, number(3)).get()).value() == 6);
  CHECK(done().get() == "1 ");
  // The word that a call is withdrawn comes by a way of its own, and may be late.
  CHECK(eventually([&] {
    std::vector<Future<Number>> withdrawn = call(actor, three, 2);
    for (auto& one : withdrawn) {
      one.cancel();
      CHECK(one.get().error().code() == Errc::cancelled);
    }
    CHECK(must(actor.call(three, number(3)).get()).value() == 6);
    return done().get().ends_with("1 1 ");
  }));
}

TEST_CASE("a batch that runs knows whose answers nobody wants any more", "[cluster]") {
  auto cluster = with_adders();
  auto actor = must(cluster.spawn(adder));
  auto withdrawn = actor.call(watch_both, number(1), 1h);
  auto wanted = actor.call(watch_both, number(2), 1h);
  gate().await(1);
  withdrawn.cancel();
  CHECK(withdrawn.get().error().code() == Errc::cancelled);
  CHECK(must(wanted.get()).value() == 1);
}

TEST_CASE("an actor that is killed answers the batch that runs, and refuses the one that waits", "[cluster]") {
  auto cluster = with_adders();
  auto actor = must(cluster.spawn(adder));
  auto running = call(actor, watch_both, 2);
  gate().await(1);
  auto waiting = call(actor, three, 2);
  must(cluster.kill(actor));
  // It was asked to stop.
  CHECK(sum(std::move(running)) == 0);
  for (auto& one : waiting)
    CHECK(one.get().error().code() == Errc::actor_died);
  CHECK(done().get().empty());
}

TEST_CASE("calls that wait for their batch when their actor is restarted are made again in its next life",
          "[cluster]") {
  auto cluster = with_adders();
  auto actor = must(cluster.spawn(adder, {}, {.max_restarts = 1}));
  auto calls = call(actor, three, 2);
  await_mailbox(cluster, actor);
  must(cluster.kill(actor, {.restart = true}));
  CHECK(must(actor.call(three, number(3), 1min).get()).value() == 6);
  CHECK(sum(std::move(calls)) == 6);
  CHECK(must(actor.call(whoever).get()).value() == 1);
}

TEST_CASE("calls of a batch that loses its device fail with that, and the actor starts anew", "[cluster]") {
  const auto plan = std::make_shared<faulty::Plan>();
  auto cluster = with_adders(plan);
  auto actor = must(cluster.spawn(adder, {}, {.max_restarts = 1}));
  plan->lose_context_at(faulty::Call::allocate, 1);
  for (auto& one : call(actor, take_all, 2))
    CHECK(one.get().error().code() == Errc::context_lost);
  CHECK(sum(call(actor, three, 3)) == 12);
  CHECK(must(actor.call(whoever).get()).value() == 1);
}

TEST_CASE(
    "calls of a batch that was told to stop by its actor's move are lost with this life, and made again on request",
    "[cluster]") {
  auto cluster = with_adders();
  auto actor = must(cluster.spawn(adder, {}, {.max_restarts = 1}));
  auto calls = call(actor, give_up, 2);
  gate().await(1);
  must(cluster.kill(actor, {.restart = true}));
  for (auto& one : calls)
    CHECK(one.get().error().code() == Errc::lease_revoked);
  auto again = must(cluster.spawn(adder, {}, {.max_restarts = 1, .max_task_retries = 1}));
  auto repeated = call(again, give_up, 2);
  gate().await(2);
  must(cluster.kill(again, {.restart = true}));
  gate().await(3);
  gate().open();
  // The answer of the next life.
  for (auto& one : repeated)
    CHECK(fails(one.get().error(), Errc::cancelled, "it was told to stop"));
}

TEST_CASE("what comes behind calls that wait for their batch runs behind them", "[cluster]") {
  auto cluster = with_adders();
  auto actor = must(cluster.spawn(adder));
  auto calls = call(actor, three, 2);
  must(actor.call(say, text("noted")).get());
  CHECK(sum(std::move(calls)) == 6);
  auto single = call(actor, three, 1);
  auto other = call(actor, each, 3);
  CHECK(sum(std::move(single)) == 2);
  CHECK(sum(std::move(other)) == 6);
  // Both are there when the function is posted.
  auto held = actor.call(block);
  gate().await(1);
  auto posting = actor.call(say_later);
  auto last = call(actor, three, 1);
  gate().open();
  CHECK(sum(std::move(last)) == 2);
  CHECK(eventually([] { return done().get() == "2 noted 1 1 posted "; }));
}

TEST_CASE("a call may wait for others from when it was made, and no longer", "[cluster]") {
  auto cluster = with_adders();
  auto actor = must(cluster.spawn(adder));
  // Its time is over when the actor turns to it, so that it does not wait for two others.
  Call call;
  call.method = "three";
  call.payload = Payload::of(number(1));
  call.made = Clock::now() - 25h;
  caf::scoped_actor self{cluster.system()};
  caf_version::ask(self.ptr(), actor.handle(), call)
      .receive([](Payload& answer) { CHECK(must(std::move(answer).take_as<Number>()).value() == 2); },
               [](const caf::error& error) { FAIL(caf_version::render(error)); });
  CHECK(done().get() == "1 ");
}

TEST_CASE("an actor that ends itself in a batch answers that one, and others get its reason", "[cluster]") {
  auto cluster = with_adders();
  auto actor = must(cluster.spawn(adder));
  auto held = actor.call(block);
  gate().await(1);
  auto ending = call(actor, add_last, 2);
  auto waiting = call(actor, three, 2);
  gate().open();
  CHECK(sum(std::move(ending)) == 0);
  for (auto& one : waiting)
    CHECK(fails(one.get().error(), Errc::actor_died, "all is added"));
}

TEST_CASE("a batch without room for a call is refused where types are registered", "[cluster]") {
  TypeRegistry types;
  define_actor<Adder>(adder, types).batch_method(twice, &Adder::twice, {.max_size = 0});
  CHECK(says(types.check(), "max_size of method \"twice\" is 0"));
}
