// Streamed replies that stay open when their methods have returned, and the functions that an actor posts to itself.
#include "fixtures.hpp"

#include <support/catch.hpp>
#include <support/eventually.hpp>

#include <fmt/format.h>

#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;
using google::protobuf::Empty;

namespace {

constexpr ActorKind teller{"teller"};
constexpr StreamMethod<Empty, Text> watch{"watch"};
constexpr Method<Text, Number> tell{"tell"};
constexpr Method<Empty, Number> watchers{"watchers"};
constexpr Method<Text> close_all{"close"};
constexpr Method<> forget{"forget"};
constexpr StreamMethod<Text, Text> stumble_stream{"stumble"};
constexpr StreamMethod<Empty, Text> promised{"promised"};
constexpr Method<Text> keep_promise{"keep_promise"};
constexpr StreamMethod<Number, Number> generate{"generate"};
constexpr Method<Empty, Text> run{"run"};
constexpr Method<> leave{"leave"};

/// How often the future of `promised` was withdrawn.
std::atomic<int>& withdrawn() {
  static std::atomic<int> count;
  return count;
}

/// A future that counts its cancellations.
class Watched : public detail::FutureState<Empty> {
public:
  void cancel(Cancel) override {
    ++withdrawn();
    complete(fail(Errc::cancelled, "nobody wants it"));
  }
};

/// Tells its watchers, and generates numbers for all its callers together.
class Teller : public Actor {
public:
  using Actor::Actor;

  Result<void> watch(const Empty&, ReplyStream<Text>& out) {
    GPUACTORS_LET(kept, out.keep());
    watchers_.push_back(std::move(kept));
    return {};
  }

  /// Returns how many took it; an error of one of them is the answer, and it is dropped by `watchers`.
  Result<Number> tell(const Text& what) {
    int took = 0;
    for (auto& watcher : watchers_) {
      GPUACTORS_TRY(watcher.write(what));
      ++took;
    }
    return number(took);
  }

  /// Returns how many are left, and lets go of the others.
  Number watchers(const Empty&) {
    std::erase_if(watchers_, [](const auto& one) { return one.stop_requested(); });
    return number(static_cast<double>(watchers_.size()));
  }

  /// Ends all, without a text in order.
  void close(const Text& why) {
    for (auto& watcher : watchers_)
      if (why.text().empty())
        watcher.finish();
      else
        watcher.finish(Error{Errc::unavailable, why.text()});
  }

  void forget(const Empty&) {
    watchers_.clear();
  }

  Result<void> stumble(const Text& how, ReplyStream<Text>& out) {
    GPUACTORS_LET(kept, out.keep());
    GPUACTORS_TRY(kept.write(text("first")));
    if (how.text() == "twice")
      return out.keep() ? Result<void>{} : Result<void>{fail(out.keep().error())};
    if (how.text() == "drop")
      return {};
    if (how.text() == "write")
      return out.write(text("to the old one"));
    watchers_.push_back(std::move(kept));
    if (how.text() == "throw")
      throw std::runtime_error("on purpose");
    return fail(Errc::unavailable, how.text());
  }

  Future<Empty> promised(const Empty&, ReplyStream<Text>& out) {
    watchers_.push_back(must(out.keep()));
    future_ = std::make_shared<Watched>();
    return Future<Empty>{future_};
  }

  void keep_promise(const Text& error) {
    future_->complete(error.text().empty() ? Result<Empty>{Empty{}}
                                           : Result<Empty>{fail(Errc::unavailable, error.text())});
  }

  Result<void> generate(const Number& count, ReplyStream<Number>& out) {
    GPUACTORS_LET(kept, out.keep());
    running_.push_back({count.value(), 0, std::move(kept)});
    return {};
  }

  /// Generates what was asked for; returns for how many in each step, when all is done.
  Future<Text> run(const Empty&) {
    step();
    return done_.emplace_back().future();
  }

  /// Ends, and has a thread of its own until nobody wants to hear of it.
  void leave(const Empty&) {
    own_ = std::jthread{[this] {
      while (!watchers_.front().stop_requested())
        std::this_thread::yield();
    }};
    end("it leaves");
  }

private:
  struct Running {
    double left;
    double last;
    OpenStream<Number> out;
  };

  void step() {
    steps_ += fmt::format(" {}", running_.size());
    double waiting = 0;
    for (auto& one : running_) {
      if (auto written = one.out.write(number(++one.last)); !written)
        one.out.finish(written.error());
      else if (--one.left == 0)
        one.out.finish();
      waiting += static_cast<double>(one.out.waiting());
    }
    std::erase_if(running_, [](const Running& one) { return one.out.stop_requested(); });
    if (!running_.empty() && waiting > 10'000)
      return post_after(1ms, [this] { step(); });
    if (!running_.empty())
      return post([this] { step(); });
    for (auto& promise : done_)
      promise.set(text(steps_));
  }

  std::vector<OpenStream<Text>> watchers_;
  std::shared_ptr<Watched> future_;
  std::vector<Running> running_;
  std::string steps_;
  std::deque<Promise<Text>> done_;
  std::jthread own_;
};

Cluster with_tellers() {
  auto types = std::make_shared<TypeRegistry>();
  define_actor<Teller>(teller, *types)
      .method(watch, &Teller::watch)
      .method(tell, &Teller::tell)
      .method(watchers, &Teller::watchers)
      .method(close_all, &Teller::close)
      .method(forget, &Teller::forget)
      .method(stumble_stream, &Teller::stumble)
      .method(promised, &Teller::promised)
      .method(keep_promise, &Teller::keep_promise)
      .method(generate, &Teller::generate)
      .method(run, &Teller::run)
      .method(leave, &Teller::leave);
  define_task(
      StreamTask<Empty, Number>{"keeper"},
      [](TaskContext&, const Empty&, ReplyStream<Number>& out) -> Result<void> {
        GPUACTORS_TRY(out.keep());
        return {};
      },
      *types);
  EmbedOptions options;
  options.registry = types;
  return must(Cluster::embed(std::move(options)));
}

/// Reads to the end: the items, and how it ended.
template <class T>
std::string read(StreamReader<T> reader) {
  std::string items;
  const auto end = reader.for_each([&](const T& item) {
    if constexpr (std::is_same_v<T, Text>)
      items += item.text() + " ";
    else
      items += fmt::format("{} ", item.value());
  });
  return items + (end ? "end" : std::string{to_string(end.error().code())} + ": " + end.error().message());
}

} // namespace

TEST_CASE("an actor generates for many callers together, an item for each in each step", "[cluster]") {
  auto cluster = with_tellers();
  auto actor = must(cluster.spawn(teller));
  auto four = actor.stream(generate, number(4));
  auto two = actor.stream(generate, number(2));
  auto three = actor.stream(generate, number(3));
  CHECK(must(actor.call(run).get()).text() == " 3 3 2 1");
  CHECK(read(std::move(two)) == "1 2 end");
  CHECK(read(std::move(four)) == "1 2 3 4 end");
  CHECK(read(std::move(three)) == "1 2 3 end");
}

TEST_CASE("an actor serves other calls between the steps of what it generates", "[cluster]") {
  auto cluster = with_tellers();
  auto actor = must(cluster.spawn(teller));
  // Nobody reads it, and it waits in the stream.
  auto endless = actor.stream(generate, number(1e9));
  auto ran = actor.call(run);
  for (int i = 0; i < 10; ++i)
    CHECK(must(actor.call(watchers).get()).value() == 0);
  CHECK_FALSE(ran.ready());
  endless.cancel();
  CHECK(ran.get().has_value());
}

TEST_CASE("all watchers get what an actor tells, until it closes their streams", "[cluster]") {
  auto cluster = with_tellers();
  auto actor = must(cluster.spawn(teller));
  auto first = actor.stream(watch);
  CHECK(must(actor.call(tell, text("a")).get()).value() == 1);
  auto second = actor.stream(watch);
  CHECK(must(actor.call(tell, text("b")).get()).value() == 2);
  REQUIRE(actor.call(close_all).get().has_value());
  CHECK(read(std::move(first)) == "a b end");
  CHECK(read(std::move(second)) == "b end");
  CHECK(must(actor.call(watchers).get()).value() == 0);
}

TEST_CASE("a stream that was finished takes nothing more", "[cluster]") {
  auto cluster = with_tellers();
  auto actor = must(cluster.spawn(teller));
  auto reader = actor.stream(watch);
  REQUIRE(actor.call(close_all, text("the reason")).get().has_value());
  CHECK(actor.call(tell, text("late")).get().error().code() == Errc::invalid_argument);
  CHECK(read(std::move(reader)) == "unavailable: the reason");
}

TEST_CASE("what a reader has no room for waits up to a limit, and comes in order before the end", "[cluster]") {
  auto cluster = with_tellers();
  auto actor = must(cluster.spawn(teller));
  auto reader = actor.stream(watch);
  const std::string much(limits::payload_bytes / 8, 'x');
  int taken = 0;
  auto told = actor.call(tell, text(much)).get();
  for (; told; told = actor.call(tell, text(much + std::to_string(taken))).get())
    ++taken;
  CHECK(told.error().code() == Errc::queue_full);
  CHECK(told.error().message().find("who reads too slowly") != std::string::npos);
  // On their way, and waiting.
  CHECK(taken == 2 + 7);
  REQUIRE(actor.call(close_all).get().has_value());
  // It is served meanwhile, and a quick reader is not held up by a slow one.
  auto quick = actor.stream(watch);
  for (int i = 0; i < taken; ++i) {
    const auto item = must(reader.next());
    REQUIRE(item.has_value());
    CHECK(item->text().substr(much.size()) == (i == 0 ? "" : std::to_string(i)));
  }
  CHECK_FALSE(must(reader.next()).has_value());
  REQUIRE(actor.call(forget).get().has_value());
  CHECK(read(std::move(quick)) == "task_failed: the stream was dropped without an end");
}

TEST_CASE("many items wait by their number, and come as they are read", "[cluster]") {
  auto cluster = with_tellers();
  auto actor = must(cluster.spawn(teller));
  auto reader = actor.stream(watch);
  constexpr int count = 200;
  for (int i = 0; i < count; ++i)
    REQUIRE(actor.call(tell, text(std::to_string(i))).get().has_value());
  REQUIRE(actor.call(close_all).get().has_value());
  for (int i = 0; i < count; ++i)
    CHECK(must(reader.next())->text() == std::to_string(i));
  CHECK_FALSE(must(reader.next()).has_value());
}

TEST_CASE("an actor learns that a caller has withdrawn, or that its deadline has passed", "[cluster]") {
  auto cluster = with_tellers();
  auto actor = must(cluster.spawn(teller));
  {
    auto reader = actor.stream(watch);
    CHECK(must(actor.call(watchers).get()).value() == 1);
  }
  CHECK(eventually([&] { return must(actor.call(watchers).get()).value() == 0; }));
  auto late = actor.stream(watch, {}, 1ms);
  CHECK(late.next().error().code() == Errc::deadline_exceeded);
  CHECK(eventually([&] { return must(actor.call(watchers).get()).value() == 0; }));
  auto withdrawn = actor.stream(watch);
  REQUIRE(must(actor.call(watchers).get()).value() == 1);
  withdrawn.cancel();
  CHECK(eventually([&] {
    const auto told = actor.call(tell, text("anybody?")).get();
    return !told && told.error().code() == Errc::cancelled;
  }));
}

TEST_CASE("callers learn of the end of an actor that has kept their streams", "[cluster]") {
  auto cluster = with_tellers();
  auto actor = must(cluster.spawn(teller));
  auto reader = actor.stream(watch);
  auto full = actor.stream(generate, number(1000));
  REQUIRE(actor.call(tell, text("before")).get().has_value());
  REQUIRE(actor.call(run).get().has_value());
  REQUIRE(cluster.kill(actor).has_value());
  CHECK(must(reader.next())->text() == "before");
  CHECK(reader.next().error().code() == Errc::actor_died);
  // What was written is lost with the actor, but for what was on its way.
  std::uint32_t items = 0;
  CHECK(full.for_each([&](const Number&) { ++items; }).error().code() == Errc::actor_died);
  CHECK(items == limits::stream_window);
}

TEST_CASE("a stream whose end is a deadline is ready with it, and stays so", "[cluster]") {
  auto cluster = with_tellers();
  auto actor = must(cluster.spawn(teller));
  auto reader = actor.stream(watch, {}, 1ms);
  CHECK(eventually([&] { return reader.ready(); }));
  CHECK(reader.next(Duration::zero()).error().code() == Errc::deadline_exceeded);
  CHECK(reader.ready());
}

TEST_CASE("an actor that ends itself withdraws the streams that it keeps, before its destructor", "[cluster]") {
  auto cluster = with_tellers();
  auto actor = must(cluster.spawn(teller, {}, {.name = "teller"}));
  auto reader = actor.stream(watch);
  REQUIRE(actor.call(leave).get().has_value());
  CHECK(reader.next(1min).error().code() == Errc::actor_died);
  // The thread of its own, which writes until nobody wants more, has ended.
  CHECK(eventually([&] { return must(cluster.state()).leases_size() == 0; }));
}

TEST_CASE("a method that keeps its stream and fails ends it", "[cluster]") {
  auto cluster = with_tellers();
  auto actor = must(cluster.spawn(teller, {}, {.name = "t"}));
  CHECK(read(actor.stream(stumble_stream, text("busy"))) == "first unavailable: busy");
  CHECK(read(actor.stream(stumble_stream, text("throw")))
        == "first task_failed: stumble of actor t (teller) on node local threw an exception: on purpose");
  // The stream is a local object there, which is destroyed before the call has its error.
  CHECK(read(actor.stream(stumble_stream, text("twice"))) == "first invalid_argument: the stream was kept before");
  CHECK(read(actor.stream(stumble_stream, text("write")))
        == "first invalid_argument: the stream was kept: write to what keep() has returned");
  CHECK(read(actor.stream(stumble_stream, text("drop"))) == "first task_failed: the stream was dropped without an end");
  CHECK(must(actor.call(watchers).get()).value() == 0);
}

TEST_CASE("a future ends a stream that was kept", "[cluster]") {
  auto cluster = with_tellers();
  auto actor = must(cluster.spawn(teller));
  auto reader = actor.stream(promised);
  REQUIRE(actor.call(tell, text("a")).get().has_value());
  REQUIRE(actor.call(keep_promise).get().has_value());
  CHECK(read(std::move(reader)) == "a end");
  auto broken = actor.stream(promised);
  REQUIRE(actor.call(watchers).get().has_value());
  REQUIRE(actor.call(keep_promise, text("broken")).get().has_value());
  CHECK(read(std::move(broken)) == "unavailable: broken");
  withdrawn() = 0;
  {
    auto dropped = actor.stream(promised);
    REQUIRE(actor.call(watchers).get().has_value());
  }
  CHECK(eventually([] { return withdrawn() == 1; }));
}

TEST_CASE("a task cannot keep its stream, which ends with its lease", "[cluster]") {
  auto cluster = with_tellers();
  const auto end = cluster.stream<Number>("keeper", Empty{}).next();
  CHECK(end.error().code() == Errc::unsupported);
}

TEST_CASE("a program that reads many streams is told when one is ready, and waits for none", "[cluster]") {
  auto cluster = with_tellers();
  auto actor = must(cluster.spawn(teller));
  auto reader = actor.stream(watch);
  Gate told{true};
  std::atomic<int> calls{0};
  const auto tell_me = [&] {
    ++calls;
    told.pass();
  };
  CHECK_FALSE(reader.ready());
  CHECK(reader.next(Duration::zero()).error().code() == Errc::deadline_exceeded);
  // Only the last one is called.
  reader.when_ready([&] { calls += 100; });
  reader.when_ready(tell_me);
  REQUIRE(actor.call(tell, text("a")).get().has_value());
  REQUIRE(actor.call(tell, text("b")).get().has_value());
  told.await(1);
  CHECK(reader.ready());
  CHECK(must(reader.next(Duration::zero()))->text() == "a");
  // At once: there is more.
  reader.when_ready(tell_me);
  told.await(2);
  CHECK(must(reader.next(Duration::zero()))->text() == "b");
  CHECK(reader.next(Duration::zero()).error().code() == Errc::deadline_exceeded);
  CHECK(calls == 2);
  reader.when_ready(tell_me);
  REQUIRE(actor.call(close_all).get().has_value());
  told.await(3);
  CHECK_FALSE(must(reader.next(Duration::zero())).has_value());
  // Again and again at the end, which stays.
  reader.when_ready(tell_me);
  told.await(4);
  CHECK(calls == 4);
  {
    auto dropped = actor.stream(watch);
    dropped.when_ready(tell_me);
  }
  told.await(5);
}
