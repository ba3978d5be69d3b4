#include "ray_rows.hpp"

#include "remote_cluster.hpp"

#include <gpuactors/bench/messages.pb.h>
#include <gpuactors/gpuactors.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <thread>

namespace gpuactors::bench {

namespace {

using google::protobuf::Empty;

/// What Ray asks for if nobody says otherwise: a task takes one CPU, an actor none.
const Options ray_task{.cpus = 1};

/// Waits for all; the first error. In actors and tasks errors are answers.
Result<Small> await_all(std::vector<Future<Small>>& futures) {
  for (auto& future : futures)
    GPUACTORS_TRY(future.get());
  return Small{};
}

void take_all(std::vector<Future<Small>>& futures) {
  (void)check(await_all(futures));
}

std::vector<Future<Small>> submit_small(Cluster& cluster, int count) {
  std::vector<Future<Small>> result;
  result.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    result.push_back(cluster.submit<Small>("bench.ray_small", Empty{}, ray_task));
  return result;
}

Result<Small> call_in_turn(Cluster& cluster, const Batch& batch) {
  std::vector<ActorRef> actors;
  for (const auto& name : batch.actors()) {
    GPUACTORS_LET(actor, cluster.find(name));
    actors.push_back(actor);
  }
  std::vector<Future<Small>> futures;
  futures.reserve(static_cast<std::size_t>(batch.calls()));
  for (int i = 0; i < batch.calls(); ++i)
    futures.push_back(actors[static_cast<std::size_t>(i) % actors.size()].call<Small>("small_value"));
  return await_all(futures);
}

// -- the actors and tasks -------------------------------------------------------------------------

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

  /// Submits so many tasks, and waits for them.
  Result<Small> tasks_batch(const Batch& batch) {
    auto cluster = Cluster::from(*this);
    auto futures = submit_small(cluster, batch.calls());
    return await_all(futures);
  }

  /// Calls actors in turn, and waits for all answers.
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
    .method("tasks_batch", &RayActor::tasks_batch)
    .method("calls_batch", &RayActor::calls_batch)
    .method("argument_batch", &RayActor::argument_batch);

GPUACTORS_TASK("bench.ray_small", [](TaskContext&, const Empty&) { return Small{}; });

GPUACTORS_TASK("bench.ray_work", [](TaskContext& ctx, const Batch& batch) {
  auto cluster = Cluster::from(ctx);
  return call_in_turn(cluster, batch);
});

/// Actors of a row, gone with it; each in a process of its own, as Ray's are, where there are processes.
class Actors {
public:
  Actors(Cluster& cluster, std::size_t count, const Options& options = {.isolation = Isolation::process})
    : cluster_(cluster) {
    for (std::size_t i = 0; i < count; ++i) {
      static int next = 0;
      auto named = options;
      named.name = fmt::format("ray-{}", ++next);
      spawning_.push_back(cluster.spawn_async("bench.ray", Empty{}, named));
    }
    for (auto& actor : spawning_)
      actors_.push_back(check(actor.get()));
  }

  Actors(const Actors&) = delete;
  Actors& operator=(const Actors&) = delete;

  ~Actors() {
    for (const auto& actor : actors_)
      if (auto killed = cluster_.kill(actor); !killed)
        fmt::print(stderr, "gpuactors-bench: {}\n", to_string(killed.error()));
  }

  [[nodiscard]] ActorRef& operator[](std::size_t i) {
    return actors_[i];
  }

  [[nodiscard]] std::vector<ActorRef>& all() noexcept {
    return actors_;
  }

  /// So many calls of each of them in turn.
  [[nodiscard]] Batch batch(int calls) const {
    Batch result;
    for (const auto& actor : actors_)
      result.add_actors(actor.name());
    result.set_calls(calls);
    return result;
  }

private:
  Cluster& cluster_;
  std::vector<Future<ActorRef>> spawning_;
  std::vector<ActorRef> actors_;
};

// -- the rows -------------------------------------------------------------------------------------

constexpr int ray_batch = 1'000;

/// Does it once; gives the number of operations, or gigabytes.
using Once = std::function<double()>;

struct RayRow {
  std::string name;
  std::function<Once(Cluster&, const RayRun&)> prepare;
};

/// Ray takes as many servers as half the processors.
std::size_t servers() {
  return std::max<std::size_t>(1, std::thread::hardware_concurrency() / 2);
}

template <class Do>
Once times(double operations, Do run) {
  return [operations, run]() mutable {
    run();
    return operations;
  };
}

std::vector<RayRow> task_rows() {
  return {
      {"single_client_tasks_sync",
       [](Cluster& cluster, const RayRun&) {
         return times(1, [&] { (void)check(cluster.submit<Small>("bench.ray_small", Empty{}, ray_task).get()); });
       }},
      {"single_client_tasks_async",
       [](Cluster& cluster, const RayRun&) {
         return times(ray_batch, [&] {
           auto futures = submit_small(cluster, ray_batch);
           take_all(futures);
         });
       }},
      {"multi_client_tasks_async",
       [](Cluster& cluster, const RayRun&) {
         constexpr std::size_t clients = 4;
         constexpr int each = 10'000;
         auto actors = std::make_shared<Actors>(cluster, clients);
         return times(double{clients} * each, [actors] {
           std::vector<Future<Small>> futures;
           for (auto& actor : actors->all())
             futures.push_back(actor.call<Small>("tasks_batch", actors->batch(each)));
           take_all(futures);
         });
       }},
      {"single_client_wait_1k_refs",
       [](Cluster& cluster, const RayRun&) {
         return times(1, [&] {
           auto futures = submit_small(cluster, ray_batch);
           while (!futures.empty()) {
             const auto ready = wait(futures, 1, std::chrono::seconds{60});
             futures.erase(futures.begin() + static_cast<std::ptrdiff_t>(ready.front()));
           }
         });
       }},
  };
}

std::vector<RayRow> call_rows() {
  return {
      {"1_1_actor_calls_sync",
       [](Cluster& cluster, const RayRun&) {
         auto actors = std::make_shared<Actors>(cluster, 1);
         return times(1, [actors] { (void)check((*actors)[0].call<Small>("small_value").get()); });
       }},
      {"1_1_actor_calls_async",
       [](Cluster& cluster, const RayRun&) {
         auto actors = std::make_shared<Actors>(cluster, 1);
         return times(ray_batch, [actors] {
           std::vector<Future<Small>> futures;
           futures.reserve(ray_batch);
           for (int i = 0; i < ray_batch; ++i)
             futures.push_back((*actors)[0].call<Small>("small_value"));
           take_all(futures);
         });
       }},
      {"1_n_actor_calls_async",
       [](Cluster& cluster, const RayRun&) {
         constexpr int each = 5'000;
         auto called = std::make_shared<Actors>(cluster, servers());
         auto client = std::make_shared<Actors>(cluster, 1);
         const auto calls = each * static_cast<int>(servers());
         return times(calls, [called, client, calls] {
           (void)check((*client)[0].call<Small>("calls_batch", called->batch(calls)).get());
         });
       }},
      {"n_n_actor_calls_async",
       [](Cluster& cluster, const RayRun&) {
         constexpr int each = 5'000;
         constexpr int tasks = 4;
         auto called = std::make_shared<Actors>(cluster, servers());
         return times(tasks * each, [&cluster, called] {
           std::vector<Future<Small>> futures;
           for (int i = 0; i < tasks; ++i)
             futures.push_back(cluster.submit<Small>("bench.ray_work", called->batch(each), ray_task));
           take_all(futures);
         });
       }},
      {"n_n_actor_calls_with_arg_async",
       [](Cluster& cluster, const RayRun&) {
         auto called = std::make_shared<Actors>(cluster, servers());
         auto clients = std::make_shared<Actors>(cluster, servers());
         return times(ray_batch * static_cast<double>(servers()), [called, clients] {
           std::vector<Future<Small>> futures;
           for (std::size_t i = 0; i < servers(); ++i) {
             Batch batch;
             batch.add_actors((*called)[i].name());
             batch.set_calls(ray_batch);
             futures.push_back((*clients)[i].call<Small>("argument_batch", std::move(batch)));
           }
           take_all(futures);
         });
       }},
  };
}

Once spawn_many(Cluster& cluster, const RayRun& run, Isolation isolation) {
  return times(run.actors, [&cluster, count = static_cast<std::size_t>(run.actors), isolation] {
    Actors actors{cluster, count, {.isolation = isolation}};
    std::vector<Future<Small>> futures;
    for (auto& actor : actors.all())
      futures.push_back(actor.call<Small>("small_value"));
    take_all(futures);
  });
}

std::vector<RayRow> other_rows() {
  return {
      {"single_client_put_calls",
       [](Cluster& cluster, const RayRun&) {
         return times(1, [&] { (void)check(cluster.put(std::vector<std::int64_t>{0}, {1})); });
       }},
      {"single_client_get_calls",
       [](Cluster& cluster, const RayRun&) {
         const auto kept = check(cluster.put(std::vector<std::int64_t>{0}, {1}));
         return times(1, [&cluster, kept] { (void)check(cluster.get(kept.ref())); });
       }},
      {"single_client_put_gigabytes",
       [](Cluster& cluster, const RayRun&) {
         constexpr std::int64_t elements = 100 * 1024 * 1024;
         auto values = std::make_shared<std::vector<std::int64_t>>(static_cast<std::size_t>(elements));
         // Ray counts these 800 MiB as 0.8.
         return times(0.8, [&cluster, values] { (void)check(cluster.put(*values, {elements})); });
       }},
      {"placement_group_create/removal",
       [](Cluster& cluster, const RayRun&) {
         constexpr int groups = 100;
         return times(groups, [&cluster] {
           std::vector<GroupId> made;
           for (int i = 0; i < groups; ++i)
             made.push_back(check(cluster.create_group({{.resources = {{"custom", 0.001}}}})).id);
           for (const auto id : made)
             if (auto removed = cluster.remove_group(id); !removed)
               (void)check(Result<int>{fail(removed.error())});
         });
       }},
      {"many_actors", [](Cluster& cluster, const RayRun& run) { return spawn_many(cluster, run, Isolation::thread); }},
      {"many_actors_processes",
       [](Cluster& cluster, const RayRun& run) { return spawn_many(cluster, run, Isolation::process); }},
  };
}

std::vector<RayRow> all_rows() {
  std::vector<RayRow> result;
  for (auto& group : {task_rows(), call_rows(), other_rows()})
    result.insert(result.end(), group.begin(), group.end());
  return result;
}

// -- measuring ------------------------------------------------------------------------------------

/// As `timeit` of Ray: rounds of so many seconds, after one that warms up.
RayResult time_it(const RayRow& row, const std::string& mode, Cluster& cluster, const RayRun& run) {
  const auto once = row.prepare(cluster, run);
  const auto round = [&](double seconds) {
    double done = 0;
    const auto start = now_ns();
    do
      done += once();
    while (now_ns() - start < seconds * 1e9);
    return done / (now_ns() - start) * 1e9;
  };
  round(run.seconds / 2);
  std::vector<double> rates;
  for (int i = 0; i < run.rounds; ++i)
    rates.push_back(round(run.seconds));
  RayResult result{row.name, mode, 0, 0};
  const auto count = static_cast<double>(rates.size());
  result.mean = std::accumulate(rates.begin(), rates.end(), 0.0) / count;
  for (const auto rate : rates)
    result.deviation += (rate - result.mean) * (rate - result.mean) / count;
  result.deviation = std::sqrt(result.deviation);
  return result;
}

void run_rows(const std::string& mode, Cluster& cluster, const RayRun& run, std::vector<RayResult>& results) {
  for (const auto& row : all_rows()) {
    // An embedded cluster has one process only.
    if (row.name.find(run.filter) == std::string::npos || (mode == "embedded" && row.name == "many_actors_processes"))
      continue;
    fmt::print(stderr, "running {}, {}\n", row.name, mode);
    results.push_back(time_it(row, mode, cluster, run));
  }
}

} // namespace

std::vector<RayResult> run_ray_rows(const RayRun& run) {
  std::vector<RayResult> results;
  for (const auto& mode : run.modes)
    if (mode == "embedded") {
      EmbedOptions options;
      options.nodes = {{.name = "local", .devices = "host:1x1GiB", .labels = {}, .resources = {{"custom", 100}}}};
      auto cluster = check(Cluster::embed(std::move(options)));
      run_rows(mode, cluster, run, results);
    } else {
      Remote remote{mode == "tls"};
      run_rows(mode, remote.cluster(), run, results);
    }
  return results;
}

std::vector<std::string> ray_row_names() {
  std::vector<std::string> result;
  for (const auto& row : all_rows())
    result.push_back(row.name);
  return result;
}

void print_ray_json(const std::vector<RayResult>& results, std::FILE* file) {
  fmt::print(file, "{{\"rows\":[");
  const char* separator = "";
  for (const auto& result : results) {
    fmt::print(file, "{}{{\"name\":\"{}\",\"mode\":\"{}\",\"value\":{},\"deviation\":{},\"unit\":\"{}\"}}", separator,
               result.name, result.mode, result.mean, result.deviation,
               result.name.find("gigabytes") != std::string::npos ? "GB/s" : "1/s");
    separator = ",";
  }
  fmt::print(file, "]}}\n");
}

} // namespace gpuactors::bench
