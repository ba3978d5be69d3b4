#include "fixtures.hpp"

#include <gpuactors/wire/messages.hpp>

#include <support/catch.hpp>

#include <caf/scoped_actor.hpp>
#include <fmt/format.h>

#include <filesystem>
#include <set>
#include <vector>

using namespace gpuactors;
using namespace gpuactors::test;

TEST_CASE("an actor keeps its state between calls", "[cluster]") {
  auto cluster = embed();
  auto actor = cluster.spawn("accumulator", number(10));
  REQUIRE(actor.has_value());
  CHECK(must(actor->call<Number>("add", number(1)).get()).value() == 11);
  CHECK(must(actor->call<Number>("add", number(5)).get()).value() == 16);
}

TEST_CASE("a method's error or exception fails its call and leaves the actor as it was", "[cluster]") {
  auto cluster = embed();
  auto actor = *cluster.spawn("accumulator", number(0));
  CHECK(actor.call<Number>("refuse", text("not today")).get().error() == Error{Errc::invalid_argument, "not today"});
  // Whoever has many of them knows which one it was.
  CHECK(
      actor.call<Number>("raise", text("boom")).get().error()
      == Error{Errc::task_failed, fmt::format("raise of actor {} (accumulator) on node local threw an exception: boom",
                                              actor.id().value())});
  auto named = must(cluster.spawn("accumulator", number(0), {.gpus = 0.5, .name = "sum"}));
  CHECK(
      named.call<Number>("raise", text("boom")).get().error()
      == Error{Errc::task_failed, "raise of actor sum (accumulator) on node local, device 0 threw an exception: boom"});
  CHECK(must(actor.call<Number>("add", number(1)).get()).value() == 1);
}

TEST_CASE("a constructor that throws is an error of spawn, and its share is free again", "[cluster]") {
  auto cluster = embed();
  const auto refused = cluster.spawn("accumulator", number(-1), {.gpus = 1});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == Errc::task_failed);
  CHECK(refused.error().message().find("the start is negative") != std::string::npos);
  CHECK(cluster.spawn("accumulator", number(1), {.gpus = 1}).has_value());
}

TEST_CASE("a constructor that fails with an error gives spawn that error, unless it is another's loss", "[cluster]") {
  auto cluster = embed();
  const auto no_room = cluster.spawn("accumulator", number(-2), {.gpus = 1, .name = "sum"});
  REQUIRE_FALSE(no_room.has_value());
  CHECK(no_room.error()
        == Error{Errc::out_of_memory,
                 "the constructor of actor sum (accumulator) on node local, device 0 failed: no room for -2"});
  // A lost worker would be a reason to start the actor again, and this one is in order.
  CHECK(cluster.spawn("accumulator", number(-3), {.gpus = 1, .max_restarts = 3}).error().code() == Errc::task_failed);
  auto actor = must(cluster.spawn("accumulator", number(1), {.gpus = 1}));
  CHECK(actor.call<Number>("raise", text("queue_full")).get().error() == Error{Errc::queue_full, "no room for more"});
}

TEST_CASE("a GPUActor takes whole devices only, a FractionalGPUActor a share below one only", "[cluster]") {
  auto cluster = embed("host:2x64MiB");
  const auto code = [&](const char* type, Options options) {
    auto actor = cluster.spawn(type, {}, options);
    return actor ? Errc::none : actor.error().code();
  };
  CHECK(code("whole", {.gpus = 0.5}) == Errc::invalid_argument);
  CHECK(code("whole", {.memory_bytes = 1024}) == Errc::invalid_argument);
  CHECK(code("fraction", {.gpus = 1}) == Errc::invalid_argument);
  CHECK(code("fraction", {}) == Errc::invalid_argument);
  CHECK(code("fraction", {.memory_bytes = 1U << 20}) == Errc::none);
  CHECK(code("whole", {.gpus = 1}) == Errc::none);
}

TEST_CASE("three actors of half a device on two devices land on 0, 0 and 1", "[cluster]") {
  auto cluster = embed("host:2x64MiB");
  for (const auto* expected : {"0", "0", "1"}) {
    auto actor = cluster.spawn("fraction", {}, {.gpus = 0.5});
    REQUIRE(actor.has_value());
    CHECK(must(actor->call<Names>("ids").get()).names(0) == expected);
  }
}

TEST_CASE("an allocation beyond the lease names asked, used and limit, and the neighbour does not notice",
          "[cluster]") {
  auto cluster = embed("host:1x64MiB");
  auto small = *cluster.spawn("fraction", {}, {.memory_bytes = 1U << 20, .name = "small"});
  auto other = *cluster.spawn("fraction", {}, {.memory_bytes = 1U << 20});
  REQUIRE(small.call<Number>("allocate", number(600'000)).get().has_value());
  const auto refused = small.call<Number>("allocate", number(600'000)).get();
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == Errc::out_of_memory);
  CHECK(refused.error().message().find("1048576") != std::string::npos);
  CHECK(refused.error().message().starts_with("actor small (fraction) on node local, device 0 asked for "));
  CHECK(other.call<Number>("allocate", number(600'000)).get().has_value());
}

TEST_CASE("names are unique, found, and free again after a kill", "[cluster]") {
  auto cluster = embed();
  auto actor = cluster.spawn("accumulator", number(1), {.name = "sum"});
  REQUIRE(actor.has_value());
  CHECK(cluster.spawn("accumulator", number(1), {.name = "sum"}).error().code() == Errc::already_exists);
  CHECK(must(must(cluster.find("sum")).call<Number>("add", number(1)).get()).value() == 2);
  CHECK(cluster.find("sun").error()
        == Error{Errc::not_found, "there is no actor named \"sun\"; did you mean \"sum\"?"});
  CHECK(cluster.kill("sum").has_value());
  CHECK(cluster.find("sum").error().code() == Errc::not_found);
  CHECK(actor->call<Number>("add", number(1)).get().error().code() == Errc::actor_died);
  CHECK(cluster.spawn("accumulator", number(1), {.name = "sum"}).has_value());
}

TEST_CASE("requests that are too large for the broker are refused by the program that makes them", "[cluster]") {
  auto cluster = embed();
  const std::string much(limits::request_bytes, 'x');
  const auto why = [](const auto& refused) {
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code() == Errc::invalid_argument);
    return refused.error().message();
  };
  // The name and what says how long it is.
  CHECK(why(cluster.find(much)).find(" bytes: at most 16777216 are allowed") != std::string::npos);
  CHECK(why(cluster.kill(much)).find("the request has ") == 0);
  CHECK(why(cluster.spawn("fraction", {}, {.gpus = 0.5, .node = much})).find("the request has ") == 0);
  CHECK(why(cluster.submit<Text>("echo", text("x"), {.node = much}).get()).find("the request has ") == 0);
  CHECK(why(cluster.create_group({{.gpus = 1, .node = much}})).find("bundle 0: the request has ") == 0);
}

TEST_CASE("who looks an actor up, or ends it, need not wait for it", "[cluster]") {
  auto cluster = embed();
  gate().close();
  auto starting = cluster.spawn_async("late", {}, {.gpus = 1, .name = "late"});
  gate().await(1);
  auto found = cluster.find_async("late");
  auto given_up = cluster.find_async("late");
  auto soon = cluster.find_async("late", std::chrono::milliseconds{20});
  given_up.cancel();
  CHECK(given_up.get().error().code() == Errc::cancelled);
  const auto late = soon.get().error();
  CHECK(late.code() == Errc::deadline_exceeded);
  CHECK(late.message().find("actor late has not been ready within") == 0);
  gate().open();
  const auto actor = must(starting.get());
  CHECK(must(found.get()).id() == actor.id());
  CHECK(must(cluster.find_async(actor.to_message()).get()).id() == actor.id());
  CHECK(cluster.find_async(v1::ActorHandle{}).get().error().code() == Errc::invalid_argument);

  auto ended = cluster.kill_async(actor).and_then([&] { return cluster.find_async("late"); });
  CHECK(ended.get().error().code() == Errc::not_found);
  CHECK(cluster.kill_async("late").get().error().code() == Errc::not_found);
  CHECK(cluster.kill_async("").get().error().code() == Errc::invalid_argument);
  CHECK(cluster.kill_async(ActorRef{}).get().error().code() == Errc::invalid_argument);
}

TEST_CASE("a killed actor's share is free when kill returns, and its pending calls have failed", "[cluster]") {
  auto cluster = embed();
  gate().close();
  auto actor = *cluster.spawn("accumulator", number(0), {.gpus = 1});
  auto running = actor.call<Number>("wait_for_stop", number(1));
  auto waiting = actor.call<Number>("add", number(1));
  gate().await(1);
  gate().open();
  REQUIRE(cluster.kill(actor).has_value());
  CHECK_FALSE(waiting.get().has_value());
  CHECK(cluster.state()->leases_size() == 0);
  CHECK(cluster.spawn("whole", {}, {.gpus = 1}).has_value());
}

TEST_CASE("an actor that is withdrawn leaves the queue, or ends when it is being started already", "[cluster]") {
  auto cluster = embed();
  gate().close();
  auto starting = cluster.spawn_async("late", {}, {.gpus = 1, .max_restarts = 1});
  gate().await(1);
  auto waiting = cluster.spawn_async("whole", {}, {.gpus = 1, .name = "waiting"});
  waiting.cancel();
  CHECK(waiting.get().error().code() == Errc::cancelled);
  CHECK(must(cluster.state()).queue_size() == 0);
  CHECK(cluster.find("waiting").error().code() == Errc::not_found);
  starting.cancel();
  CHECK(starting.get().error().code() == Errc::cancelled);
  auto next = cluster.spawn_async("whole", {}, {.gpus = 1});
  gate().open();
  CHECK(next.get().has_value());
  CHECK(must(cluster.state()).actors_size() == 1);
}

TEST_CASE("a cluster ends with ten thousand actors in it", "[cluster]") {
  auto cluster = embed();
  std::vector<Future<ActorRef>> starting;
  for (int i = 0; i < 10'000; ++i)
    starting.push_back(cluster.spawn_async("accumulator", number(i)));
  for (auto& actor : starting)
    must(actor.get());
  cluster.close();
  CHECK_FALSE(cluster.spawn("accumulator", number(0)).has_value());
}

TEST_CASE("an actor that others have asked for too stays when the first one withdraws", "[cluster]") {
  auto cluster = embed();
  gate().close();
  auto first = cluster.spawn_async("late", {}, {.name = "shared"});
  gate().await(1);
  auto second = cluster.spawn_async("late", {}, {.name = "shared", .get_if_exists = true});
  first.cancel();
  CHECK(first.get().error().code() == Errc::cancelled);
  gate().open();
  CHECK(second.get().has_value());
  CHECK(cluster.find("shared").has_value());
}

TEST_CASE("kill reports an actor that is stuck in user code, and ends it when it returns", "[cluster]") {
  auto cluster = embed();
  gate().close();
  auto actor = *cluster.spawn("accumulator", number(0), {.gpus = 1});
  auto stuck = actor.call<Number>("wait", number(1));
  gate().await(1);
  const auto killed = cluster.kill(actor, {.grace = std::chrono::milliseconds{10}});
  REQUIRE_FALSE(killed.has_value());
  CHECK(killed.error().code() == Errc::deadline_exceeded);
  gate().open();
  CHECK(cluster.spawn("whole", {}, {.gpus = 1}).has_value());
}

TEST_CASE("an actor with restarts left is started anew, and its handle follows it", "[cluster]") {
  auto cluster = embed();
  auto actor = *cluster.spawn("accumulator", number(5), {.max_restarts = 1});
  CHECK(must(actor.call<Number>("add", number(1)).get()).value() == 6);
  REQUIRE(cluster.kill(actor, {.restart = true}).has_value());
  CHECK(must(actor.call<Number>("add", number(1)).get()).value() == 6);
  CHECK(actor.info().restarts() == 1);
  CHECK_FALSE(actor.away());
  REQUIRE(cluster.kill(actor, {.restart = true}).has_value());
  CHECK(actor.call<Number>("add", number(1)).get().error().code() == Errc::actor_died);
  while (!actor.away())
    std::this_thread::yield();
}

TEST_CASE("calls that have not begun when their actor is started anew begin in its next life", "[cluster]") {
  auto cluster = embed();
  gate().close();
  auto actor = must(cluster.spawn("accumulator", number(5), {.max_restarts = 1}));
  auto running = actor.call<Number>("wait_for_stop", number(1));
  gate().await(1);
  std::vector<Future<Number>> behind;
  for (int i = 0; i < 3; ++i)
    behind.push_back(actor.call<Number>("add", number(1)));
  gate().open();
  REQUIRE(cluster.kill(actor, {.restart = true}).has_value());
  std::set<double> sums;
  for (auto& call : behind)
    sums.insert(must(call.get()).value());
  CHECK(sums == std::set{6.0, 7.0, 8.0});
  CHECK(actor.info().restarts() == 1);
  CHECK_FALSE(actor.ended());
}

TEST_CASE("calls that have not begun when their actor ends for good say that it has, as does its reference",
          "[cluster]") {
  auto cluster = embed();
  gate().close();
  const auto restarts = GENERATE(0, 1);
  auto actor = must(cluster.spawn("accumulator", number(5), {.max_restarts = restarts}));
  auto running = actor.call<Number>("wait_for_stop", number(1));
  gate().await(1);
  auto behind = actor.call<Number>("add", number(1));
  gate().open();
  REQUIRE(cluster.kill(actor).has_value());
  CHECK(behind.get().error().code() == Errc::actor_died);
  CHECK(actor.call<Number>("add", number(1)).get().error().code() == Errc::actor_died);
  REQUIRE(actor.ended());
  CHECK(actor.ended()->code() == Errc::actor_died);
}

TEST_CASE("a call that waits to be sent again can be withdrawn", "[cluster]") {
  auto cluster = embed();
  gate().close();
  auto actor = must(cluster.spawn("accumulator", number(0), {.gpus = 1, .max_restarts = 1, .max_task_retries = -1}));
  auto running = actor.call<Number>("wait", number(1));
  gate().await(1);
  auto behind = actor.call<Number>("add", number(1));
  // It gets the device, so that the actor is not back.
  auto other = cluster.spawn_async("accumulator", number(0), {.gpus = 1});
  static_cast<void>(cluster.kill(actor, {.restart = true, .grace = std::chrono::milliseconds{10}}));
  gate().open();
  REQUIRE(other.get().has_value());
  behind.cancel();
  CHECK(behind.get(std::chrono::seconds{10}).error().code() == Errc::cancelled);
}

TEST_CASE("a kill is waited for no longer than it says, and goes on", "[cluster]") {
  auto cluster = embed();
  gate().close();
  auto actor = must(cluster.spawn("accumulator", number(0), {.name = "stuck"}));
  auto running = actor.call<Number>("wait", number(1));
  gate().await(1);
  KillOptions options;
  options.timeout = std::chrono::milliseconds{20};
  const auto killed = cluster.kill(actor, options);
  REQUIRE_FALSE(killed.has_value());
  CHECK(killed.error().code() == Errc::deadline_exceeded);
  gate().open();
  while (cluster.find("stuck").has_value())
    std::this_thread::yield();
}

TEST_CASE("a streamed reply arrives in order and to the end, however slow its reader", "[cluster]") {
  auto cluster = embed();
  auto actor = *cluster.spawn("accumulator", number(0));
  auto stream = actor.stream<Number>("count", number(1'000));
  for (int i = 0; i < 1'000; ++i) {
    auto item = stream.next();
    REQUIRE(item.has_value());
    REQUIRE(item->has_value());
    REQUIRE((*item)->value() == i);
  }
  auto end = stream.next();
  REQUIRE(end.has_value());
  CHECK_FALSE(end->has_value());
}

TEST_CASE("a streamed reply is read by a function, until the end or an error of either side", "[cluster]") {
  auto cluster = embed();
  auto actor = must(cluster.spawn("accumulator", number(0)));
  double sum = 0;
  auto stream = actor.stream<Number>("count", number(100));
  CHECK(stream.for_each([&](const Number& item) { sum += item.value(); }).has_value());
  CHECK(sum == 4950);
  auto stopped = actor.stream<Number>("count", number(1e9));
  const auto enough = [](const Number& item) -> Result<void> {
    if (item.value() < 10)
      return {};
    return fail(Errc::cancelled, "that is enough");
  };
  CHECK(stopped.for_each(enough).error() == Error{Errc::cancelled, "that is enough"});
  CHECK(actor.stream<Number>("raise", text("boom")).for_each([](const Number&) {}).error().code() != Errc::none);
  auto moved = std::move(stopped);
  CHECK(stopped.for_each(enough).error().code() == Errc::invalid_argument); // NOLINT(bugprone-use-after-move)
}

TEST_CASE("a reader that drops its stream stops the producer", "[cluster]") {
  auto cluster = embed();
  auto actor = *cluster.spawn("accumulator", number(0));
  {
    auto stream = actor.stream<Number>("count", number(1e9));
    REQUIRE(stream.next()->has_value());
  }
  CHECK(must(actor.call<Number>("add", number(1)).get()).value() == 1);
}

TEST_CASE("a method that returns a future leaves the actor free for other calls", "[cluster]") {
  auto cluster = embed();
  auto actor = *cluster.spawn("accumulator", number(0));
  auto later = actor.call<Number>("later", number(42));
  CHECK(must(actor.call<Number>("add", number(1)).get()).value() == 1);
  CHECK_FALSE(later.ready());
  CHECK(actor.call<Number>("fulfil", number(1)).get().has_value());
  CHECK(must(later.get()).value() == 42);
}

TEST_CASE("a tensor put by an actor is read without a copy elsewhere, and is lost when its owner ends", "[cluster]") {
  auto cluster = embed();
  auto actor = *cluster.spawn("fraction", {}, {.gpus = 0.5});
  Vector in;
  for (float value : {1.0F, 2.0F, 3.0F})
    in.add_values(value);
  auto message = actor.call<TensorMessage>("share", in).get();
  REQUIRE(message.has_value());
  auto shared = cluster.get(message->tensor());
  REQUIRE(shared.has_value());
  CHECK(*shared->to_host<float>() == std::vector<float>{1, 2, 3});
  CHECK(shared->to_host<double>().error().code() == Errc::invalid_argument);
  REQUIRE(cluster.kill(actor).has_value());
  CHECK(shared->to_host<float>().error().code() == Errc::actor_died);
  CHECK(cluster.get(message->tensor()).has_value());
  shared = Shared<Tensor>{};
  CHECK(cluster.get(message->tensor()).error().code() == Errc::not_found);
}

TEST_CASE("a program puts and gets tensors of its own", "[cluster]") {
  auto cluster = embed();
  auto shared = cluster.put(std::vector<double>{1, 2, 3, 4}, {2, 2});
  REQUIRE(shared.has_value());
  CHECK(*cluster.get(shared->ref())->to_host<double>() == std::vector<double>{1, 2, 3, 4});
  CHECK(cluster.put(std::vector<double>{1, 2, 3}, {2, 2}).error().code() == Errc::invalid_argument);
  const std::vector<BFloat16> brain{BFloat16{1.5F}, BFloat16{-2}};
  auto narrow = cluster.put(brain, {2});
  REQUIRE(narrow.has_value());
  const auto ref = narrow->ref();
  CHECK(ref.dtype() == v1::BF16);
  CHECK(*cluster.get(ref)->to_host<BFloat16>() == brain);
  CHECK(narrow->to_host<Float16>().error().message() == "the tensor holds bf16, not f16");
}

TEST_CASE("CAF programs call, monitor and end an actor as any other", "[cluster]") {
  auto cluster = embed();
  auto actor = *cluster.spawn("accumulator", number(1));
  caf::scoped_actor self{cluster.system()};
  double seen = 0;
  caf_version::ask(self.ptr(), actor.handle(), std::string{"add"}, Payload::of(number(2)))
      .receive([&](Payload& answer) { seen = answer.live_as<Number>()->value(); }, [](caf::error&) {});
  CHECK(seen == 3);
  self->monitor(actor.handle());
  caf::anon_send_exit(actor.handle(), caf::exit_reason::user_shutdown);
  bool down = false;
  self->receive([&](const caf::down_msg&) { down = true; });
  CHECK(down);
  CHECK(actor.call<Number>("add", number(1)).get().error().code() == Errc::actor_died);
}

TEST_CASE("inside one process a message is shared, not serialized", "[cluster]") {
  auto cluster = embed();
  caf::scoped_actor self{cluster.system()};
  auto actor = *cluster.spawn("accumulator", number(1));
  // A string that is not UTF-8 cannot be serialized: it only gets through alive.
  const auto refused = actor.call<Number>("refuse", text("\xff\xfe")).get();
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error() == Error{Errc::invalid_argument, "\xff\xfe"});
}

namespace {

/// A device under another number, as when CUDA_VISIBLE_DEVICES hides those before it.
class Renumbered : public Device {
public:
  Renumbered(std::shared_ptr<Device> inner, int index) : inner_(std::move(inner)), info_(inner_->info()) {
    info_.index = index;
  }

  [[nodiscard]] const DeviceInfo& info() const noexcept override {
    return info_;
  }

  Result<DeviceMemory> memory() override {
    return inner_->memory();
  }

  Result<std::unique_ptr<Backend>> open(const BackendOptions& options) override {
    return inner_->open(options);
  }

  [[nodiscard]] Device& undecorated() noexcept override {
    return inner_->undecorated();
  }

  [[nodiscard]] bool is_open() const override {
    return inner_->is_open();
  }

  Result<std::size_t> shared_footprint(std::size_t bytes) override {
    return inner_->shared_footprint(bytes);
  }

  Result<std::shared_ptr<SharedMemory>> make_shared_memory(std::size_t bytes) override {
    return inner_->make_shared_memory(bytes);
  }

  Result<std::shared_ptr<SharedMemory>> open_shared_memory(int descriptor, std::size_t bytes) override {
    return inner_->open_shared_memory(descriptor, bytes);
  }

  void dispose(std::shared_ptr<void> what) override {
    inner_->dispose(std::move(what));
  }

private:
  std::shared_ptr<Device> inner_;
  DeviceInfo info_;
};

} // namespace

TEST_CASE("devices keep the numbers that their node knows them by", "[cluster]") {
  EmbeddedNode node;
  node.name = "local";
  node.devices = "host:2x64MiB";
  node.decorate = [](std::shared_ptr<Device> device) -> std::shared_ptr<Device> {
    const auto index = 1 + 2 * device->info().index;
    return std::make_shared<Renumbered>(std::move(device), index);
  };
  EmbedOptions options;
  options.nodes.push_back(std::move(node));
  options.registry = types();
  auto cluster = must(Cluster::embed(std::move(options)));
  for (const auto* expected : {"1", "3"}) {
    auto actor = must(cluster.spawn("whole", {}, {.gpus = 1}));
    CHECK(must(actor.call<Names>("ids").get()).names(0) == expected);
    const auto lease = actor.lease();
    CHECK(lease.node == "local");
    REQUIRE(lease.devices.size() == 1);
    CHECK(std::to_string(lease.devices.front().index) == expected);
  }
  const auto state = must(cluster.state());
  REQUIRE(state.devices_size() == 2);
  CHECK(state.devices(0).device().index() == 1);
  CHECK(state.devices(1).device().index() == 3);
}

TEST_CASE("cancelling a call that was handed on reaches the work it was handed to", "[cluster]") {
  auto cluster = embed();
  auto actor = cluster.spawn("accumulator", number(0));
  REQUIRE(actor.has_value());
  gate().close();
  auto call = actor->call<Number>("delegate", number(1));
  gate().await(1);
  call.cancel();
  gate().open();
  CHECK(call.get().error().code() == Errc::cancelled);
  // The device is free only when the task has stopped.
  CHECK(cluster.submit<Text>("echo", text("next"), {.gpus = 1}).get(std::chrono::seconds{60}).has_value());
}

TEST_CASE("a method that returns an empty future fails its call, and the actor works on", "[cluster]") {
  auto cluster = embed();
  auto actor = must(cluster.spawn("accumulator", number(1)));
  const auto empty = actor.call<Number>("nothing", number(0)).get();
  REQUIRE_FALSE(empty.has_value());
  CHECK(empty.error().code() == Errc::task_failed);
  CHECK(must(actor.call<Number>("add", number(1)).get()).value() == 2);
}

TEST_CASE("an empty reference answers with nothing, not with a crash", "[cluster]") {
  const ActorRef none;
  CHECK_FALSE(none);
  CHECK(none.id() == ActorId{});
  CHECK(none.name().empty());
  CHECK(none.type().empty());
  CHECK(none.info().name().empty());
  CHECK(none.lease().devices.empty());
  CHECK_FALSE(none.handle());
  CHECK(none.call("add").get().error().code() == Errc::invalid_argument);
  auto cluster = embed();
  auto moved = std::move(cluster);
  CHECK(cluster.types().tasks().empty()); // NOLINT(bugprone-use-after-move)
  CHECK(cluster.state().error().code() == Errc::unavailable);
}
