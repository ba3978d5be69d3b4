#include "ray_work.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

namespace gpuactors::bench {

using google::protobuf::Empty;

namespace {

Result<Small> call_in_turn(Cluster& cluster, const Batch& batch) {
  std::vector<ActorRef> actors;
  for (const auto& name : batch.actors()) {
    GPUACTORS_LET(actor, cluster.find(name));
    actors.push_back(actor);
  }
  std::vector<Future<Small>> futures;
  futures.reserve(static_cast<std::size_t>(batch.calls()));
  for (int i = 0; i < batch.calls(); ++i)
    futures.push_back(actors[static_cast<std::size_t>(i) % actors.size()].call<Small>(batch.method()));
  return await_all(futures);
}

/// Puts so many tensors of this size, one after the other; none is kept.
Result<Small> put_in_turn(Cluster& cluster, const Puts& puts) {
  const std::vector<std::int64_t> values(static_cast<std::size_t>(puts.elements()));
  for (int i = 0; i < puts.count(); ++i)
    GPUACTORS_TRY(cluster.put(values, {puts.elements()}));
  return Small{};
}

class RayActor : public Actor {
public:
  using Actor::Actor;

  Small small_value(const Empty&) {
    return {};
  }

  Result<Small> small_value_arg(const v1::TensorRef& argument) {
    GPUACTORS_TRY(tensors().get(argument));
    return Small{};
  }

  Future<Small> later_value(const Empty&) {
    return Future<Small>::ready_with(Small{});
  }

  Future<Small> later_value_arg(const Small&) {
    return Future<Small>::ready_with(Small{});
  }

  Result<Small> tasks_batch(const Batch& batch) {
    auto cluster = Cluster::from(*this);
    auto futures = submit_small(cluster, batch.calls());
    return await_all(futures);
  }

  Result<Small> calls_batch(const Batch& batch) {
    auto cluster = Cluster::from(*this);
    return call_in_turn(cluster, batch);
  }

  /// The same with an argument that was put before.
  Result<Small> argument_batch(const Batch& batch) {
    auto cluster = Cluster::from(*this);
    GPUACTORS_LET(argument, cluster.put(std::vector<std::int64_t>{0}, {1}));
    GPUACTORS_LET(actor, cluster.find(batch.actors(0)));
    std::vector<Future<Small>> futures;
    for (int i = 0; i < batch.calls(); ++i)
      futures.push_back(actor.call<Small>("small_value_arg", argument.ref()));
    return await_all(futures);
  }
};

GPUACTORS_ACTOR("bench.ray", RayActor)
    .method("small_value", &RayActor::small_value)
    .method("small_value_arg", &RayActor::small_value_arg)
    .method("later_value", &RayActor::later_value)
    .method("later_value_arg", &RayActor::later_value_arg)
    .method("tasks_batch", &RayActor::tasks_batch)
    .method("calls_batch", &RayActor::calls_batch)
    .method("argument_batch", &RayActor::argument_batch);

GPUACTORS_TASK("bench.ray_small", [](TaskContext&, const Empty&) { return Small{}; });

GPUACTORS_TASK("bench.ray_work", [](TaskContext& ctx, const Batch& batch) {
  auto cluster = Cluster::from(ctx);
  return call_in_turn(cluster, batch);
});

GPUACTORS_TASK("bench.ray_puts", [](TaskContext& ctx, const Puts& puts) {
  auto cluster = Cluster::from(ctx);
  return put_in_turn(cluster, puts);
});

} // namespace

Result<Small> await_all(std::vector<Future<Small>>& futures) {
  for (auto& future : futures)
    GPUACTORS_TRY(future.get());
  return Small{};
}

void take_all(std::vector<Future<Small>>& futures) {
  (void)check(await_all(futures));
}

std::vector<Future<Small>> submit_small(Cluster& cluster, int count, const Options& options) {
  std::vector<Future<Small>> result;
  result.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    result.push_back(cluster.submit<Small>("bench.ray_small", Empty{}, options));
  return result;
}

std::size_t servers() {
  return std::max<std::size_t>(1, std::thread::hardware_concurrency() / 2);
}

// -- Actors ---------------------------------------------------------------------------------------

Actors::Actors(Cluster& cluster, std::size_t count, const Options& options) : cluster_(cluster) {
  std::vector<Future<ActorRef>> spawning;
  for (std::size_t i = 0; i < count; ++i) {
    static int next = 0;
    auto named = options;
    named.name = fmt::format("ray-{}", ++next);
    spawning.push_back(cluster.spawn_async("bench.ray", Empty{}, named));
  }
  for (auto& actor : spawning)
    actors_.push_back(check(actor.get()));
}

Actors::~Actors() {
  for (const auto& actor : actors_)
    if (auto killed = cluster_.kill(actor); !killed)
      fmt::print(stderr, "gpuactors-bench: {}\n", to_string(killed.error()));
}

Batch Actors::batch(int calls, std::string_view method) const {
  Batch result;
  for (const auto& actor : actors_)
    result.add_actors(actor.name());
  result.set_calls(calls);
  result.set_method(std::string{method});
  return result;
}

} // namespace gpuactors::bench
