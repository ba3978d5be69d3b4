#include "ray_table.hpp"

#include "ray_work.hpp"

#include <memory>
#include <utility>

namespace gpuactors::bench {

namespace {

constexpr int ray_batch = 1'000;

template <class Do>
Once times(double operations, Do run) {
  return [operations, run]() mutable {
    run();
    return operations;
  };
}

std::shared_ptr<Actors> actors_of(const RayBed& bed, std::size_t count) {
  return std::make_shared<Actors>(bed.cluster, count);
}

// -- tasks ----------------------------------------------------------------------------------------

/// One after the other.
Once tasks_in_turn(const RayBed& bed, const Options& options) {
  return times(1, [&cluster = bed.cluster, options] {
    (void)check(cluster.submit<Small>("bench.ray_small", google::protobuf::Empty{}, options).get());
  });
}

/// So many at once; counted as `operations`.
Once tasks_at_once(const RayBed& bed, int count, double operations, const Options& options = ray_task) {
  return times(operations, [&cluster = bed.cluster, count, options] {
    auto futures = submit_small(cluster, count, options);
    take_all(futures);
  });
}

Once tasks_of_actors(const RayBed& bed) {
  constexpr std::size_t clients = 4;
  constexpr int each = 10'000;
  return times(double{clients} * each, [actors = actors_of(bed, clients)] {
    std::vector<Future<Small>> futures;
    for (auto& actor : actors->all())
      futures.push_back(actor.call<Small>("tasks_batch", actors->batch(each)));
    take_all(futures);
  });
}

Once wait_for_thousand(const RayBed& bed) {
  return times(1, [&cluster = bed.cluster] {
    auto futures = submit_small(cluster, ray_batch);
    while (!futures.empty()) {
      const auto ready = wait(futures, 1, std::chrono::seconds{60});
      futures.erase(futures.begin() + static_cast<std::ptrdiff_t>(ready.front()));
    }
  });
}

std::vector<RayRow> task_rows() {
  return {
      {.name = "single_client_tasks_sync",
       .prepare = [](const RayBed& bed, const RayRun&) { return tasks_in_turn(bed, ray_task); },
       .floor = RayFloor::one_request,
       .plain = {1 / 1.5, 5}},
      {.name = "single_client_tasks_async",
       .prepare = [](const RayBed& bed, const RayRun&) { return tasks_at_once(bed, ray_batch, ray_batch); },
       .floor = RayFloor::many_requests,
       .plain = {0, 5}},
      {.name = "single_client_tasks_and_get_batch",
       .prepare = [](const RayBed& bed, const RayRun&) { return tasks_at_once(bed, ray_batch, 1); }},
      {.name = "multi_client_tasks_async",
       .prepare = [](const RayBed& bed, const RayRun&) { return tasks_of_actors(bed); }},
      {.name = "many_tasks",
       .prepare = [](const RayBed& bed,
                     const RayRun& run) { return tasks_at_once(bed, run.tasks, run.tasks, Options{.cpus = 0.25}); }},
      {.name = "single_client_tasks_cold",
       .prepare = [](const RayBed& bed,
                     const RayRun&) { return tasks_in_turn(bed, Options{.cpus = 1, .max_calls = 1}); },
       .needs_processes = true},
      {.name = "single_client_wait_1k_refs",
       .prepare = [](const RayBed& bed, const RayRun&) { return wait_for_thousand(bed); }},
  };
}

// -- calls ----------------------------------------------------------------------------------------

Once calls_in_turn(const RayBed& bed, const char* method) {
  return times(1, [actors = actors_of(bed, 1), method] { (void)check((*actors)[0].call<Small>(method).get()); });
}

Once calls_at_once(const RayBed& bed, const char* method) {
  return times(ray_batch, [actors = actors_of(bed, 1), method] {
    std::vector<Future<Small>> futures;
    futures.reserve(ray_batch);
    for (int i = 0; i < ray_batch; ++i)
      futures.push_back((*actors)[0].call<Small>(method));
    take_all(futures);
  });
}

Once calls_with_numbers(const RayBed& bed) {
  return times(ray_batch, [actors = actors_of(bed, 1)] {
    std::vector<Future<Small>> futures;
    for (int i = 0; i < ray_batch; ++i) {
      Small argument;
      argument.set_n(i);
      futures.push_back((*actors)[0].call<Small>("later_value_arg", argument));
    }
    take_all(futures);
  });
}

constexpr int calls_each = 5'000;

Once calls_of_one_client(const RayBed& bed, const char* method) {
  const auto calls = calls_each * static_cast<int>(servers());
  return times(calls, [called = actors_of(bed, servers()), client = actors_of(bed, 1), calls, method] {
    (void)check((*client)[0].call<Small>("calls_batch", called->batch(calls, method)).get());
  });
}

Once calls_of_tasks(const RayBed& bed, const char* method) {
  constexpr int tasks = 4;
  return times(tasks * calls_each, [&cluster = bed.cluster, called = actors_of(bed, servers()), method] {
    std::vector<Future<Small>> futures;
    for (int i = 0; i < tasks; ++i)
      futures.push_back(cluster.submit<Small>("bench.ray_work", called->batch(calls_each, method), ray_task));
    take_all(futures);
  });
}

Once calls_with_references(const RayBed& bed) {
  return times(ray_batch * static_cast<double>(servers()),
               [called = actors_of(bed, servers()), clients = actors_of(bed, servers())] {
                 std::vector<Future<Small>> futures;
                 for (std::size_t i = 0; i < servers(); ++i) {
                   Batch batch;
                   batch.add_actors((*called)[i].name());
                   batch.set_calls(ray_batch);
                   futures.push_back((*clients)[i].call<Small>("argument_batch", std::move(batch)));
                 }
                 take_all(futures);
               });
}

std::vector<RayRow> call_rows() {
  return {
      {.name = "1_1_actor_calls_sync",
       .prepare = [](const RayBed& bed, const RayRun&) { return calls_in_turn(bed, "small_value"); },
       .floor = RayFloor::one_request,
       .plain = {1 / 1.15, 5},
       .embedded = {1 / 1.3, 40}},
      {.name = "1_1_actor_calls_async",
       .prepare = [](const RayBed& bed, const RayRun&) { return calls_at_once(bed, "small_value"); },
       .floor = RayFloor::many_requests,
       .plain = {0.9, 12}},
      {.name = "1_1_actor_calls_concurrent",
       .prepare = [](const RayBed& bed, const RayRun&) { return calls_at_once(bed, "later_value"); }},
      {.name = "1_n_actor_calls_async",
       .prepare = [](const RayBed& bed, const RayRun&) { return calls_of_one_client(bed, "small_value"); }},
      {.name = "n_n_actor_calls_async",
       .prepare = [](const RayBed& bed, const RayRun&) { return calls_of_tasks(bed, "small_value"); },
       .plain = {0, 5}},
      {.name = "n_n_actor_calls_with_arg_async",
       .prepare = [](const RayBed& bed, const RayRun&) { return calls_with_references(bed); }},
      {.name = "1_1_async_actor_calls_sync",
       .prepare = [](const RayBed& bed, const RayRun&) { return calls_in_turn(bed, "later_value"); },
       .floor = RayFloor::one_request},
      {.name = "1_1_async_actor_calls_async",
       .prepare = [](const RayBed& bed, const RayRun&) { return calls_at_once(bed, "later_value"); },
       .floor = RayFloor::many_requests},
      {.name = "1_1_async_actor_calls_with_args_async",
       .prepare = [](const RayBed& bed, const RayRun&) { return calls_with_numbers(bed); },
       .floor = RayFloor::many_requests},
      {.name = "1_n_async_actor_calls_async",
       .prepare = [](const RayBed& bed, const RayRun&) { return calls_of_one_client(bed, "later_value"); }},
      {.name = "n_n_async_actor_calls_async",
       .prepare = [](const RayBed& bed, const RayRun&) { return calls_of_tasks(bed, "later_value"); }},
  };
}

// -- what is put, reserved, started ---------------------------------------------------------------

const std::vector<std::int64_t>& one_number() {
  static const std::vector<std::int64_t> numbers{0};
  return numbers;
}

Once puts_in_turn(const RayBed& bed) {
  return times(1, [&cluster = bed.cluster] { (void)check(cluster.put(one_number(), {1})); });
}

Once gets_in_turn(const RayBed& bed) {
  auto kept = check(bed.cluster.put(one_number(), {1}));
  return times(1, [&cluster = bed.cluster, kept = std::move(kept)] { (void)check(cluster.get(kept.ref())); });
}

Once puts_of_gigabytes(const RayBed& bed) {
  constexpr auto elements = static_cast<std::int64_t>(put_bytes / sizeof(std::int64_t));
  auto values = std::make_shared<std::vector<std::int64_t>>(static_cast<std::size_t>(elements));
  return times(put_gigabytes, [&cluster = bed.cluster, values] { (void)check(cluster.put(*values, {elements})); });
}

/// Ten tasks that put `count` times `elements` numbers each; counted as `operations`.
Once puts_of_tasks(const RayBed& bed, int count, std::int64_t elements, double operations) {
  return times(operations, [&cluster = bed.cluster, count, elements] {
    constexpr int tasks = 10;
    Puts puts;
    puts.set_count(count);
    puts.set_elements(elements);
    std::vector<Future<Small>> futures;
    for (int i = 0; i < tasks; ++i)
      futures.push_back(cluster.submit<Small>("bench.ray_puts", puts, ray_task));
    take_all(futures);
  });
}

/// As Ray does it: all are asked for, then waited for, then given back.
void make_and_remove_groups(Cluster& cluster, int count) {
  std::vector<Future<PlacementGroup>> made;
  for (int i = 0; i < count; ++i)
    made.push_back(cluster.create_group_async({{.resources = {{"custom", 0.001}}}}));
  std::vector<Future<void>> removed;
  for (auto& group : made)
    removed.push_back(cluster.remove_group_async(check(group.get()).id));
  for (auto& group : removed)
    check(group.get());
}

constexpr int groups_at_once = 100;

Once groups(const RayBed& bed) {
  return times(groups_at_once, [&cluster = bed.cluster] { make_and_remove_groups(cluster, groups_at_once); });
}

/// The same in a cluster of its own whose broker keeps groups in a file.
Once groups_stored(const RayBed& bed) {
  auto stored = std::make_shared<Remote>(RemoteOptions{.tls = bed.mode == "tls", .store = true});
  return times(groups_at_once, [stored] { make_and_remove_groups(stored->cluster(), groups_at_once); });
}

Once spawn_many(const RayBed& bed, const RayRun& run, Isolation isolation) {
  return times(run.actors, [&cluster = bed.cluster, count = static_cast<std::size_t>(run.actors), isolation] {
    Actors actors{cluster, count, {.isolation = isolation}};
    std::vector<Future<Small>> futures;
    for (auto& actor : actors.all())
      futures.push_back(actor.call<Small>("small_value"));
    take_all(futures);
  });
}

std::vector<RayRow> other_rows() {
  constexpr std::int64_t ten_mebi = 10 << 20;
  return {
      {.name = "single_client_put_calls",
       .prepare = [](const RayBed& bed, const RayRun&) { return puts_in_turn(bed); }},
      {.name = "single_client_get_calls",
       .prepare = [](const RayBed& bed, const RayRun&) { return gets_in_turn(bed); }},
      {.name = "multi_client_put_calls",
       .prepare = [](const RayBed& bed, const RayRun&) { return puts_of_tasks(bed, 100, 1, 1'000); }},
      {.name = "single_client_put_gigabytes",
       .prepare = [](const RayBed& bed, const RayRun&) { return puts_of_gigabytes(bed); },
       .floor = RayFloor::memcpy_of_put,
       .plain = {0.6, 1}},
      {.name = "multi_client_put_gigabytes",
       .prepare = [](const RayBed& bed, const RayRun&) { return puts_of_tasks(bed, 10, ten_mebi, 8); }},
      {.name = "placement_group_create/removal",
       .prepare = [](const RayBed& bed, const RayRun&) { return groups(bed); },
       .plain = {0, 50}},
      {.name = "placement_group_create/removal_stored",
       .prepare = [](const RayBed& bed, const RayRun&) { return groups_stored(bed); },
       .peer_name = "placement_group_create/removal",
       .needs_processes = true},
      {.name = "many_actors",
       .prepare = [](const RayBed& bed, const RayRun& run) { return spawn_many(bed, run, Isolation::thread); },
       .plain = {0, 10}},
      {.name = "many_actors_processes",
       .prepare = [](const RayBed& bed, const RayRun& run) { return spawn_many(bed, run, Isolation::process); },
       .peer_name = "many_actors",
       .needs_processes = true},
  };
}

} // namespace

std::vector<RayRow> ray_table() {
  std::vector<RayRow> result;
  for (auto& group : {task_rows(), call_rows(), other_rows()})
    result.insert(result.end(), group.begin(), group.end());
  return result;
}

} // namespace gpuactors::bench
