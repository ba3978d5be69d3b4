// Methods that run beside the others of their actor.
#include "fixtures.hpp"

#include <gpuactors/device/faulty.hpp>
#include <gpuactors/wire/errors.hpp>

#include <support/catch.hpp>
#include <support/eventually.hpp>

#include <fmt/format.h>

#include <atomic>
#include <optional>
#include <thread>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;
using google::protobuf::Empty;

namespace {

constexpr ActorKind worker{"worker"};
constexpr Method<Number, Number> work{"work"};
constexpr Method<Empty, Number> progress{"progress"};
constexpr Method<Empty, Number> linger{"linger"};
constexpr Method<Text, Number> stumble{"stumble"};
constexpr Method<Empty, Number> pass_on{"pass_on"};
constexpr Method<Empty, Text> about{"about"};
constexpr Method<> touch{"touch"};
constexpr Method<Empty, Number> linger_on{"linger_on"};
constexpr Method<Empty, Number> ask_itself{"ask_itself"};
constexpr Method<Empty, Number> wait_for_task{"wait_for_task"};

Gate& side_gate() {
  static Gate instance;
  return instance;
}

Gate& stop_gate() {
  static Gate instance;
  return instance;
}

std::thread::id& constructed_on() {
  static std::thread::id thread;
  return thread;
}

std::thread::id& destroyed_on() {
  static std::thread::id thread;
  return thread;
}

/// Works until the gate opens; says meanwhile how far it is.
class Laborer : public Actor {
public:
  explicit Laborer(Init init) : Actor(std::move(init)) {
    constructed_on() = std::this_thread::get_id();
  }

  Laborer(const Laborer&) = delete;
  Laborer& operator=(const Laborer&) = delete;

  ~Laborer() override {
    destroyed_on() = std::this_thread::get_id();
  }

  Number work(const Number& steps) {
    for (int i = 0; i < static_cast<int>(steps.value()); ++i)
      ++done_;
    gate().pass();
    return number(stop_requested() ? -1 : done_.load());
  }

  [[nodiscard]] Number progress(const Empty&) const {
    return number(done_);
  }

  /// Stays until the gate opens or somebody asks it to stop.
  [[nodiscard]] Number linger(const Empty&) const {
    side_gate().pass([this] { return stop_requested(); });
    return number(stop_requested() ? 1 : 0);
  }

  /// Waits for that, and then for another gate.
  [[nodiscard]] Number linger_on(const Empty&) const {
    side_gate().pass([this] { return stop_requested(); });
    stop_gate().pass();
    return number(1);
  }

  [[nodiscard]] Result<Number> stumble(const Text& how) const {
    if (how.text() == "throw")
      throw std::runtime_error("on purpose");
    return fail(Errc::unavailable, how.text());
  }

  /// Answers when the task has ended.
  [[nodiscard]] Future<Number> pass_on(const Empty&) const {
    return Cluster::from(*this).submit(Task<Number, Number>{"twice"}, number(21));
  }

  [[nodiscard]] Text about(const Empty&) const {
    return text(fmt::format("{} {} {} {}", name(), restarts(), gpu_count(), deadline() == never ? "never" : "limited"));
  }

  /// Uses the device.
  Result<void> touch(const Empty&) {
    GPUACTORS_TRY(gpu().stream().allocate(1024));
    return {};
  }

  /// Calls its own actor when it is asked to stop.
  [[nodiscard]] Result<Number> ask_itself(const Empty&) const {
    GPUACTORS_LET(self, Cluster::from(*this).find(name()));
    side_gate().pass([this] { return stop_requested(); });
    const auto answer = self.call(Method<Number, Number>{"work"}, number(1), Duration::max()).get();
    return number(answer ? 0 : static_cast<double>(answer.error().code()));
  }

  [[nodiscard]] Future<Number> wait_for_task(const Empty&) const {
    return Cluster::from(*this).submit(Task<Number, Number>{"wait"}, number(1));
  }

private:
  std::atomic<int> done_{0};
};

Cluster with_laborers(const std::shared_ptr<faulty::Plan>& plan = std::make_shared<faulty::Plan>()) {
  gate().close();
  side_gate().close();
  stop_gate().close();
  auto types = std::make_shared<TypeRegistry>();
  define_task(
      Task<Number, Number>{"twice"}, [](TaskContext&, const Number& in) { return number(2 * in.value()); }, *types);
  define_actor<Laborer>(worker, *types)
      .method(work, &Laborer::work)
      .method(touch, &Laborer::touch)
      .concurrent_method(linger_on, &Laborer::linger_on)
      .concurrent_method(progress, &Laborer::progress)
      .concurrent_method(linger, &Laborer::linger)
      .concurrent_method(stumble, &Laborer::stumble)
      .concurrent_method(pass_on, &Laborer::pass_on)
      .concurrent_method(ask_itself, &Laborer::ask_itself)
      .concurrent_method(wait_for_task, &Laborer::wait_for_task)
      .concurrent_method("about", &Laborer::about);
  define_task(
      Task<Number, Number>{"wait"},
      [](TaskContext& ctx, const Number& in) {
        gate().pass([&] { return ctx.stop_requested(); });
        return in;
      },
      *types);
  EmbeddedNode node{.name = "local", .devices = "host:2x64MiB", .cpus = -1};
  node.decorate = faulty::decorator(plan, 0);
  EmbedOptions options;
  options.nodes = {node};
  options.registry = types;
  return must(Cluster::embed(std::move(options)));
}

} // namespace

TEST_CASE("a concurrent method answers while another method runs", "[cluster]") {
  auto cluster = with_laborers();
  auto actor = must(cluster.spawn(worker));
  auto busy = actor.call(work, number(7));
  auto waiting = actor.call(work, number(1));
  gate().await(1);
  CHECK(must(actor.call(progress).get()).value() == 7);
  CHECK_FALSE(busy.ready());
  gate().open();
  CHECK(must(busy.get()).value() == 7);
  CHECK(must(waiting.get()).value() == 8);
  CHECK(must(actor.call(progress).get()).value() == 8);
  // As a message of CAF, too.
  caf::scoped_actor self{cluster.system()};
  caf_version::ask(self.ptr(), actor.handle(), std::string{"progress"}, Payload::of(Empty{}))
      .receive([](Payload& answer) { CHECK(must(std::move(answer).take_as<Number>()).value() == 8); },
               [](const caf::error& error) { FAIL(caf_version::render(error)); });
}

TEST_CASE("a concurrent method knows its actor and its own call", "[cluster]") {
  auto cluster = with_laborers();
  auto actor = must(cluster.spawn(worker, {}, {.gpus = 0.5, .name = "w"}));
  auto busy = actor.call(work, number(1), Duration::max());
  gate().await(1);
  CHECK(must(actor.call(about, {}, 1min).get()).text() == "w 0 1 limited");
  CHECK(must(actor.call(about, {}, Duration::max()).get()).text() == "w 0 1 never");
  CHECK(must(actor.call(pass_on).get()).value() == 42);
  CHECK_FALSE(busy.ready());
  gate().open();
  CHECK(busy.get().has_value());
}

TEST_CASE("errors and exceptions of a concurrent method are those of its call", "[cluster]") {
  auto cluster = with_laborers();
  auto actor = must(cluster.spawn(worker));
  CHECK(actor.call(stumble, text("busy")).get().error() == Error{Errc::unavailable, "busy"});
  CHECK(actor.call(stumble, text("throw")).get().error()
        == Error{Errc::task_failed,
                 fmt::format("stumble of actor {} (worker) on node local threw an exception: on purpose",
                             actor.id().value())});
  CHECK(actor.call<Number>("progress", text("x")).get().error().code() == Errc::invalid_argument);
  CHECK(must(actor.call(progress).get()).value() == 0);
}

TEST_CASE("cancelling a concurrent call asks it to stop, and no other", "[cluster]") {
  auto cluster = with_laborers();
  auto actor = must(cluster.spawn(worker));
  auto busy = actor.call(work, number(3));
  auto lingering = actor.call(linger);
  auto behind = actor.call(linger);
  gate().await(1);
  side_gate().await(1);
  // One at a time: the second one waits, and is withdrawn before it begins.
  behind.cancel();
  CHECK(behind.get().error().code() == Errc::cancelled);
  lingering.cancel();
  CHECK(lingering.get().error().code() == Errc::cancelled);
  CHECK(must(actor.call(progress).get()).value() == 3);
  gate().open();
  CHECK(must(busy.get()).value() == 3);
}

TEST_CASE("an actor that is killed waits for its concurrent method, which is asked to stop", "[cluster]") {
  auto cluster = with_laborers();
  auto actor = must(cluster.spawn(worker, {}, {.gpus = 2}));
  auto lingering = actor.call(linger);
  auto behind = actor.call(progress);
  side_gate().await(1);
  must(cluster.kill(actor));
  CHECK(must(lingering.get()).value() == 1);
  CHECK(behind.get().error().code() == Errc::actor_died);
  CHECK(actor.call(progress).get().error().code() == Errc::actor_died);
  // Its place is free.
  CHECK(cluster.spawn(worker, {}, {.gpus = 2, .queue_timeout = 0s}).has_value());
}

TEST_CASE("an actor that a CAF program ends waits for its concurrent method, which is asked to stop", "[cluster]") {
  auto cluster = with_laborers();
  auto actor = must(cluster.spawn(worker, {}, {.gpus = 2}));
  auto lingering = actor.call(linger);
  side_gate().await(1);
  caf::anon_send_exit(actor.handle(), caf::exit_reason::user_shutdown);
  CHECK(must(lingering.get()).value() == 1);
  CHECK(eventually([&] { return actor.away(); }));
  CHECK(cluster.spawn(worker, {}, {.gpus = 2, .queue_timeout = 1min}).has_value());
}

TEST_CASE("an actor that loses its device asks its concurrent method to stop, and starts anew", "[cluster]") {
  const auto plan = std::make_shared<faulty::Plan>();
  auto cluster = with_laborers(plan);
  auto actor = must(cluster.spawn(worker, {}, {.gpus = 1, .max_restarts = 1}));
  auto lingering = actor.call(linger);
  side_gate().await(1);
  plan->lose_context_at(faulty::Call::allocate, 1);
  CHECK(actor.call(touch).get().error().code() == Errc::context_lost);
  CHECK(must(lingering.get()).value() == 1);
  const auto serves = [&] { return actor.call(progress).get().has_value(); };
  CHECK(eventually(serves));
  CHECK(actor.lease().devices.front().index == 1);
}

TEST_CASE("a concurrent method that waits for its own actor when that ends does not wait for ever", "[cluster]") {
  auto cluster = with_laborers();
  auto actor = must(cluster.spawn(worker, {}, {.gpus = 1, .name = "w"}));
  auto waiting = actor.call(ask_itself);
  side_gate().await(1);
  must(cluster.kill(actor));
  CHECK(must(waiting.get()).value() == static_cast<double>(Errc::actor_died));
}

TEST_CASE("an answer that a concurrent method has promised is withdrawn when its actor ends", "[cluster]") {
  auto cluster = with_laborers();
  auto actor = must(cluster.spawn(worker));
  auto promised = actor.call(wait_for_task);
  gate().await(1);
  must(cluster.kill(actor));
  CHECK_FALSE(promised.get().has_value());
}

TEST_CASE("only concurrent methods can be called at the address that their answers come from", "[cluster]") {
  auto cluster = with_laborers();
  auto actor = must(cluster.spawn(worker));
  caf::scoped_actor self{cluster.system()};
  caf::strong_actor_ptr concurrent;
  caf_version::enqueue(caf::actor_cast<caf::strong_actor_ptr>(actor.handle()),
                       caf::actor_cast<caf::strong_actor_ptr>(self.ptr()), 0, std::string{"progress"},
                       Payload::of(Empty{}));
  self->receive([&](const Payload&) { concurrent = self->current_sender(); });
  REQUIRE(concurrent != nullptr);
  const auto handle = caf::actor_cast<caf::actor>(concurrent);
  caf_version::ask(self.ptr(), handle, std::string{"work"}, Payload::of(number(1)))
      .receive([](const Payload&) { FAIL("it has run"); },
               [](caf::error& error) { CHECK(from_caf(error).code() == Errc::invalid_argument); });
  // Without it its actor ends, too: calls would not be answered any more.
  caf::anon_send_exit(handle, caf::exit_reason::user_shutdown);
  CHECK(eventually([&] { return actor.away(); }));
}

TEST_CASE("an actor with concurrent methods goes on when a CAF actor that it is linked to ends in order", "[cluster]") {
  auto cluster = with_laborers();
  auto actor = must(cluster.spawn(worker, {}, {.gpus = 0.5}));
  // What the other one's end sends; the call is behind it in the mailbox.
  caf::anon_send_exit(actor.handle(), caf::exit_reason::normal);
  must(actor.call(touch).get());
  CHECK(actor.call(progress).get().has_value());
  CHECK_FALSE(actor.away());
}

TEST_CASE("an actor that waits for its concurrent method ends on its own thread, whoever drops it", "[cluster]") {
  auto cluster = std::make_optional(with_laborers());
  auto actor = must(cluster->spawn(worker));
  auto handle = actor.handle();
  auto lingering = actor.call(linger_on);
  side_gate().await(1);
  // While it waits, and does not stop yet, nobody else refers to it.
  actor = ActorRef{};
  std::thread dropper{[&] {
    stop_gate().await(1);
    handle = nullptr;
    stop_gate().open();
  }};
  cluster.reset();
  dropper.join();
  CHECK(destroyed_on() == constructed_on());
}

TEST_CASE("a restarted actor has its concurrent methods", "[cluster]") {
  auto cluster = with_laborers();
  auto actor = must(cluster.spawn(worker, {}, {.name = "w", .max_restarts = 1}));
  gate().open();
  CHECK(must(actor.call(work, number(5)).get()).value() == 5);
  must(cluster.kill(actor, {.restart = true}));
  auto again = actor.call(about).get();
  while (!again && again.error().code() == Errc::actor_died)
    again = actor.call(about).get();
  CHECK(must(std::move(again)).text() == "w 1 0 limited");
  CHECK(must(actor.call(progress).get()).value() == 0);
}

TEST_CASE("many threads call concurrent and other methods of one actor", "[cluster]") {
  auto cluster = with_laborers();
  auto actor = must(cluster.spawn(worker));
  gate().open();
  constexpr int threads = 4;
  constexpr int calls = 200;
  std::atomic<int> answered{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < threads; ++i)
    callers.emplace_back([&] {
      for (int n = 0; n < calls; ++n) {
        auto worked = actor.call(work, number(1));
        answered += actor.call(progress).get().has_value() ? 1 : 0;
        answered += worked.get().has_value() ? 1 : 0;
      }
    });
  for (auto& caller : callers)
    caller.join();
  CHECK(answered == 2 * threads * calls);
  CHECK(must(actor.call(progress).get()).value() == threads * calls);
}
