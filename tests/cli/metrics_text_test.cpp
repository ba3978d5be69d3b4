// What Prometheus reads of a state: families, samples, escaped labels.
#include <apps/gpuactors/incomplete.hpp>
#include <apps/gpuactors/metrics_text.hpp>
#include <support/catch.hpp>

#include <cmath>
#include <limits>
#include <set>
#include <sstream>
#include <string>

using namespace gpuactors;
using cli::metrics_text;
using cli::MetricsWriter;

namespace {

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

void publish(v1::ActorInfo& actor, const std::string& name, v1::Metric::Kind kind, double value) {
  auto* metric = actor.add_metrics();
  metric->set_name(name);
  metric->set_kind(kind);
  metric->set_value(value);
}

v1::ClusterState busy_state() {
  v1::ClusterState state;
  state.set_release("1.2.3");
  state.set_started_unix_ns(1'700'000'000'500'000'000);
  state.set_term(1);
  state.mutable_standby()->set_address("10.0.0.2:7711");
  state.mutable_standby()->set_state("following");
  state.mutable_standby()->set_silent_ns(200'000'000);
  auto* node = state.add_nodes();
  node->mutable_node()->set_name("n0");
  node->mutable_node()->set_address("10.0.0.1");
  node->set_state("draining");
  node->set_release("1.2.2");
  node->mutable_certificate()->set_until_unix_s(1'800'000'000);
  (*node->mutable_node()->mutable_resource_units())["host_memory"] = 4096;
  node->set_free_host_memory_bytes(1024);
  auto* device = state.add_devices();
  device->set_node("n0");
  device->mutable_device()->set_index(3);
  device->mutable_device()->set_kind("cuda");
  device->mutable_device()->set_accelerator_type("H100");
  device->mutable_device()->set_uuid("GPU-1");
  device->mutable_device()->set_memory_bytes(std::uint64_t{1} << 36U);
  device->set_free_units(2'500);
  device->set_free_memory_bytes(1'000);
  device->set_state("ok");
  device->add_leases(7);
  device->mutable_use()->set_percent(42);
  device->mutable_use()->set_memory_bytes(123);
  state.add_leases();
  auto* actor = state.add_actors();
  actor->set_name("c0");
  actor->set_type("counter");
  actor->set_state("alive");
  actor->set_restarts(2);
  actor->set_memory_used_bytes(64);
  actor->set_calls(9);
  actor->mutable_lease()->set_node("n0");
  publish(*actor, "loss", v1::Metric::GAUGE, 0.5);
  state.add_actors()->set_state("waiting"); // without a name
  for (const int priority : {5, -1, 5})
    state.add_queue()->set_priority(priority);
  state.add_clients();
  state.add_clients()->set_away(true);
  state.add_groups()->set_state("placed");
  (*state.mutable_counters())["died"] = 3;
  (*state.mutable_counters())["died/worker_died"] = 2;
  (*state.mutable_counters())["died/cancelled"] = 1;
  return state;
}

} // namespace

TEST_CASE("a state's numbers are samples with their labels") {
  const auto text = metrics_text(busy_state());
  CHECK(has_line(text, "gpuactors_broker_info{release=\"1.2.3\"} 1"));
  CHECK(has_line(text, "gpuactors_broker_start_time_seconds 1700000000.5"));
  CHECK(has_line(text, "gpuactors_broker_takeovers 1"));
  CHECK(has_line(text, "gpuactors_standby_state{address=\"10.0.0.2:7711\",state=\"following\"} 1"));
  CHECK(has_line(text, "gpuactors_standby_state{address=\"10.0.0.2:7711\",state=\"away\"} 0"));
  CHECK(has_line(text, "gpuactors_standby_silent_seconds{address=\"10.0.0.2:7711\"} 0.2"));
  CHECK(has_line(text, "gpuactors_nodes{state=\"draining\"} 1"));
  CHECK(has_line(text, "gpuactors_nodes{state=\"ok\"} 0"));
  CHECK(has_line(text, "gpuactors_node_info{node=\"n0\",address=\"10.0.0.1\",release=\"1.2.2\"} 1"));
  CHECK(has_line(text, "gpuactors_node_state{node=\"n0\",state=\"draining\"} 1"));
  CHECK(has_line(text, "gpuactors_node_state{node=\"n0\",state=\"ok\"} 0"));
  CHECK(has_line(text, "gpuactors_certificate_end_timestamp_seconds{process=\"node\",node=\"n0\"} 1800000000"));
  CHECK(text.find("gpuactors_certificate_end_timestamp_seconds{process=\"broker\"") == std::string::npos);
  CHECK(has_line(text, "gpuactors_node_host_memory_bytes{node=\"n0\"} 4096"));
  CHECK(has_line(text, "gpuactors_node_free_host_memory_bytes{node=\"n0\"} 1024"));
  CHECK(has_line(text, "gpuactors_device_free_share{node=\"n0\",device=\"3\"} 0.25"));
  CHECK(has_line(text, "gpuactors_device_memory_bytes{node=\"n0\",device=\"3\"} 68719476736"));
  CHECK(has_line(text, "gpuactors_device_free_memory_bytes{node=\"n0\",device=\"3\"} 1000"));
  CHECK(has_line(text, "gpuactors_device_used_memory_bytes{node=\"n0\",device=\"3\"} 123"));
  CHECK(has_line(text, "gpuactors_device_busy_percent{node=\"n0\",device=\"3\"} 42"));
  CHECK(has_line(text, "gpuactors_device_state{node=\"n0\",device=\"3\",state=\"ok\"} 1"));
  CHECK(has_line(text, "gpuactors_device_state{node=\"n0\",device=\"3\",state=\"failed\"} 0"));
  CHECK(has_line(text, "gpuactors_device_leases{node=\"n0\",device=\"3\"} 1"));
  CHECK(has_line(text, "gpuactors_leases 1"));
  CHECK(has_line(text, "gpuactors_actors{state=\"alive\"} 1"));
  CHECK(has_line(text, "gpuactors_actors{state=\"waiting\"} 1"));
  CHECK(has_line(text, "gpuactors_actor_restarts_total{name_space=\"\",actor=\"c0\"} 2"));
  CHECK(has_line(text, "gpuactors_actor_memory_used_bytes{name_space=\"\",actor=\"c0\"} 64"));
  CHECK(has_line(text, "gpuactors_actor_calls_total{name_space=\"\",actor=\"c0\"} 9"));
  CHECK(has_line(text, "gpuactors_queue_length 3"));
  CHECK(has_line(text, "gpuactors_queue_requests{priority=\"-1\"} 1"));
  CHECK(has_line(text, "gpuactors_queue_requests{priority=\"5\"} 2"));
  CHECK(has_line(text, "gpuactors_clients{state=\"away\"} 1"));
  CHECK(has_line(text, "gpuactors_clients{state=\"connected\"} 1"));
  CHECK(has_line(text, "gpuactors_groups{state=\"placed\"} 1"));
  CHECK(has_line(text, "gpuactors_events_total{kind=\"died\"} 3"));
  CHECK(has_line(text, "gpuactors_actor_deaths_total{kind=\"died\",error=\"worker_died\"} 2"));
  CHECK(has_line(text, "gpuactors_actor_deaths_total{kind=\"died\",error=\"cancelled\"} 1"));
}

TEST_CASE("what has not happened yet counts 0, so that the first time is an increase") {
  const auto text = metrics_text(busy_state());
  CHECK(has_line(text, "gpuactors_events_total{kind=\"node_lost\"} 0"));
  CHECK(has_line(text, "gpuactors_events_total{kind=\"error\"} 0"));
  CHECK(has_line(text, "gpuactors_actor_deaths_total{kind=\"died\",error=\"out_of_memory\"} 0"));
  CHECK(has_line(text, "gpuactors_actor_deaths_total{kind=\"restarting\",error=\"worker_died\"} 0"));
  CHECK_FALSE(has_line(text, "gpuactors_actor_deaths_total{kind=\"died\",error=\"none\"} 0"));
}

TEST_CASE("what is not known has no sample, and an actor without a name none of its own") {
  auto state = busy_state();
  state.mutable_devices(0)->mutable_use()->set_percent(-1);
  CHECK(metrics_text(state).find("gpuactors_device_busy_percent{") == std::string::npos);
  CHECK(metrics_text(state).find("gpuactors_device_used_memory_bytes{") != std::string::npos);
  state.mutable_devices(0)->clear_use();
  CHECK(metrics_text(state).find("gpuactors_device_used_memory_bytes{") == std::string::npos);
  CHECK(metrics_text(state).find("actor=\"\"") == std::string::npos);
}

TEST_CASE("what actors publish is a family for each name, with a sample for each actor that does") {
  v1::ClusterState state;
  for (const auto* name : {"t0", "t1", ""}) {
    auto* actor = state.add_actors();
    actor->set_id(static_cast<std::uint64_t>(state.actors_size()) + 6);
    actor->set_name(name);
    actor->set_name_space("lab");
    actor->set_type("trainer");
    actor->mutable_lease()->set_node("n0");
    publish(*actor, "train_loss", v1::Metric::GAUGE, 0.5 * state.actors_size());
  }
  publish(*state.mutable_actors(1), "train_steps_total", v1::Metric::COUNTER, 40);
  const auto text = metrics_text(state);
  const auto family = text.find("# HELP train_loss Published by actors.\n# TYPE train_loss gauge\n");
  REQUIRE(family != std::string::npos);
  CHECK(text.substr(family)
        == "# HELP train_loss Published by actors.\n# TYPE train_loss gauge\n"
           "train_loss{name_space=\"lab\",actor=\"t0\",id=\"7\",type=\"trainer\",node=\"n0\"} 0.5\n"
           "train_loss{name_space=\"lab\",actor=\"t1\",id=\"8\",type=\"trainer\",node=\"n0\"} 1\n"
           "train_loss{name_space=\"lab\",actor=\"\",id=\"9\",type=\"trainer\",node=\"n0\"} 1.5\n"
           "# HELP train_steps_total Published by actors.\n# TYPE train_steps_total counter\n"
           "train_steps_total{name_space=\"lab\",actor=\"t1\",id=\"8\",type=\"trainer\",node=\"n0\"} 40\n");
}

TEST_CASE("a histogram counts what is at most each bound, and says in words what it is") {
  v1::ClusterState state;
  for (const auto* help : {"", "Rows of a batch."}) {
    auto& actor = *state.add_actors();
    publish(actor, "rows", v1::Metric::HISTOGRAM, 10.5);
    auto& metric = *actor.mutable_metrics(0);
    metric.set_help(help);
    for (const double bound : {0.5, 8.0})
      metric.add_bounds(bound);
    for (const std::uint64_t count : {2U, 3U, 1U})
      metric.add_counts(count);
    actor.set_name(help);
  }
  const auto text = metrics_text(state);
  CHECK(has_line(text, "# HELP rows Rows of a batch."));
  CHECK(has_line(text, "# TYPE rows histogram"));
  const std::string labels = "name_space=\"\",actor=\"\",id=\"0\",type=\"\",node=\"\"";
  CHECK(has_line(text, "rows_bucket{" + labels + ",le=\"0.5\"} 2"));
  CHECK(has_line(text, "rows_bucket{" + labels + ",le=\"8\"} 5"));
  CHECK(has_line(text, "rows_bucket{" + labels + ",le=\"+Inf\"} 6"));
  CHECK(has_line(text, "rows_sum{" + labels + "} 10.5"));
  CHECK(has_line(text, "rows_count{" + labels + "} 6"));
}

TEST_CASE("what has the name of a part of another's histogram is left out") {
  v1::ClusterState state;
  auto& actor = *state.add_actors();
  publish(actor, "rows", v1::Metric::HISTOGRAM, 1);
  actor.mutable_metrics(0)->add_bounds(1);
  actor.mutable_metrics(0)->add_counts(1);
  actor.mutable_metrics(0)->add_counts(0);
  publish(*state.add_actors(), "rows_count", v1::Metric::GAUGE, 7);
  const auto text = metrics_text(state);
  CHECK(text.find("rows_count{") == text.rfind("rows_count{"));
  CHECK(text.find("# TYPE rows_count") == std::string::npos);
}

TEST_CASE("calls of actors with a name and tasks of nodes are histograms in seconds, with failures and lateness") {
  v1::ClusterState state;
  const auto fill = [](v1::CallStats& stats, const std::string& name) {
    stats.set_name(name);
    for (std::size_t i = 0; i <= limits::call_seconds.size(); ++i) {
      stats.add_ran(i < 2 ? 1 : 0);
      stats.add_waited(i == 1 ? 5 : 0);
    }
    stats.set_nanoseconds(1'500'000'000);
    stats.set_waited_nanoseconds(100'000);
    stats.set_failed(2);
    stats.set_late(3);
  };
  auto* actor = state.add_actors();
  actor->set_name("c0");
  actor->set_name_space("lab");
  fill(*actor->add_methods(), "add");
  fill(*state.add_actors()->add_methods(), "of_nobody");
  auto* node = state.add_nodes();
  node->mutable_node()->set_name("n0");
  fill(*node->add_tasks(), "square");
  const auto text = metrics_text(state);
  const std::string of_actor = "{name_space=\"lab\",actor=\"c0\",method=\"add\"";
  CHECK(has_line(text, "# TYPE gpuactors_actor_call_seconds histogram"));
  CHECK(has_line(text, "gpuactors_actor_call_seconds_bucket" + of_actor + ",le=\"1e-05\"} 1"));
  CHECK(has_line(text, "gpuactors_actor_call_seconds_bucket" + of_actor + ",le=\"0.0001\"} 2"));
  CHECK(has_line(text, "gpuactors_actor_call_seconds_bucket" + of_actor + ",le=\"+Inf\"} 2"));
  CHECK(has_line(text, "gpuactors_actor_call_seconds_sum" + of_actor + "} 1.5"));
  CHECK(has_line(text, "gpuactors_actor_call_seconds_count" + of_actor + "} 2"));
  CHECK(has_line(text, "# TYPE gpuactors_actor_call_wait_seconds histogram"));
  CHECK(has_line(text, "gpuactors_actor_call_wait_seconds_bucket" + of_actor + ",le=\"1e-05\"} 0"));
  CHECK(has_line(text, "gpuactors_actor_call_wait_seconds_sum" + of_actor + "} 0.0001"));
  CHECK(has_line(text, "gpuactors_actor_call_wait_seconds_count" + of_actor + "} 5"));
  CHECK(has_line(text, "gpuactors_task_wait_seconds_count{node=\"n0\",task=\"square\"} 5"));
  CHECK(has_line(text, "gpuactors_actor_call_failed_total" + of_actor + "} 2"));
  CHECK(has_line(text, "gpuactors_actor_call_late_total" + of_actor + "} 3"));
  CHECK(has_line(text, "gpuactors_task_seconds_count{node=\"n0\",task=\"square\"} 2"));
  CHECK(has_line(text, "gpuactors_task_failed_total{node=\"n0\",task=\"square\"} 2"));
  CHECK(text.find("of_nobody") == std::string::npos);
}

TEST_CASE("a name under which some publish gauges and others counters is one family, of no type") {
  v1::ClusterState state;
  publish(*state.add_actors(), "a", v1::Metric::GAUGE, 1);
  publish(*state.add_actors(), "a", v1::Metric::COUNTER, 2);
  const auto text = metrics_text(state);
  CHECK(has_line(text, "# TYPE a untyped"));
  CHECK(text.find("# TYPE a ") == text.rfind("# TYPE a "));
}

TEST_CASE("values that are no finite numbers are written as Prometheus reads them") {
  v1::ClusterState state;
  auto* actor = state.add_actors();
  publish(*actor, "a", v1::Metric::GAUGE, std::nan(""));
  publish(*actor, "b", v1::Metric::GAUGE, std::numeric_limits<double>::infinity());
  publish(*actor, "c", v1::Metric::GAUGE, -std::numeric_limits<double>::infinity());
  const std::string labels = "{name_space=\"\",actor=\"\",id=\"0\",type=\"\",node=\"\"} ";
  const auto text = metrics_text(state);
  CHECK(has_line(text, "a" + labels + "NaN"));
  CHECK(has_line(text, "b" + labels + "+Inf"));
  CHECK(has_line(text, "c" + labels + "-Inf"));
}

TEST_CASE("labels are escaped") {
  v1::ClusterState state;
  state.add_nodes()->mutable_node()->set_name("a\\b\"c\nd{}\xC3\xA4");
  CHECK(metrics_text(state).find("gpuactors_node_info{node=\"a\\\\b\\\"c\\nd{}\xC3\xA4\",address=")
        != std::string::npos);
}

TEST_CASE("a help text is on one line") {
  MetricsWriter out;
  out.family("x", "gauge", "a\nb \"c\" \\");
  out.sample({}, 0.1);
  out.sample({}, 1e300);
  CHECK(out.text() == "# HELP x a\\nb \"c\" \\\\\n# TYPE x gauge\nx 0.1\nx 1e+300\n");
}

TEST_CASE("each family is declared once, right before its samples, and no sample comes twice") {
  std::set<std::string> families;
  std::set<std::string> samples;
  std::string current;
  for (std::istringstream lines{metrics_text(busy_state())}; lines.good();) {
    std::string line;
    if (!std::getline(lines, line))
      break;
    if (line.rfind("# HELP ", 0) == 0) {
      current = line.substr(7, line.find(' ', 7) - 7);
      CHECK(families.insert(current).second);
    } else if (line.rfind("# TYPE ", 0) == 0) {
      CHECK(line.substr(7, line.find(' ', 7) - 7) == current);
    } else {
      CHECK(line.substr(0, line.find_first_of("{ ")) == current);
      CHECK(samples.insert(line.substr(0, line.rfind(' '))).second);
    }
  }
  CHECK(samples.size() > 30);
}

TEST_CASE("what an answer had no room for is said, and nothing follows from it") {
  v1::ClusterState state;
  CHECK(cli::incomplete_in_words(state).empty());
  CHECK(has_line(metrics_text(state), R"(gpuactors_state_incomplete{field="actors"} 0)"));
  state.add_incomplete("actors");
  state.add_incomplete("leases");
  CHECK(cli::incomplete_in_words(state)
        == "not all is shown, since it is more than one answer has room for: actors, leases\n");
  const auto text = metrics_text(state);
  CHECK(has_line(text, R"(gpuactors_state_incomplete{field="actors"} 1)"));
  CHECK(has_line(text, R"(gpuactors_state_incomplete{field="nodes"} 0)"));
  CHECK(cli::presence_of(true, state, "actors") == cli::Presence::there);
  CHECK(cli::presence_of(false, state, "actors") == cli::Presence::unknown);
  CHECK(cli::presence_of(false, state, "nodes") == cli::Presence::absent);
}
