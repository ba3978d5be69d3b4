// Actors that end themselves.
#include "fixtures.hpp"

#include <support/catch.hpp>
#include <support/eventually.hpp>

#include <atomic>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

std::atomic<int> destroyed{0};

/// Ends when it is told to, in several ways.
class Finite : public Actor {
public:
  Finite(Init init, const Text& how) : Actor(std::move(init)) {
    if (how.text() == "at once" || (how.text() == "in the next life" && restarts() > 0))
      end(how.text());
    if (how.text() == "fails") {
      end("before it failed");
      throw std::runtime_error("the file is not there");
    }
  }
  Finite(const Finite&) = delete;
  Finite& operator=(const Finite&) = delete;
  ~Finite() override {
    ++destroyed;
  }

  Number finish(const Text& reason) {
    gate().pass();
    end(reason.text());
    end("a second reason");
    return number(restarts());
  }

  Future<Number> later(const google::protobuf::Empty&) {
    return promise_.future();
  }

  Future<Number> finish_later(const google::protobuf::Empty&) {
    end("later");
    return Cluster::from(*this).submit<Number>("wait_a_moment", number(5));
  }

  /// The promise that `later` has made is for others to keep, who will not.
  Number finish_before(const google::protobuf::Empty&) {
    end("before it kept its promise");
    return number(1);
  }

  Result<void> kill_itself(const Text& name) {
    auto cluster = Cluster::from(*this);
    if (!name.text().empty())
      return cluster.kill(name.text());
    GPUACTORS_LET(self, cluster.find(own_handle()));
    return cluster.kill(self, {.restart = true});
  }

  Number life(const google::protobuf::Empty&) {
    return number(restarts());
  }

  /// Beside the others.
  Number look(const google::protobuf::Empty&) const {
    return number(restarts());
  }

private:
  Promise<Number> promise_;
};

Cluster embed_finite() {
  static const auto registry = [] {
    auto made = std::make_shared<TypeRegistry>();
    define_actor<Finite, Text>("finite", *made)
        .method("finish", &Finite::finish)
        .method("later", &Finite::later)
        .method("finish_later", &Finite::finish_later)
        .method("finish_before", &Finite::finish_before)
        .method("kill_itself", &Finite::kill_itself)
        .method("life", &Finite::life)
        .concurrent_method("look", &Finite::look);
    define_task(
        "wait_a_moment",
        [](TaskContext&, const Number& in) {
          gate().pass();
          return in;
        },
        *made);
    return made;
  }();
  return embed(registry);
}

/// How the last actor that has ended did; empty while none has.
std::string last_end(Cluster& cluster) {
  StateOptions options;
  options.ended = 1;
  const auto state = must(cluster.state(options));
  return state.ended_size() > 0 ? state.ended(0).reason() : std::string{};
}

bool is_free(Cluster& cluster) {
  const auto state = must(cluster.state());
  return state.actors_size() == 0 && state.leases_size() == 0;
}

} // namespace

TEST_CASE("an actor that ends itself answers the running call, and those that wait hear why it ended", "[cluster]") {
  auto cluster = embed_finite();
  destroyed = 0;
  gate().close();
  const auto actor = must(cluster.spawn("finite", text(""), {.gpus = 1, .name = "f", .max_restarts = -1}));
  auto running = actor.call<Number>("finish", text("the work is done"));
  gate().await(1);
  std::vector<Future<Number>> waiting;
  for (int i = 0; i < 10; ++i)
    waiting.push_back(actor.call<Number>("life"));
  gate().open();
  CHECK(must(running.get()).value() == 0);
  const Error why{Errc::actor_died, "the actor has ended itself: the work is done"};
  for (auto& call : waiting)
    CHECK(call.get().error() == why);
  REQUIRE(eventually([&] { return is_free(cluster); }));
  CHECK(destroyed == 1);
  CHECK(last_end(cluster) == why.message());
  CHECK(must(cluster.state()).counters().count("restarting") == 0);
  // Its name and its device are free, and whoever calls it or looks it up hears why.
  CHECK(actor.call<Number>("life").get().error()
        == Error{Errc::actor_died, "actor f (finite) has ended: the actor has ended itself: the work is done"});
  CHECK(cluster.find(actor.to_message()).error().code() == Errc::not_found);
  CHECK(cluster.spawn("finite", text(""), {.gpus = 1, .name = "f"}).has_value());
}

TEST_CASE("calls that are made again when their actor dies are not made again for one that has ended itself",
          "[cluster]") {
  auto cluster = embed_finite();
  gate().close();
  const auto actor = must(cluster.spawn("finite", text(""), {.max_restarts = -1, .max_task_retries = 5}));
  auto running = actor.call<Number>("finish", text("enough"));
  gate().await(1);
  auto waiting = actor.call<Number>("life");
  gate().open();
  CHECK(running.get().has_value());
  const auto answer = waiting.get();
  REQUIRE_FALSE(answer.has_value());
  CHECK(answer.error().code() == Errc::actor_died);
  CHECK(answer.error().message().find("enough") != std::string::npos);
}

TEST_CASE("an actor may end itself in its constructor, also in a later life", "[cluster]") {
  auto cluster = embed_finite();
  const auto brief = must(cluster.spawn("finite", text("at once"), {.gpus = 1, .max_restarts = -1}));
  CHECK(eventually([&] { return is_free(cluster); }));
  CHECK(last_end(cluster) == "the actor has ended itself: at once");
  const auto call = brief.call<Number>("life").get();
  CHECK(call.error().code() == Errc::actor_died);
  const auto twice = must(cluster.spawn("finite", text("in the next life"), {.gpus = 1, .max_restarts = -1}));
  CHECK(must(twice.call<Number>("life").get()).value() == 0);
  REQUIRE(cluster.kill(twice, {.restart = true}).has_value());
  CHECK(eventually([&] { return is_free(cluster); }));
  CHECK(last_end(cluster) == "the actor has ended itself: in the next life");
  // One that fails after that has failed: spawn says how.
  const auto failed = cluster.spawn("finite", text("fails"), {.gpus = 1});
  REQUIRE_FALSE(failed.has_value());
  CHECK(failed.error().code() == Errc::task_failed);
}

TEST_CASE("an actor that ends itself keeps the promises of its methods first", "[cluster]") {
  auto cluster = embed_finite();
  gate().close();
  const auto actor = must(cluster.spawn("finite", text("")));
  auto answer = actor.call<Number>("finish_later");
  gate().await(1);
  for (const auto* method : {"life", "look"})
    CHECK(actor.call<Number>(method).get().error() == Error{Errc::actor_died, "the actor has ended itself: later"});
  gate().open();
  CHECK(must(answer.get()).value() == 5);
  CHECK(eventually([&] { return is_free(cluster); }));
}

TEST_CASE("a promise that nobody keeps does not keep an actor that has ended itself", "[cluster]") {
  auto cluster = embed_finite();
  const auto actor = must(cluster.spawn("finite", text("")));
  auto promised = actor.call<Number>("later");
  CHECK(must(actor.call<Number>("finish_before").get()).value() == 1);
  CHECK(promised.get().error() == Error{Errc::actor_died, "the actor has ended itself: before it kept its promise"});
  CHECK(eventually([&] { return is_free(cluster); }));
}

TEST_CASE("an actor that kills itself is told to end itself, and goes on", "[cluster]") {
  auto cluster = embed_finite();
  const auto actor = must(cluster.spawn("finite", text(""), {.name = "f"}));
  for (const auto* name : {"", "f"}) {
    const auto killed = actor.call("kill_itself", text(name)).get();
    REQUIRE_FALSE(killed.has_value());
    CHECK(killed.error()
          == Error{Errc::invalid_argument, "actor f would wait for its own end: an actor ends itself by Actor::end"});
  }
  CHECK(must(actor.call<Number>("life").get()).value() == 0);
  // Others do it as ever.
  const auto other = must(cluster.spawn("finite", text(""), {.name = "other"}));
  CHECK(other.call("kill_itself", text("f")).get().has_value());
}

TEST_CASE("a reason that is too long is cut", "[cluster]") {
  auto cluster = embed_finite();
  const auto actor = must(cluster.spawn("finite", text("")));
  must(actor.call<Number>("finish", text(std::string(limits::end_reason_bytes + 1, 'x'))).get());
  CHECK(eventually([&] { return is_free(cluster); }));
  CHECK(last_end(cluster) == "the actor has ended itself: " + std::string(limits::end_reason_bytes, 'x'));
}
