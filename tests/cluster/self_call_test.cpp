// Actors that wait for calls of themselves, which they could serve only afterwards.
#include "fixtures.hpp"

#include <support/catch.hpp>
#include <support/eventually.hpp>

#include <fmt/format.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;
using google::protobuf::Empty;

namespace {

constexpr ActorKind narcissus{"narcissus"};
constexpr Method<Empty, Number> admire{"admire"};
constexpr StreamMethod<Empty, Number> stare{"stare"};
constexpr Method<Empty, Number> glimpse{"glimpse"};
constexpr Method<Text, Number> wait_for_own{"wait_for_own"};
constexpr Method<Text, Number> wait_beside{"wait_beside"};
constexpr Method<Empty, Number> admire_later{"admire_later"};
constexpr Method<Empty, Number> peek{"peek"};
constexpr Method<Empty, Number> wait_for_one{"wait_for_one"};
constexpr Method<> open_mirror{"open_mirror"};
constexpr StreamMethod<Empty, Number> mirror{"mirror"};
constexpr Method<Empty, Number> read_mirror{"read_mirror"};
constexpr Method<Text, Number> wait_for_other{"wait_for_other"};

/// Calls itself in all ways.
class Narcissus : public Actor {
public:
  using Actor::Actor;

  /// How often it has looked.
  Number admire(const Empty&) {
    return number(++looks_);
  }

  void stare(const Empty&, ReplyStream<Number>& out) {
    ++looks_;
    static_cast<void>(out.write(number(looks_)));
  }

  [[nodiscard]] Number glimpse(const Empty&) const {
    return number(looks_);
  }

  Result<Number> wait_for_own(const Text& how) {
    GPUACTORS_LET(self, itself());
    if (how.text() == "get")
      return self.call(::admire, {}, Duration::max()).get();
    if (how.text() == "get for a while")
      return self.call(::admire).get(1min);
    if (how.text() == "transform")
      return self.call(::admire).transform([](const Number& looks) { return number(looks.value() + 1); }).get();
    if (how.text() == "and_then")
      return self.call(::admire).and_then([self](const Number&) { return self.call(::admire); }).get();
    if (how.text() == "payload")
      return take(self.call_payload("admire", Payload::of(Empty{})).get());
    if (how.text() == "stream")
      return first_of(self.stream(::stare));
    if (how.text() == "wait") {
      std::vector<Future<Number>> calls;
      calls.push_back(self.call(::admire));
      if (wait(calls) != std::vector<std::size_t>{0})
        return fail(Errc::internal, "the wait has ended before the call");
      return calls.front().get();
    }
    std::vector<Future<Number>> calls;
    calls.push_back(self.call(::glimpse));
    calls.push_back(self.call(::admire));
    GPUACTORS_LET(looks, when_all(std::move(calls)).get());
    return looks.front();
  }

  /// On the second thread.
  [[nodiscard]] Result<Number> wait_beside(const Text& whom) const {
    GPUACTORS_LET(self, itself());
    return whom.text() == "admire" ? self.call(::admire).get() : self.call(::glimpse).get();
  }

  Future<Number> admire_later(const Empty&) {
    auto self = must(itself());
    return after(self.call(::admire), [](const Number& looks) { return number(100 + looks.value()); });
  }

  /// Looks for a moment whether its own call is done: 1 if it is.
  Result<Number> peek(const Empty&) {
    if (!own_) {
      GPUACTORS_LET(self, itself());
      own_.emplace(self.call(::admire));
    }
    return number(own_->wait(1ms) ? 1 : 0);
  }

  /// Waits for what need not be its own call.
  Result<Number> wait_for_one(const Empty&) {
    GPUACTORS_LET(self, itself());
    std::vector<Future<Number>> calls;
    calls.push_back(self.call(::admire));
    calls.push_back(self.call(::glimpse));
    const auto ready = gpuactors::wait(calls, 1);
    return number(ready == std::vector<std::size_t>{1} ? 1 : 0);
  }

  /// Begins to read a stream of its own, which stays open.
  Result<void> open_mirror(const Empty&) {
    GPUACTORS_LET(self, itself());
    reader_.emplace(self.stream(::mirror));
    return {};
  }

  Result<void> mirror(const Empty&, ReplyStream<Number>& out) {
    GPUACTORS_LET(kept, out.keep());
    kept_.emplace(std::move(kept));
    return {};
  }

  /// Reads from it what another thread writes.
  Result<Number> read_mirror(const Empty&) {
    std::thread writer{[this] { static_cast<void>(kept_->write(number(7))); }};
    auto item = reader_->next(1min);
    writer.join();
    if (!item)
      return fail(item.error());
    return item->value_or(number(0));
  }

  /// Waits for another actor, by its name.
  Result<Number> wait_for_other(const Text& name) {
    GPUACTORS_LET(other, Cluster::from(*this).find(name.text()));
    return other.call(::admire).get();
  }

private:
  [[nodiscard]] Result<ActorRef> itself() const {
    return Cluster::from(*this).find(own_handle());
  }

  static Result<Number> take(Result<Payload> answer) {
    if (!answer)
      return fail(answer.error());
    return std::move(*answer).take_as<Number>();
  }

  static Result<Number> first_of(StreamReader<Number> reader) {
    GPUACTORS_LET(item, reader.next());
    return item.value_or(number(-1));
  }

  std::atomic<int> looks_{0};
  std::optional<Future<Number>> own_;
  std::optional<StreamReader<Number>> reader_;
  std::optional<OpenStream<Number>> kept_;
};

Cluster with_narcissi() {
  auto types = std::make_shared<TypeRegistry>();
  define_actor<Narcissus>(narcissus, *types)
      .method(admire, &Narcissus::admire)
      .method(stare, &Narcissus::stare)
      .method(wait_for_own, &Narcissus::wait_for_own)
      .method(admire_later, &Narcissus::admire_later)
      .method(peek, &Narcissus::peek)
      .method(wait_for_one, &Narcissus::wait_for_one)
      .method(open_mirror, &Narcissus::open_mirror)
      .method(mirror, &Narcissus::mirror)
      .method(read_mirror, &Narcissus::read_mirror)
      .method(wait_for_other, &Narcissus::wait_for_other)
      .concurrent_method(glimpse, &Narcissus::glimpse)
      .concurrent_method(wait_beside, &Narcissus::wait_beside);
  return embed(types);
}

} // namespace

TEST_CASE("an actor that waits for a call of itself is told what would be right, and the call never runs",
          "[cluster]") {
  auto cluster = with_narcissi();
  auto actor = must(cluster.spawn(narcissus, {}, {.name = "n"}));
  for (const auto* how : {"get", "get for a while", "transform", "and_then", "payload", "wait", "when_all"}) {
    INFO(how);
    const auto refused = actor.call(wait_for_own, text(how), Duration::max()).get();
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error()
          == Error{Errc::invalid_argument,
                   "actor n (narcissus) waits for its own method admire, which runs only when what waits has returned: "
                   "take its answer with Actor::after, or do its work with Actor::post; or register it with "
                   "concurrent_method, if it may run beside others"});
  }
  const auto refused = actor.call(wait_for_own, text("stream"), Duration::max()).get();
  CHECK(says(refused, "actor n (narcissus) waits for its own method stare, "));
  CHECK(must(actor.call(glimpse).get()).value() == 0);
  // Behind the calls that were withdrawn.
  CHECK(must(actor.call(admire).get()).value() == 1);
  CHECK(actor.waiting_calls() == 0);
}

TEST_CASE("an actor may take an answer of its own later, or wait for its concurrent methods", "[cluster]") {
  auto cluster = with_narcissi();
  auto actor = must(cluster.spawn(narcissus));
  CHECK(must(actor.call(admire_later).get()).value() == 101);
  CHECK(must(actor.call(wait_for_one).get()).value() == 1);
  // What was not waited for has run.
  CHECK(must(actor.call(admire).get()).value() == 3);
  CHECK(must(actor.call(wait_beside, text("admire")).get()).value() == 4);
  const auto refused = actor.call(wait_beside, text("glimpse"), Duration::max()).get();
  CHECK(says(refused, "waits for its own method glimpse, which runs only when what waits has returned"));
  CHECK(refused.error().message().ends_with("with Actor::post"));
}

TEST_CASE("an actor may wait for others of its type, and for what another thread writes to a stream of its own",
          "[cluster]") {
  auto cluster = with_narcissi();
  auto one = must(cluster.spawn(narcissus, {}, {.name = "one"}));
  auto two = must(cluster.spawn(narcissus, {}, {.name = "two"}));
  CHECK(must(one.call(wait_for_other, text("two")).get()).value() == 1);
  CHECK(fails(two.call(wait_for_other, text("two")).get().error(), Errc::invalid_argument, "actor two (narcissus)"));
  must(one.call(open_mirror).get());
  CHECK(must(one.call(read_mirror).get()).value() == 7);
}

TEST_CASE("an actor may look for a moment whether a call of itself is done", "[cluster]") {
  auto cluster = with_narcissi();
  auto actor = must(cluster.spawn(narcissus, {}, {.name = "n"}));
  CHECK(must(actor.call(peek).get()).value() == 0);
  CHECK(eventually([&] { return must(actor.call(peek).get()).value() == 1; }));
  CHECK(must(actor.call(glimpse).get()).value() == 1);
}
