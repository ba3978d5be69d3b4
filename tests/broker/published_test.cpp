// The broker and what actors publish.
#include "core_scene.hpp"
#include "memory_store.hpp"

#include <cmath>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

using namespace broker_test;

namespace {

void add_metric(v1::HolderUsage::Entry& entry, const std::string& name, double value,
                v1::Metric::Kind kind = v1::Metric::GAUGE) {
  auto* metric = entry.add_metrics();
  metric->set_name(name);
  metric->set_kind(kind);
  metric->set_value(value);
}

v1::HolderUsage::Entry use_of(const v1::StartActor& order) {
  v1::HolderUsage::Entry entry;
  entry.set_lease(order.lease().id());
  entry.set_epoch(order.lease().epoch());
  return entry;
}

void report(Scene& scene, const v1::HolderUsage::Entry& entry) {
  v1::HolderUsage message;
  *message.add_entries() = entry;
  scene.core.used(message);
}

void add_stats(google::protobuf::RepeatedPtrField<v1::CallStats>& to, const std::string& name, std::uint64_t ran,
               int bounds = static_cast<int>(limits::call_seconds.size())) {
  auto& stats = *to.Add();
  stats.set_name(name);
  stats.add_ran(ran);
  for (int i = 0; i < bounds; ++i)
    stats.add_ran(0);
  *stats.mutable_waited() = stats.ran();
}

void report_tasks(Scene& scene, const std::string& node,
                  const std::vector<std::pair<std::string, std::uint64_t>>& tasks, std::uint64_t agent = 7) {
  v1::HolderUsage message;
  message.set_node(node);
  message.set_agent(agent);
  for (const auto& [name, ran] : tasks)
    add_stats(*message.mutable_tasks(), name, ran);
  scene.core.used(message);
}

/// "name=ran" of each, in their order.
std::string in_words(const google::protobuf::RepeatedPtrField<v1::CallStats>& all) {
  std::string result;
  for (const auto& stats : all)
    result += (result.empty() ? "" : " ") + stats.name() + "=" + std::to_string(stats.ran(0));
  return result;
}

/// What the only actor publishes, "name=value" in the order of the reports.
std::string published(const Scene& scene) {
  const auto state = scene.core.state({});
  REQUIRE(state.actors_size() == 1);
  std::string result;
  for (const auto& metric : state.actors(0).metrics())
    result += (result.empty() ? "" : " ") + metric.name() + "=" + std::to_string(std::lround(metric.value()));
  return result;
}

void end(Scene& scene, const v1::StartActor& order) {
  v1::LeaseEnded message;
  message.set_lease(order.lease().id());
  message.set_epoch(order.lease().epoch());
  message.set_error(static_cast<std::uint32_t>(Errc::worker_died));
  scene.core.lease_ended(message);
}

} // namespace

TEST_CASE("what an actor publishes is what its last report says, however often it comes", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node();
  const auto order = scene.spawn(1, "a");
  CHECK(published(scene).empty());
  auto entry = use_of(order);
  add_metric(entry, "loss", 3);
  add_metric(entry, "steps", 7, v1::Metric::COUNTER);
  for (int i = 0; i < 3; ++i)
    report(scene, entry);
  CHECK(published(scene) == "loss=3 steps=7");
  CHECK(scene.core.state({}).actors(0).metrics(1).kind() == v1::Metric::COUNTER);

  // One report was lost in between.
  auto later = use_of(order);
  add_metric(later, "steps", 20, v1::Metric::COUNTER);
  report(scene, later);
  CHECK(published(scene) == "steps=20");
}

TEST_CASE("a new life begins without metrics, and late reports of the one before are not its own", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node();
  const auto first = scene.spawn(1, "a", {}, 1);
  auto entry = use_of(first);
  add_metric(entry, "steps", 7);
  report(scene, entry);
  end(scene, first);
  CHECK(published(scene).empty());
  report(scene, entry);
  CHECK(published(scene).empty());
  REQUIRE(scene.world.starts.size() == 2);
  const auto second = scene.world.starts.back();
  scene.start(second);
  report(scene, entry);
  CHECK(published(scene).empty());

  // What it published last is in the list of those that have ended.
  auto last = use_of(second);
  add_metric(last, "steps", 1);
  report(scene, last);
  end(scene, second);
  v1::GetState message;
  message.set_ended(1);
  const auto state = scene.core.state(message);
  REQUIRE(state.ended_size() == 1);
  REQUIRE(state.ended(0).actor().metrics_size() == 1);
  CHECK(state.ended(0).actor().metrics(0).value() == 1);
}

TEST_CASE("a broker that starts again knows what actors publish from their nodes", "[broker][core]") {
  Scene earlier;
  earlier.greet(1);
  earlier.add_node();
  const auto order = earlier.spawn(1, "a");
  auto entry = use_of(order);
  add_metric(entry, "steps", 7, v1::Metric::COUNTER);

  Scene later{{.last_id = 1'000, .settle = 5s}};
  later.add_node({begun(order)});
  CHECK(published(later).empty());
  report(later, entry);
  CHECK(published(later) == "steps=7");
}

TEST_CASE("what a node reports while it waits to be admitted is not lost", "[broker][core]") {
  const auto store = std::make_shared<MemoryStore>();
  v1::StartActor order;
  {
    Scene earlier{{.store = store}};
    earlier.greet(1);
    earlier.add_node();
    earlier.add_node("n1", 8);
    v1::SubmitGroup group;
    group.set_client(1);
    group.set_client_request(++earlier.last_request);
    group.set_strategy(v1::SubmitGroup::STRICT_SPREAD);
    group.set_detached(true);
    for (int i = 0; i < 2; ++i)
      group.add_bundles()->set_cpu_units(10'000);
    std::uint64_t placed = 0;
    earlier.core.submit_group(
        group, {}, BrokerAnswer<v1::GroupInfo>{[&](const Result<v1::GroupInfo>& info) { placed = must(info).id(); }});
    REQUIRE(placed != 0);
    auto actor = Scene::actor_of(1, "a");
    actor.mutable_request()->set_node("n0");
    order = earlier.spawn(actor);
    earlier.run(1s);
  }
  Scene later{{.last_id = 1'000, .settle = 5s, .store = store}};
  // A part of the group is on the other node, which may still come.
  later.add_node({held_by(order)});
  auto entry = use_of(order);
  entry.set_calls(3);
  add_metric(entry, "steps", 7);
  report(later, entry);
  report_tasks(later, "n0", {{"square", 5}});
  CHECK(later.core.state({}).nodes_size() == 0);
  later.add_node("n1", 8);
  REQUIRE(later.core.state({}).nodes_size() == 2);
  CHECK(published(later) == "steps=7");
  CHECK(later.core.state({}).actors(0).calls() == 3);
  CHECK(in_words(later.core.state({}).nodes(0).tasks()) == "square=5");
}

TEST_CASE("only so many metrics with names of their own that may stand on a page are taken", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node();
  auto entry = use_of(scene.spawn(1, "a"));
  for (const auto* name : {"a", "a", "b c", "x{} 1\ngpuactors_up", "gpuactors_up", "d"})
    add_metric(entry, name, 1);
  report(scene, entry);
  CHECK(published(scene) == "a=1 d=1");
  for (std::size_t i = 0; i < 2 * limits::metrics_per_actor; ++i)
    add_metric(entry, "m" + std::to_string(i), 1);
  report(scene, entry);
  CHECK(scene.core.state({}).actors(0).metrics_size() == limits::metrics_per_actor);
}

TEST_CASE("the state fits on a link, however much actors publish", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node();
  v1::HolderUsage::Entry full;
  for (std::size_t i = 0; i < limits::metrics_per_actor; ++i) {
    const auto number = std::to_string(i);
    add_metric(full, std::string(limits::metric_name_length - number.size(), 'a') + number, 1);
  }
  constexpr int count = 3'000;
  for (int i = 0; i < count; ++i) {
    auto entry = full;
    const auto use = use_of(scene.spawn(1, "a" + std::to_string(i)));
    entry.set_lease(use.lease());
    entry.set_epoch(use.epoch());
    report(scene, entry);
  }
  const auto state = scene.core.state({});
  CHECK(state.actors_size() == count);
  CHECK(state.actors(0).metrics_size() == limits::metrics_per_actor);
  CHECK(state.actors(count - 1).metrics_size() == 0);
  CHECK(state.ByteSizeLong() < 2 * limits::metrics_in_state_bytes);
}

TEST_CASE("how the methods of an actor went begins anew with each life", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node();
  const auto order = scene.spawn(1, "a", {}, 1);
  auto entry = use_of(order);
  add_stats(*entry.mutable_methods(), "add", 3);
  add_stats(*entry.mutable_methods(), "sub", 1);
  report(scene, entry);
  CHECK(in_words(scene.core.state({}).actors(0).methods()) == "add=3 sub=1");
  end(scene, order);
  CHECK(scene.core.state({}).actors(0).methods().empty());
}

TEST_CASE("how the tasks of a node went is what its last report says, and ends with the node", "[broker][core]") {
  Scene scene;
  scene.add_node();
  scene.add_node("n1", 8);
  report_tasks(scene, "n0", {{"square", 3}});
  report_tasks(scene, "n1", {{"square", 1}}, 8);
  report_tasks(scene, "n0", {{"square", 7}, {"cube", 1}});
  report_tasks(scene, "n2", {{"square", 1}});
  const auto state = scene.core.state({});
  REQUIRE(state.nodes_size() == 2);
  CHECK(in_words(state.nodes(0).tasks()) == "square=7 cube=1");
  CHECK(in_words(state.nodes(1).tasks()) == "square=1");
  // Reports about holders alone say nothing of tasks.
  v1::HolderUsage other;
  other.set_node("n0");
  scene.core.used(other);
  CHECK(in_words(scene.core.state({}).nodes(0).tasks()) == "square=7 cube=1");
}

TEST_CASE("counts of a form that is not known, or without a name, are not taken", "[broker][core]") {
  Scene scene;
  scene.add_node();
  v1::HolderUsage message;
  message.set_node("n0");
  message.set_agent(7);
  add_stats(*message.mutable_tasks(), "a", 1);
  add_stats(*message.mutable_tasks(), "a", 2);
  add_stats(*message.mutable_tasks(), "", 1);
  add_stats(*message.mutable_tasks(), std::string(limits::name_length + 1, 'a'), 1);
  add_stats(*message.mutable_tasks(), "short", 1, static_cast<int>(limits::call_seconds.size()) - 1);
  add_stats(*message.mutable_tasks(), "long", 1, static_cast<int>(limits::call_seconds.size()) + 1);
  add_stats(*message.mutable_tasks(), "b", 4);
  scene.core.used(message);
  CHECK(in_words(scene.core.state({}).nodes(0).tasks()) == "a=1 b=4");
}

TEST_CASE("the tasks of another node that asks for a name are not those of the node that has it", "[broker][core]") {
  Scene scene;
  scene.add_node("n0", 7);
  report_tasks(scene, "n0", {{"square", 3}}, 7);
  report_tasks(scene, "n0", {{"square", 1}}, 8);
  CHECK(in_words(scene.core.state({}).nodes(0).tasks()) == "square=3");
}

TEST_CASE("a histogram has one count more than bounds, which rise, and other metrics have none", "[broker][core]") {
  Scene scene;
  scene.greet(1);
  scene.add_node();
  auto entry = use_of(scene.spawn(1, "a"));
  for (const auto& [name, kind, bounds, counts] :
       {std::tuple{"good", v1::Metric::HISTOGRAM, 2, 3}, std::tuple{"few", v1::Metric::HISTOGRAM, 2, 2},
        std::tuple{"many", v1::Metric::HISTOGRAM, static_cast<int>(limits::histogram_bounds) + 1,
                   static_cast<int>(limits::histogram_bounds) + 2},
        std::tuple{"gauge", v1::Metric::GAUGE, 0, 1}, std::tuple{"bounded", v1::Metric::GAUGE, 1, 0},
        std::tuple{"level", v1::Metric::HISTOGRAM, 2, 3}}) {
    add_metric(entry, name, 1, kind);
    auto& metric = *entry.mutable_metrics(entry.metrics_size() - 1);
    for (int i = 0; i < bounds; ++i)
      metric.add_bounds(name == std::string{"level"} ? 1 : i);
    for (int i = 0; i < counts; ++i)
      metric.add_counts(1);
  }
  add_metric(entry, "wordy", 1);
  entry.mutable_metrics(entry.metrics_size() - 1)->set_help(std::string(limits::metric_help_bytes + 1, 'a'));
  report(scene, entry);
  CHECK(published(scene) == "good=1");
}

// -- certificates ----------------------------------------------------------------------------------

TEST_CASE("the state says when the certificates of broker and nodes end, as their processes told last") {
  Scene scene;
  scene.add_node();
  const auto until = [&](const std::string& node, std::uint64_t agent, std::int64_t unix_s) {
    v1::HolderUsage message;
    message.set_node(node);
    message.set_agent(agent);
    message.mutable_certificate()->set_until_unix_s(unix_s);
    scene.core.used(message);
  };
  const auto of_node = [&] { return scene.core.state({}).nodes(0).certificate().until_unix_s(); };
  CHECK(scene.core.state({}).certificate().until_unix_s() == 0);
  CHECK(of_node() == 0);
  until("", 0, 1'900'000'000);
  CHECK(scene.core.state({}).certificate().until_unix_s() == 1'900'000'000);
  CHECK(of_node() == 0);
  until("n0", 7, 1'800'000'000);
  CHECK(of_node() == 1'800'000'000);
  // Reports without it, of another agent, and of a node that is not there change nothing.
  report_tasks(scene, "n0", {{"a", 1}});
  until("n0", 8, 1);
  until("n1", 7, 1);
  CHECK(of_node() == 1'800'000'000);
  CHECK(scene.core.state({}).certificate().until_unix_s() == 1'900'000'000);
}

TEST_CASE("a node says with its registration when its certificate ends") {
  Scene scene;
  v1::RegisterNode message;
  message.mutable_node()->set_name("n0");
  message.mutable_node()->set_cpu_units(100'000);
  message.set_agent(7);
  for (const std::int64_t until : {1'800'000'000, 1'900'000'000}) {
    message.mutable_certificate()->set_until_unix_s(until);
    scene.core.add_node(message, std::make_shared<Somebody>(),
                        BrokerAnswer<void>{[](const Result<void>& done) { must(done); }});
    CHECK(scene.core.state({}).nodes(0).certificate().until_unix_s() == until);
  }
}
