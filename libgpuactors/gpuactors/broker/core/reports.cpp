// Reports of nodes besides leases: usage of holders, saved state of actors. Also checks that the heartbeats of peers
// match.
#include <gpuactors/base/metric_name.hpp>
#include <gpuactors/broker/core/broker_core.hpp>

#include <fmt/format.h>

#include <set>
#include <string_view>
#include <vector>

namespace gpuactors {

namespace {

double seconds(std::int64_t milliseconds) {
  constexpr double in_a_second = 1000;
  return static_cast<double>(milliseconds) / in_a_second;
}

bool is_acceptable(const v1::Metric& metric) {
  const std::vector<double> bounds{metric.bounds().begin(), metric.bounds().end()};
  const bool fits = metric.kind() == v1::Metric::HISTOGRAM
                        ? check_histogram_bounds(metric.name(), bounds)
                              && static_cast<std::size_t>(metric.counts_size()) == bounds.size() + 1
                        : bounds.empty() && metric.counts().empty();
  return fits && check_metric_name(metric.name()) && metric.help().size() <= limits::metric_help_bytes;
}

bool is_acceptable(const v1::CallStats& stats) {
  return !stats.name().empty() && stats.name().size() <= limits::name_length
         && stats.ran_size() == static_cast<int>(limits::call_seconds.size() + 1)
         && stats.waited_size() == stats.ran_size();
}

/// Returns what may stand on a page: a bounded number, each of a form that is known and with a name that no other has.
template <class Message>
google::protobuf::RepeatedPtrField<Message> acceptable(const google::protobuf::RepeatedPtrField<Message>& reported,
                                                       std::size_t most) {
  google::protobuf::RepeatedPtrField<Message> result;
  std::set<std::string_view> names;
  for (const auto& message : reported)
    if (names.size() < most && is_acceptable(message) && names.insert(message.name()).second)
      *result.Add() = message;
  return result;
}

} // namespace

Result<void> BrokerCore::check_pulse(const std::string& who, std::int64_t heartbeat_ms,
                                     std::int64_t link_timeout_ms) const {
  const auto heartbeat = static_cast<std::int64_t>(to_milliseconds(options_.heartbeat));
  const auto timeout = static_cast<std::int64_t>(to_milliseconds(options_.link_timeout));
  if (heartbeat == 0 || heartbeat_ms == 0)
    return {};
  // Each timeout tolerates one late heartbeat.
  if (2 * heartbeat_ms <= timeout && 2 * heartbeat <= link_timeout_ms)
    return {};
  return fail(
      Errc::invalid_argument,
      fmt::format("{} shows every {} s that it is alive and waits {} s for others, the broker {} s and {} s: one "
                  "would take the other for dead. Start both with the same --heartbeat and --link-timeout",
                  who, seconds(heartbeat_ms), seconds(link_timeout_ms), seconds(heartbeat), seconds(timeout)));
}

void BrokerCore::saved(const v1::ActorSaved& message) {
  if (arrivals_.postpone(message))
    return;
  const LeaseId lease{message.lease()};
  auto* const holder = actors_.holder_of(lease);
  auto* const actor = holder != nullptr ? holder : actors_.find(ActorId{message.actor()});
  if (actor == nullptr || message.data().size() > limits::saved_bytes
      || message.type().size() > limits::message_name_bytes)
    return;
  auto& record = *actor;
  // The last state of a life may arrive after the life's end, when its node is back; ids of leases grow.
  const bool is_current =
      record.lease && record.lease->id() == lease.value() && record.lease->epoch() == message.epoch();
  const bool is_last = !record.lease && record.saved_in <= lease;
  if (!is_current && !is_last)
    return;
  record.saved_in = lease;
  record.saved_type = message.type();
  record.saved = message.data();
  keep(record);
}

void BrokerCore::used(const v1::HolderUsage& message) {
  for (const auto& entry : message.entries())
    used(entry);
  if (message.tasks_size() > 0)
    tasks_done(message);
  if (!message.has_certificate())
    return;
  if (message.node().empty())
    certificate_ = message.certificate();
  else if (auto* node = node_of(message))
    node->certificate = message.certificate();
}

NodeRecord* BrokerCore::node_of(const v1::HolderUsage& message) {
  const auto node = nodes_.find(message.node());
  // Another node may ask for the name of one that is there.
  return node != nodes_.end() && node->second.agent_id == message.agent() ? &node->second : nullptr;
}

void BrokerCore::tasks_done(const v1::HolderUsage& message) {
  if (arrivals_.postpone_tasks(message))
    return;
  if (auto* node = node_of(message))
    node->tasks = acceptable(message.tasks(), limits::call_stats_kept);
}

void BrokerCore::used(const v1::HolderUsage::Entry& report) {
  // Nodes send it right after their registration, and then only changes.
  if (arrivals_.postpone(report))
    return;
  auto* const actor = actors_.holder_of(LeaseId{report.lease()});
  if (actor == nullptr || actor->lease->epoch() != report.epoch())
    return;
  auto& usage = actor->usage;
  usage = report;
  *usage.mutable_metrics() = acceptable(report.metrics(), limits::metrics_per_actor);
  *usage.mutable_methods() = acceptable(report.methods(), limits::call_stats_kept);
}

} // namespace gpuactors
