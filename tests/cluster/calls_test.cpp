// How calls and tasks are counted, as the state tells.
#include "fixtures.hpp"

#include <support/catch.hpp>
#include <support/eventually.hpp>

#include <map>
#include <numeric>
#include <string>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;
using google::protobuf::Empty;

namespace {

/// Counts of one method or task: how many ran, failed and were late.
struct Counts {
  std::uint64_t ran = 0;
  std::uint64_t failed = 0;
  std::uint64_t late = 0;

  friend bool operator==(const Counts&, const Counts&) = default;
};

std::map<std::string, Counts> in_short(const google::protobuf::RepeatedPtrField<v1::CallStats>& all) {
  std::map<std::string, Counts> result;
  for (const auto& stats : all)
    result[stats.name()] = {std::accumulate(stats.ran().begin(), stats.ran().end(), std::uint64_t{0}), stats.failed(),
                            stats.late()};
  return result;
}

std::map<std::string, Counts> methods_of_only_actor(Cluster& cluster) {
  const auto state = must(cluster.state());
  REQUIRE(state.actors_size() == 1);
  return in_short(state.actors(0).methods());
}

std::map<std::string, Counts> tasks(Cluster& cluster) {
  return in_short(must(cluster.state()).nodes(0).tasks());
}

/// Answers at once, later, with errors, and beside other methods.
class Clerk : public Actor {
public:
  explicit Clerk(Init init) : Actor(std::move(init)) {
    // nop
  }

  Result<Number> refuse(const Number& in) {
    if (in.value() < 0)
      throw std::runtime_error("less than zero");
    return fail(Errc::invalid_argument, "no");
  }

  Future<Number> promise(const Empty&) {
    promise_ = Promise<Number>{};
    return promise_.future();
  }

  Number keep(const Number& in) {
    if (in.value() < 0)
      promise_.set(fail(Errc::task_failed, "it came to nothing"));
    else
      promise_.set(in);
    return in;
  }

  Number wait(const Empty&) {
    gate().pass();
    return {};
  }

  Number look(const Empty&) const {
    return {};
  }

private:
  Promise<Number> promise_;
};

std::shared_ptr<const TypeRegistry> clerks() {
  auto registry = std::make_shared<TypeRegistry>();
  define_actor<Clerk>("clerk", *registry)
      .method("refuse", &Clerk::refuse)
      .method("promise", &Clerk::promise)
      .method("keep", &Clerk::keep)
      .method("wait", &Clerk::wait)
      .concurrent_method("look", &Clerk::look);
  define_task(
      "halve",
      [](TaskContext&, const Number& in) -> Result<Number> {
        if (in.value() < 0)
          return fail(Errc::invalid_argument, "less than zero");
        return number(in.value() / 2);
      },
      *registry);
  return registry;
}

Cluster embed_clerks() {
  EmbedOptions options;
  options.devices = "host:1x64MiB";
  options.registry = clerks();
  return must(Cluster::embed(options));
}

} // namespace

TEST_CASE("each call counts for its method, with its outcome", "[cluster]") {
  auto cluster = embed_clerks();
  auto clerk = must(cluster.spawn("clerk"));
  must(clerk.call<Number>("look", Empty{}).get());
  must(clerk.call<Number>("look", Empty{}).get());
  CHECK_FALSE(clerk.call<Number>("refuse", number(1)).get());
  CHECK_FALSE(clerk.call<Number>("refuse", number(-1)).get());
  // What does not exist is not counted.
  CHECK_FALSE(clerk.call<Number>("nothing", Empty{}).get());
  const std::map<std::string, Counts> expected{{"look", {2, 0, 0}}, {"refuse", {2, 2, 0}}};
  CHECK(eventually([&] { return methods_of_only_actor(cluster) == expected; }));
}

TEST_CASE("a call whose answer comes later counts when it comes", "[cluster]") {
  auto cluster = embed_clerks();
  auto clerk = must(cluster.spawn("clerk"));
  auto later = clerk.call<Number>("promise", Empty{});
  must(clerk.call<Number>("keep", number(1)).get());
  must(later.get());
  auto never_kept = clerk.call<Number>("promise", Empty{});
  must(clerk.call<Number>("keep", number(-1)).get());
  CHECK_FALSE(never_kept.get());
  auto open = clerk.call<Number>("promise", Empty{});
  must(clerk.call<Number>("look", Empty{}).get());
  const std::map<std::string, Counts> expected{{"keep", {2, 0, 0}}, {"look", {1, 0, 0}}, {"promise", {2, 1, 0}}};
  CHECK(eventually([&] { return methods_of_only_actor(cluster) == expected; }));
  open.cancel();
}

TEST_CASE("a call whose deadline passes before its turn is late, and did not run", "[cluster]") {
  auto cluster = embed_clerks();
  auto clerk = must(cluster.spawn("clerk"));
  gate().close();
  auto running = clerk.call<Number>("wait", Empty{});
  gate().await(1);
  auto late = clerk.call<Number>("refuse", number(1), 50ms);
  CHECK(late.get().error().code() == Errc::deadline_exceeded);
  gate().open();
  must(running.get());
  const std::map<std::string, Counts> expected{{"refuse", {0, 0, 1}}, {"wait", {1, 0, 0}}};
  CHECK(eventually([&] { return methods_of_only_actor(cluster) == expected; }));
}

TEST_CASE("how long a call waited for its turn is counted, also of one that was late", "[cluster]") {
  auto cluster = embed_clerks();
  auto clerk = must(cluster.spawn("clerk"));
  gate().close();
  auto running = clerk.call<Number>("wait", Empty{});
  gate().await(1);
  auto behind = clerk.call<Number>("keep", number(1));
  auto late = clerk.call<Number>("refuse", number(1), 50ms);
  CHECK(late.get().error().code() == Errc::deadline_exceeded);
  gate().open();
  must(behind.get());
  const std::map<std::string, Counts> ran{{"keep", {1, 0, 0}}, {"refuse", {0, 0, 1}}, {"wait", {1, 0, 0}}};
  REQUIRE(eventually([&] { return methods_of_only_actor(cluster) == ran; }));
  const auto state = must(cluster.state());
  for (const auto& stats : state.actors(0).methods()) {
    CHECK(std::accumulate(stats.waited().begin(), stats.waited().end(), std::uint64_t{0}) == 1);
    // Each of the two has waited for at least the 50 ms of the one that was late.
    CHECK((stats.name() == "wait" || stats.waited_nanoseconds() >= 50'000'000));
  }
}

TEST_CASE("the wait of a task has the wait for its place in it", "[cluster]") {
  auto cluster = embed_clerks();
  auto clerk = must(cluster.spawn("clerk", Empty{}, {.gpus = 1}));
  auto task = cluster.submit<Number>("halve", number(1), {.gpus = 1});
  CHECK_FALSE(task.wait(50ms));
  must(cluster.kill(clerk));
  must(task.get());
  const auto waited = [&] {
    const auto state = must(cluster.state());
    return state.nodes(0).tasks_size() == 1 && state.nodes(0).tasks(0).waited_nanoseconds() >= 50'000'000;
  };
  CHECK(eventually(waited));
}

TEST_CASE("tasks count for their node, over all leases", "[cluster]") {
  auto cluster = embed_clerks();
  must(cluster.submit<Number>("halve", number(1), {.gpus = 0.5}).get());
  must(cluster.submit<Number>("halve", number(1), {.gpus = 0.25}).get());
  CHECK_FALSE(cluster.submit<Number>("halve", number(-1), {.gpus = 0.25}).get());
  const std::map<std::string, Counts> expected{{"halve", {3, 1, 0}}};
  CHECK(eventually([&] { return tasks(cluster) == expected; }));
}
