// Programs that wait for the end of an actor.
#include "fixtures.hpp"

#include <gpuactors/cluster/detail/actor_ends.hpp>
#include <gpuactors/cluster/detail/core.hpp>

#include <support/catch.hpp>

#include <wire/linked_process.hpp>

#include <future>
#include <mutex>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

/// How the actor has ended, which it does soon.
Error end_of(Future<ActorEnd>& end) {
  return must(end.get(20s)).reason;
}

/// Ends when it is told to.
class Mortal : public Actor {
public:
  explicit Mortal(Init init, const Text& how = {}) : Actor(std::move(init)) {
    if (how.text() == "fails")
      throw std::runtime_error("the file is not there");
  }

  void finish(const Text& why) {
    end(why.text());
  }

  Number life(const google::protobuf::Empty&) {
    return number(restarts());
  }

  /// Spawns another one, and says how that has ended: its end is waited for in the actor.
  Result<Text> outlive(const google::protobuf::Empty&) {
    auto cluster = Cluster::from(*this);
    GPUACTORS_LET(child, cluster.spawn("mortal", text("")));
    auto end = child.when_ended();
    GPUACTORS_TRY(cluster.kill(child));
    GPUACTORS_LET(ended, end.get(20s));
    return text(ended.reason.message());
  }

  /// In vain.
  Result<Text> wait_for_itself(const google::protobuf::Empty&) {
    auto cluster = Cluster::from(*this);
    GPUACTORS_LET(self, cluster.find(own_handle()));
    auto end = self.when_ended();
    gate().pass();
    const auto ended = end.get();
    return text(ended ? "it has ended" : ended.error().message());
  }
};

Cluster embed_mortals() {
  static const auto registry = [] {
    auto made = std::make_shared<TypeRegistry>();
    define_actor<Mortal, Text>("mortal", *made)
        .method("finish", &Mortal::finish)
        .method("life", &Mortal::life)
        .method("outlive", &Mortal::outlive)
        .method("wait_for_itself", &Mortal::wait_for_itself);
    return made;
  }();
  return embed(registry);
}

} // namespace

TEST_CASE("who waits for the end of an actor hears why it has ended, before and after it has", "[cluster]") {
  auto cluster = embed_mortals();
  const auto actor = must(cluster.spawn("mortal", text(""), {.name = "m", .max_restarts = -1}));
  auto before = actor.when_ended();
  auto too = actor.when_ended();
  CHECK(code_of(before.get(1ms)) == Errc::deadline_exceeded);
  must(cluster.kill(actor));
  const Error killed{Errc::actor_died, "it was killed"};
  CHECK(end_of(before) == killed);
  CHECK(end_of(too) == killed);
  REQUIRE(actor.ended());
  CHECK(actor.ended()->message() == "it was killed");
  auto after = actor.when_ended();
  CHECK(end_of(after) == killed);
}

TEST_CASE("waits that nobody keeps, or that are cancelled, disturb no others", "[cluster]") {
  auto cluster = embed_mortals();
  const auto actor = must(cluster.spawn("mortal", text(""), {.name = "m"}));
  auto kept = actor.when_ended();
  for (int i = 0; i < 1'000; ++i)
    CHECK_FALSE(actor.when_ended().wait(0ms));
  auto cancelled = actor.when_ended();
  cancelled.cancel();
  CHECK(code_of(cancelled.get()) == Errc::cancelled);
  auto by_reference = cluster.when_ended(actor.to_message());
  must(cluster.kill(actor));
  CHECK(end_of(kept).message() == "it was killed");
  CHECK(end_of(by_reference).message() == "it was killed");
  CHECK(code_of(cluster.when_ended(v1::ActorHandle{}).get()) == Errc::invalid_argument);
}

TEST_CASE("the broker is asked once for each actor, however many wait, and however often", "[cluster]") {
  // A broker that is never there: all that it is asked stays open.
  ConnectOptions options;
  options.broker = "127.0.0.1:1";
  options.insecure = true;
  options.timeout = Duration::zero();
  const auto core = must(detail::ClusterCore::connect(options));
  v1::ActorHandle actor;
  actor.set_id(7);
  auto kept = core->ends().await(*core, actor, nullptr);
  for (int i = 0; i < 100; ++i)
    static_cast<void>(core->ends().await(*core, actor, nullptr));
  CHECK(core->ends().open() == 1);
  actor.set_id(8);
  auto other = core->ends().await(*core, actor, nullptr);
  CHECK(core->ends().open() == 2);
  core->shutdown();
  CHECK(code_of(kept.get(20s)) == Errc::unavailable);
  CHECK(code_of(other.get(20s)) == Errc::unavailable);
}

namespace {

/// What a broker is asked about actors: their names, or their numbers and origins.
struct Questions {
  std::mutex mutex;
  std::vector<std::string> asked;
};

/// A broker that knows the actor "m", which ends as soon as somebody waits for that.
caf::behavior broker_of_m(caf::event_based_actor*, Questions* questions) {
  using Found = caf::result<v1::ActorInfo, caf::strong_actor_ptr, caf::strong_actor_ptr>;
  return {[](const v1::Hello&, const caf::strong_actor_ptr&) { return v1::Done{}; },
          [](const v1::Goodbye&) { return v1::Done{}; },
          [questions](const v1::FindActor& message) -> Found {
            {
              const std::lock_guard lock{questions->mutex};
              questions->asked.push_back(message.only_who() ? "who is " + message.name()
                                                            : message.name() + std::to_string(message.id()) + " of "
                                                                  + std::to_string(message.handle().origin()));
            }
            v1::ActorInfo info;
            info.set_id(7);
            info.set_origin(77);
            info.set_name("m");
            info.set_state(message.only_who() ? "alive" : "ended");
            info.set_end_error(static_cast<std::uint32_t>(Errc::actor_died));
            info.set_end_reason("it was killed");
            return {std::move(info), caf::strong_actor_ptr{}, caf::strong_actor_ptr{}};
          }};
}

} // namespace

TEST_CASE("who waits for the end of an actor by its name waits for the one that has it now, whoever has it later",
          "[cluster]") {
  LinkedProcess serving;
  Questions questions;
  const auto broker = caf::actor_cast<caf::strong_actor_ptr>(serving.system().spawn(broker_of_m, &questions));
  ConnectOptions options;
  options.broker = "127.0.0.1:" + std::to_string(must(serving.links().publish(broker, {"127.0.0.1", 0})));
  options.insecure = true;
  const auto core = must(detail::ClusterCore::connect(options));
  auto end = core->ends().await(*core, "m", nullptr);
  CHECK(end_of(end) == Error{Errc::actor_died, "it was killed"});
  CHECK(core->ends().open() == 0);
  {
    const std::lock_guard lock{questions.mutex};
    CHECK(questions.asked == std::vector<std::string>{"who is m", "7 of 77"});
  }
  core->shutdown();
  caf::anon_send_exit(broker, caf::exit_reason::kill);
}

TEST_CASE("the end of an actor is its last one: restarts are none", "[cluster]") {
  auto cluster = embed_mortals();
  const auto actor = must(cluster.spawn("mortal", text(""), {.name = "m", .max_restarts = -1}));
  auto end = actor.when_ended();
  must(cluster.kill("m", {.restart = true}));
  CHECK(must(actor.call<Number>("life").get(20s)).value() == 1);
  CHECK_FALSE(end.ready());
  must(actor.call<>("finish", text("all is done")).get(20s));
  CHECK(end_of(end).message() == "the actor has ended itself: all is done");
}

TEST_CASE("an end is told on the thread for callbacks, where another one may be started", "[cluster]") {
  auto cluster = embed_mortals();
  const auto actor = must(cluster.spawn("mortal", text("")));
  std::promise<Result<ActorRef>> next;
  actor.when_ended().then([&](Result<ActorEnd> end) {
    CHECK(end);
    cluster.spawn_async("mortal", text("")).then([&](Result<ActorRef> spawned) { next.set_value(std::move(spawned)); });
  });
  must(cluster.kill(actor));
  const auto spawned = must(next.get_future().get());
  CHECK(must(spawned.call<Number>("life").get(20s)).value() == 0);
}

TEST_CASE("an actor may wait for the end of others, and waits for its own in vain", "[cluster]") {
  auto cluster = embed_mortals();
  const auto actor = must(cluster.spawn("mortal", text("")));
  CHECK(must(actor.call<Text>("outlive").get(20s)).text() == "it was killed");
  gate().close();
  auto waits = actor.call<Text>("wait_for_itself");
  gate().await(1);
  gate().open();
  must(cluster.kill(actor));
  CHECK_THAT(must(waits.get(20s)).text(), Contains("that waits has to end"));
}

TEST_CASE("ends cannot be waited for without an actor, or without a cluster", "[cluster]") {
  CHECK(code_of(ActorRef{}.when_ended().get()) == Errc::invalid_argument);
  auto cluster = embed_mortals();
  const auto actor = must(cluster.spawn("mortal", text("")));
  auto waiting = actor.when_ended();
  cluster.close();
  CHECK(code_of(waiting.get(20s)) == Errc::unavailable);
  CHECK(code_of(actor.when_ended().get()) == Errc::unavailable);
}
