// Names that carry their message types: what the compiler checks works like names as text.
#include "fixtures.hpp"

#include <support/catch.hpp>

using namespace gpuactors;
using namespace gpuactors::test;
using google::protobuf::Empty;

namespace {

// What the two sides share; a user's program has it in a header.
constexpr Task<Number, Number> doubled{"doubled"};
constexpr StreamTask<Number, Text> lines{"lines"};
constexpr ActorKind<Number> tally{"tally"};
constexpr ActorKind plain{"plain"};
constexpr Method<Number, Number> add{"add"};
constexpr Method<> reset{"reset"};
constexpr StreamMethod<Empty, Number> history{"history"};

class Tally : public Actor {
public:
  Tally(Init init, const Number& start) : Actor(std::move(init)), sum_(start.value()) {
    // nop
  }

  Result<Number> add(const Number& in) {
    sum_ += in.value();
    past_.push_back(sum_);
    return number(sum_);
  }

  void reset(const Empty&) {
    sum_ = 0;
  }

  void history(const Empty&, ReplyStream<Number>& out) const {
    for (const auto sum : past_)
      if (!out.write(number(sum)))
        return;
  }

private:
  double sum_;
  std::vector<double> past_;
};

class Plain : public Actor {
public:
  using Actor::Actor;
};

Cluster with_interfaces() {
  auto types = std::make_shared<TypeRegistry>();
  define_task(
      doubled, [](TaskContext&, const Number& in) { return number(2 * in.value()); }, *types);
  define_task(
      lines,
      [](TaskContext&, const Number& in, ReplyStream<Text>& out) {
        for (int i = 0; i < static_cast<int>(in.value()); ++i)
          if (!out.write(text(std::to_string(i))))
            return;
      },
      *types)
      .needs({.cpus = 1});
  define_actor<Tally>(tally, *types)
      .method(add, &Tally::add)
      .method(reset, &Tally::reset)
      .method(history, &Tally::history)
      .needs({.gpus = 0.25});
  // A function of the object serves as well.
  define_actor<Plain>(plain, *types).method(add, [](Plain&, const Number& in) -> Future<Number> {
    return Future<Number>::ready_with(in);
  });
  EmbedOptions options;
  options.registry = types;
  return must(Cluster::embed(std::move(options)));
}

template <class Subject, class Name, class Input>
concept CanCall = requires(Subject subject, Name name, Input input) {
  subject.call(name, input);
};
template <class Subject, class Name, class Input>
concept CanSubmit = requires(Subject subject, Name name, Input input) {
  subject.submit(name, input);
};
template <class Subject, class Name, class Input>
concept CanSpawn = requires(Subject subject, Name name, Input input) {
  subject.spawn(name, input);
};

static_assert(CanCall<ActorRef, Method<Number, Number>, Number> && !CanCall<ActorRef, Method<Number, Number>, Text>);
static_assert(!CanCall<ActorRef, StreamMethod<Empty, Number>, Empty> && !CanCall<ActorRef, Task<>, Empty>);
static_assert(CanSubmit<Cluster&, Task<Number, Number>, Number> && !CanSubmit<Cluster&, Task<Number, Number>, Text>);
static_assert(!CanSubmit<Cluster&, Method<Number, Number>, Number>);
static_assert(CanSpawn<Cluster&, ActorKind<Number>, Number> && !CanSpawn<Cluster&, ActorKind<Number>, Text>);
static_assert(std::same_as<decltype(ActorRef{}.call(add)), Future<Number>>);
static_assert(std::same_as<decltype(ActorRef{}.stream(history)), StreamReader<Number>>);

} // namespace

TEST_CASE("tasks are submitted by names that carry their message types", "[cluster]") {
  auto cluster = with_interfaces();
  CHECK(must(cluster.submit(doubled, number(21)).get()).value() == 42);
  CHECK(must(cluster.submit(doubled, {}, {.gpus = 0.5}).get()).value() == 0);
  std::string all;
  auto reader = cluster.stream(lines, number(3));
  CHECK(reader.for_each([&](const Text& line) { all += line.text(); }).has_value());
  CHECK(all == "012");
}

TEST_CASE("actors are spawned and called by names that carry their message types", "[cluster]") {
  auto cluster = with_interfaces();
  auto actor = must(cluster.spawn(tally, number(1), {.name = "one"}));
  CHECK(must(actor.call(add, number(2)).get()).value() == 3);
  CHECK(actor.call(reset).get().has_value());
  CHECK(must(actor.call(add, number(5)).get()).value() == 5);
  std::vector<double> sums;
  CHECK(actor.stream(history).for_each([&](const Number& sum) { sums.push_back(sum.value()); }).has_value());
  CHECK(sums == std::vector{3.0, 5.0});
  auto other = must(cluster.spawn_async(plain).get());
  CHECK(must(other.call(add, number(7)).get()).value() == 7);
}

TEST_CASE("names with types and names as text are the same names", "[cluster]") {
  auto cluster = with_interfaces();
  CHECK(must(cluster.submit<Number>("doubled", number(2)).get()).value() == 4);
  auto actor = must(cluster.spawn("tally", number(1)));
  CHECK(must(actor.call<Number>("add", number(2)).get()).value() == 3);
  // A method that the actor's type lacks is seen when it is called.
  auto other = must(cluster.spawn(plain));
  CHECK(other.call(reset).get().error().code() == Errc::not_found);
}
