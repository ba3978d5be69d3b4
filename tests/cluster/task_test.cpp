#include "fixtures.hpp"

#include <support/catch.hpp>
#include <support/eventually.hpp>

#include <memory>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

TEST_CASE("a task gives its answer to the one who submitted it", "[cluster]") {
  auto cluster = embed();
  auto answer = cluster.submit<Text>("echo", text("hello"), {.gpus = 0.5}).get();
  REQUIRE(answer.has_value());
  CHECK(answer->text() == "hello");
}

TEST_CASE("errors and exceptions of a task reach its caller, and the cluster goes on", "[cluster]") {
  auto cluster = embed();
  const auto refused = cluster.submit<Text>("refuse", text("no room"), {.gpus = 1}).get();
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error() == Error{Errc::out_of_memory, "no room"});
  const auto raised = cluster.submit<Text>("raise", text("boom"), {.gpus = 1}).get();
  REQUIRE_FALSE(raised.has_value());
  CHECK(raised.error() == Error{Errc::task_failed, "raise threw an exception: boom"});
  CHECK(cluster.submit<Text>("echo", text("still here"), {.gpus = 1}).get().has_value());
}

TEST_CASE("a wrong name, message or request is refused with what would be right", "[cluster]") {
  auto cluster = embed();
  const auto error_of = [&](auto future) { return future.get().error(); };
  CHECK(error_of(cluster.submit<Text>("ecko", text("x")))
        == Error{Errc::not_found, "there is no task type \"ecko\"; did you mean \"echo\"?"});
  CHECK(error_of(cluster.submit<Text>("echo", number(1)))
        == Error{Errc::invalid_argument, "task echo takes a gpuactors.test.Text, not a gpuactors.test.Number"});
  CHECK(error_of(cluster.submit<Number>("echo", text("x")))
        == Error{Errc::invalid_argument,
                 "task echo answers with a gpuactors.test.Text, not with a gpuactors.test.Number"});
  CHECK(error_of(cluster.submit<Text>("echo", text("x"), {.gpus = 1.5})).code() == Errc::invalid_argument);
  CHECK(error_of(cluster.submit<Text>("echo", text("x"), {.gpus = -1})).code() == Errc::invalid_argument);
  CHECK(error_of(cluster.submit<Text>("echo", text("x"), {.gpus = 2})).code() == Errc::infeasible);
  CHECK(error_of(cluster.submit<Text>("echo", text("x"), {.node = "elsewhere"})).code() == Errc::infeasible);
  CHECK(cluster.submit<Text>("echo", text("x")).get().has_value());
}

TEST_CASE("a message over the limit is refused, naming put", "[cluster]") {
  auto cluster = embed();
  const auto refused = cluster.submit<Text>("echo", text(std::string(5U << 20, 'x'))).get();
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == Errc::invalid_argument);
  CHECK(refused.error().message().find("Cluster::put") != std::string::npos);
}

TEST_CASE("as many tasks run at once as fit, and the next one when one of them ends", "[cluster]") {
  auto cluster = embed();
  gate().close();
  std::vector<Future<Number>> futures;
  for (int i = 0; i < 4; ++i)
    futures.push_back(cluster.submit<Number>("wait", number(i), {.gpus = 0.3}));
  gate().await(3);
  const auto state = cluster.state();
  REQUIRE(state.has_value());
  CHECK(state->leases_size() == 3);
  CHECK(state->devices(0).free_units() == 1'000);
  gate().open();
  for (int i = 0; i < 4; ++i)
    CHECK(must(futures[static_cast<std::size_t>(i)].get()).value() == i);
}

TEST_CASE("a client runs as many tasks of one shape at once as there is room for, however many", "[cluster]") {
  auto cluster = embed();
  gate().close();
  constexpr int count = 100;
  std::vector<Future<Number>> futures;
  for (int i = 0; i < count; ++i)
    futures.push_back(cluster.submit<Number>("wait", number(i), {.gpus = 0.01}));
  gate().await(count);
  gate().open();
  for (int i = 0; i < count; ++i)
    CHECK(must(futures[static_cast<std::size_t>(i)].get()).value() == i);
}

TEST_CASE("what a task never frees is free before its answer is seen", "[cluster]") {
  auto cluster = embed("host:1x1MiB");
  for (int i = 0; i < 100; ++i) {
    const auto used = cluster.submit<Number>("leak", number(600'000), {.gpus = 1}).get();
    REQUIRE(used.has_value());
    REQUIRE(used->value() < 1 << 20);
  }
}

TEST_CASE("tasks wait for tasks that they submit, to any depth, on one device", "[cluster]") {
  auto cluster = embed();
  const auto depth = cluster.submit<Number>("recurse", number(8), {.gpus = 1}).get();
  REQUIRE(depth.has_value());
  CHECK(depth->value() == 8);
  CHECK(must(cluster.submit<Number>("recurse", number(40)).get()).value() == 40);
}

TEST_CASE("a task that was cancelled before it began does not run, and its future is ready at once", "[cluster]") {
  auto cluster = embed();
  gate().close();
  auto running = cluster.submit<Number>("wait", number(1), {.gpus = 1});
  gate().await(1);
  auto waiting = cluster.submit<Number>("wait", number(2), {.gpus = 1});
  waiting.cancel();
  const auto cancelled = waiting.get();
  REQUIRE_FALSE(cancelled.has_value());
  CHECK(cancelled.error().code() == Errc::cancelled);
  gate().open();
  CHECK(running.get().has_value());
  CHECK(cluster.submit<Text>("echo", text("next"), {.gpus = 1}).get().has_value());
}

TEST_CASE("a deadline fails the caller while the task runs, and the device is free once it has ended", "[cluster]") {
  auto cluster = embed();
  gate().close();
  auto late = cluster.submit<Number>("wait", number(1), {.gpus = 1, .deadline = std::chrono::milliseconds{20}});
  const auto answer = late.get();
  REQUIRE_FALSE(answer.has_value());
  CHECK(answer.error().code() == Errc::deadline_exceeded);
  gate().open();
  CHECK(cluster.submit<Text>("echo", text("next"), {.gpus = 1}).get().has_value());
}

TEST_CASE("a task that waited as long as it may is answered no_capacity", "[cluster]") {
  auto cluster = embed();
  gate().close();
  auto running = cluster.submit<Number>("wait", number(1), {.gpus = 1});
  gate().await(1);
  const auto refused =
      cluster.submit<Number>("wait", number(2), {.gpus = 1, .queue_timeout = std::chrono::milliseconds{20}}).get();
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == Errc::no_capacity);
  gate().open();
  CHECK(running.get().has_value());
}

TEST_CASE("a task that runs again waits no longer in the queue than before", "[cluster]") {
  auto cluster = embed();
  Options options;
  options.gpus = 1;
  options.queue_timeout = 20ms;
  options.max_retries = -1;
  options.retry_errors = {Errc::out_of_memory};
  auto again = cluster.submit<Text>("refuse", text("no room"), options);
  // Gets the device between two of its runs, and keeps it.
  const auto actor = must(cluster.spawn("accumulator", number(0), {.gpus = 1}));
  const auto refused = again.get(30s);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == Errc::no_capacity);
}

TEST_CASE("a task that has given up waiting leaves no request for a lease behind", "[cluster]") {
  auto cluster = embed();
  gate().close();
  auto running = cluster.submit<Number>("wait", number(1), {.gpus = 1});
  gate().await(1);
  std::vector<Future<Number>> late;
  for (int i = 0; i < 100; ++i)
    late.push_back(cluster.submit<Number>("share_of", {}, {.gpus = 1, .queue_timeout = 10ms}));
  for (auto& future : late)
    CHECK(future.get().error().code() == Errc::no_capacity);
  CHECK(eventually([&] { return must(cluster.state()).queue_size() == 0; }));
  auto patient = cluster.submit<Number>("share_of", {}, {.gpus = 1});
  gate().open();
  CHECK(must(running.get()).value() == 1);
  CHECK(must(patient.get()).value() == 1);
}

TEST_CASE("a stream of small tasks does not keep a large one out", "[cluster]") {
  auto cluster = embed();
  // Long enough that no lease is ever idle.
  const auto small = [&] { return cluster.submit<Number>("spin", number(2), {.gpus = 0.5}); };
  std::vector<Future<Number>> stream;
  for (int i = 0; i < 8; ++i)
    stream.push_back(small());
  auto large = cluster.submit<Number>("share_of", {}, {.gpus = 1});
  const auto give_up = Clock::now() + 45s;
  while (!large.ready() && Clock::now() < give_up) {
    for (const auto i : wait(stream, 1, 1s)) {
      CHECK(must(stream[i].get()).value() == 2);
      stream[i] = small();
    }
  }
  REQUIRE(large.ready());
  CHECK(must(large.get()).value() == 1);
  for (auto& future : stream)
    CHECK(future.get().has_value());
}

TEST_CASE("tasks that submit while the cluster is closed get an answer", "[cluster]") {
  for (int round = 0; round < 20; ++round) {
    auto cluster = embed();
    std::vector<Future<Number>> deep;
    for (int i = 0; i < 4; ++i)
      deep.push_back(cluster.submit<Number>("recurse", number(50)));
    deep.front().cancel();
    cluster.close();
    for (auto& future : deep) {
      const auto result = future.get();
      const auto code = result ? Errc::none : result.error().code();
      INFO(to_string(code));
      CHECK((result || code == Errc::cancelled || code == Errc::unavailable || code == Errc::actor_died));
    }
  }
}

TEST_CASE("what only actors have is refused for tasks, and the other way round", "[cluster]") {
  auto cluster = embed();
  const auto of_task = [&](const Options& options) {
    return cluster.submit<Number>("share_of", {}, options).get().error();
  };
  CHECK(of_task({.max_restarts = 1}).message().find("max_retries") != std::string::npos);
  CHECK(of_task({.detached = true}).code() == Errc::invalid_argument);
  CHECK(of_task({.get_if_exists = true}).code() == Errc::invalid_argument);
  CHECK(of_task({.name_space = "a"}).code() == Errc::invalid_argument);
  CHECK(of_task({.max_task_retries = 1}).code() == Errc::invalid_argument);
  CHECK(of_task({.max_retries = -2})
        == Error{Errc::invalid_argument, "max_retries is -2: a number from 0 on is expected, or -1 for always"});
  CHECK(of_task({.max_calls = -1}).code() == Errc::invalid_argument);
  CHECK(of_task({.environment = {{"A", "1"}}}).code() == Errc::unsupported);
  const auto of_actor = [&](const Options& options) {
    return cluster.spawn("accumulator", number(1), options).error();
  };
  CHECK(of_actor({.deadline = 1s}).message().find("spawn_timeout") != std::string::npos);
  CHECK(of_actor({.max_retries = 1}).code() == Errc::invalid_argument);
  CHECK(of_actor({.max_calls = 1}).code() == Errc::invalid_argument);
  CHECK(of_actor({.max_restarts = -2}).code() == Errc::invalid_argument);
  CHECK(of_actor({.max_task_retries = -2}).code() == Errc::invalid_argument);
}

TEST_CASE("wait returns the futures that are ready, at least as many as asked for", "[cluster]") {
  auto cluster = embed();
  gate().close();
  std::vector<Future<Number>> futures;
  futures.push_back(cluster.submit<Number>("wait", number(0), {.gpus = 0.5}));
  gate().await(1);
  CHECK(wait(futures, 1, std::chrono::milliseconds{1}).empty());
  futures.push_back(Future<Number>::ready_with(number(7)));
  CHECK(wait(futures, 1, std::chrono::hours{1}) == std::vector<std::size_t>{1});
  gate().open();
  CHECK(wait(futures, 2, std::chrono::hours{1}) == std::vector<std::size_t>{0, 1});
}

TEST_CASE("then is called once with the answer, away from the thread that runs the task", "[cluster]") {
  auto cluster = embed();
  // Kept by who sets it: this thread may be past its future before that has returned.
  const auto seen = std::make_shared<Promise<std::string>>();
  auto future = seen->future();
  cluster.submit<Text>("echo", text("called"), {.gpus = 1}).then([seen](Result<Text> answer) {
    seen->set(answer->text());
  });
  CHECK(*future.get() == "called");
}

TEST_CASE("ten thousand tasks of two shapes all come back, and nothing is held at the end", "[cluster]") {
  auto cluster = embed("host:2x64MiB");
  std::vector<Future<Text>> futures;
  for (int i = 0; i < 10'000; ++i)
    futures.push_back(cluster.submit<Text>("echo", text(std::to_string(i)), {.gpus = i % 2 == 0 ? 0.25 : 1.0}));
  for (int i = 0; i < 10'000; ++i) {
    auto answer = futures[static_cast<std::size_t>(i)].get();
    REQUIRE(answer.has_value());
    REQUIRE(answer->text() == std::to_string(i));
  }
  // Idle leases go back by themselves; a whole-node request has them all called in.
  CHECK(cluster.submit<Text>("echo", text("all"), {.gpus = 2}).get().has_value());
}

TEST_CASE("after the cluster is closed everything fails with unavailable", "[cluster]") {
  auto cluster = embed();
  gate().close();
  gate().open();
  cluster.close();
  CHECK(cluster.submit<Text>("echo", text("x")).get().error().code() == Errc::unavailable);
  CHECK(cluster.state().error().code() == Errc::unavailable);
}

TEST_CASE("a task may answer with a stream, which waits for its reader", "[cluster]") {
  auto cluster = embed();
  auto items = cluster.stream<Number>("count", number(1000));
  for (int i = 0; i < 1000; ++i) {
    const auto item = items.next();
    REQUIRE(item.has_value());
    REQUIRE(item->has_value());
    CHECK((*item)->value() == i);
  }
  const auto end = items.next();
  REQUIRE(end.has_value());
  CHECK_FALSE(end->has_value());
}

TEST_CASE("dropping the reader of a task's stream ends the task, and its lease is free", "[cluster]") {
  auto cluster = embed();
  {
    auto items = cluster.stream<Number>("count", number(1e9), {.gpus = 1});
    REQUIRE(items.next().has_value());
  }
  CHECK(cluster.submit<Text>("echo", text("next"), {.gpus = 1}).get(std::chrono::seconds{60}).has_value());
}

TEST_CASE("a stream is refused where one message is answered, and the other way round", "[cluster]") {
  auto cluster = embed();
  CHECK(cluster.stream<Text>("echo", text("x")).next().error().code() == Errc::invalid_argument);
  CHECK(cluster.submit<Number>("count", number(1)).get().error().code() == Errc::invalid_argument);
}

TEST_CASE("a type's own needs hold where a request names none", "[cluster]") {
  auto cluster = embed();
  CHECK(must(cluster.submit<Number>("share_of").get()).value() == 0.25);
  CHECK(must(cluster.submit<Number>("share_of", {}, {.gpus = 0.5}).get()).value() == 0.5);
  CHECK(must(cluster.submit<Number>("share_of", {}, {.memory_bytes = 1}).get()).value() == 0.0001);
  const auto actor = cluster.spawn("half");
  REQUIRE(actor.has_value());
  CHECK(actor->info().lease().devices(0).share_units() == 5000);
}

TEST_CASE("needs that break the rules of shares are reported when a cluster opens", "[cluster]") {
  auto registry = std::make_shared<TypeRegistry>();
  define_task(
      "greedy", [](TaskContext&, const Text& in) { return in; }, *registry)
      .needs({.gpus = 1.5});
  EmbedOptions options;
  options.registry = registry;
  const auto refused = Cluster::embed(std::move(options));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == Errc::invalid_argument);
  CHECK(refused.error().message().find("task type greedy") != std::string::npos);
}
