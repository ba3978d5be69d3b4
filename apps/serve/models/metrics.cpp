#include "metrics.hpp"

#include <fmt/format.h>

#include <functional>
#include <iterator>
#include <limits>

namespace serve {

namespace {

using Versions = std::vector<DispatcherSnapshot>;

/// Writes families of metrics: a head, then a line for each version.
class Text {
public:
  explicit Text(const Versions& versions) : versions_(versions) {
    // nop
  }

  void family(std::string_view name, std::string_view type, std::string_view help) {
    fmt::format_to(std::back_inserter(text_), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }

  template <class T>
  void line(std::string_view name, const DispatcherSnapshot& version, std::string_view more_labels, T value) {
    fmt::format_to(std::back_inserter(text_), "{}{{model=\"{}\",version=\"{}\"{}}} {}\n", name, version.statistics.name,
                   version.statistics.version, more_labels, value);
  }

  /// A family with one number for each version.
  template <class F>
  void each(std::string_view name, std::string_view type, std::string_view help, F value) {
    family(name, type, help);
    for (const auto& version : versions_)
      line(name, version, "", value(version));
  }

  /// Lines of models, whatever version they have.
  void models(const std::vector<ModelState>& models) {
    constexpr auto name = "gpuactors_serve_model_ready";
    family(name, "gauge", "Whether a model that should serve does");
    for (const auto& model : models)
      fmt::format_to(std::back_inserter(text_), "{}{{model=\"{}\"}} {}\n", name, model.name, model.serves ? 1 : 0);
  }

  std::string take() {
    return std::move(text_);
  }

private:
  const Versions& versions_;
  std::string text_;
};

void write_requests(Text& text, const Versions& versions) {
  text.each("nv_inference_request_success", "counter", "Number of successful inference requests",
            [](const auto& version) { return version.statistics.success.count; });
  text.family("nv_inference_request_failure", "counter", "Number of failed inference requests, by reason");
  for (const auto& version : versions)
    for (const auto* reason : {"REJECTED", "CANCELED", "BACKEND", "OTHER"}) {
      const auto found = version.statistics.failures.find(reason);
      text.line("nv_inference_request_failure", version, fmt::format(",reason=\"{}\"", reason),
                found == version.statistics.failures.end() ? 0 : found->second);
    }
  text.each("nv_inference_count", "counter", "Number of inferences (rows)",
            [](const auto& version) { return version.statistics.inference_count; });
  text.each("nv_inference_exec_count", "counter", "Number of model executions (batches)",
            [](const auto& version) { return version.statistics.execution_count; });
  text.each("nv_inference_pending_request_count", "gauge", "Requests that wait for their batch",
            [](const auto& version) { return version.statistics.pending; });
}

void write_durations(Text& text) {
  const auto duration = [&text](std::string_view part, std::string_view help, Timed ModelStatistics::*member) {
    text.each(fmt::format("nv_inference_{}_duration_us", part), "counter", help,
              [member](const auto& version) { return (version.statistics.*member).nanoseconds / 1'000; });
  };
  duration("request", "Microseconds from arrival to answer, of requests that succeeded", &ModelStatistics::success);
  duration("queue", "Microseconds that requests waited for their batch", &ModelStatistics::queue);
  duration("compute_input", "Microseconds of copying inputs to the device", &ModelStatistics::compute_input);
  duration("compute_infer", "Microseconds of inference", &ModelStatistics::compute_infer);
  duration("compute_output", "Microseconds of copying outputs from the device", &ModelStatistics::compute_output);
}

void write_batches(Text& text, const Versions& versions) {
  constexpr auto name = "gpuactors_serve_batch_size";
  text.family(name, "histogram", "Rows of the batches that were executed");
  for (const auto& version : versions) {
    const auto& statistics = version.statistics;
    std::uint64_t below = 0;
    auto batch = statistics.batches.begin();
    for (std::uint64_t bound = 1; bound < 2 * version.max_batch; bound *= 2) {
      for (; batch != statistics.batches.end() && batch->first <= bound; ++batch)
        below += batch->second.count;
      text.line(fmt::format("{}_bucket", name), version, fmt::format(",le=\"{}\"", bound), below);
    }
    text.line(fmt::format("{}_bucket", name), version, ",le=\"+Inf\"", statistics.execution_count);
    text.line(fmt::format("{}_sum", name), version, "", statistics.inference_count);
    text.line(fmt::format("{}_count", name), version, "", statistics.execution_count);
  }
}

void write_latencies(Text& text, const Versions& versions) {
  const auto histogram = [&](std::string_view part, std::string_view help, Histogram Latencies::*member) {
    const auto name = fmt::format("gpuactors_serve_{}_seconds", part);
    text.family(name, "histogram", help);
    for (const auto& version : versions) {
      if (member == &Latencies::first_item && !version.generative)
        continue;
      const auto& durations = version.latencies.*member;
      for (std::size_t i = 0; i < Histogram::bounds.size(); ++i)
        text.line(name + "_bucket", version, fmt::format(",le=\"{}\"", Histogram::bounds[i]), durations.at_most(i));
      text.line(name + "_bucket", version, ",le=\"+Inf\"", durations.count());
      text.line(name + "_sum", version, "", durations.sum());
      text.line(name + "_count", version, "", durations.count());
    }
  };
  histogram("request", "Seconds from arrival to answer, of requests that succeeded", &Latencies::request);
  histogram("queue", "Seconds that requests that succeeded waited for their batch", &Latencies::queue);
  histogram("infer", "Seconds of inference, of batches; of requests in replicas of generative models",
            &Latencies::infer);
  histogram("first_item", "Seconds from arrival to the first item, of requests to generative models",
            &Latencies::first_item);
}

void write_replicas(Text& text, const Versions& versions) {
  text.each("gpuactors_serve_replicas", "gauge", "Replicas that serve",
            [](const auto& version) { return version.replicas.size(); });
  text.each("gpuactors_serve_replicas_lost", "counter", "Replicas that died and were replaced",
            [](const auto& version) { return version.lost; });
  text.each("gpuactors_serve_replicas_wanted", "gauge", "Replicas that there should be at least",
            [](const auto& version) { return version.wanted_replicas; });
  text.each("gpuactors_serve_starts_failed", "counter", "Starts of replicas that failed, which are repeated",
            [](const auto& version) { return version.failed_starts; });
  text.family("gpuactors_serve_granted_share", "gauge", "Share of a device that a replica was granted");
  for (const auto& version : versions)
    for (const auto& replica : version.replicas)
      text.line("gpuactors_serve_granted_share", version, fmt::format(",replica=\"{}\"", replica.id),
                replica.share.to_double());
  text.family("gpuactors_serve_memory_used_bytes", "gauge", "Device memory that a replica uses");
  for (const auto& version : versions)
    for (const auto& replica : version.replicas)
      text.line("gpuactors_serve_memory_used_bytes", version, fmt::format(",replica=\"{}\"", replica.id),
                replica.memory_used_bytes);
}

void write_streams(Text& text, const Versions& versions) {
  text.family("gpuactors_serve_sequences", "gauge", "Sequences of requests that go on");
  for (const auto& version : versions)
    if (version.sequences)
      text.line("gpuactors_serve_sequences", version, "", *version.sequences);
  text.family("gpuactors_serve_running", "gauge", "Requests that replicas of generative models run");
  for (const auto& version : versions)
    if (version.generative)
      text.line("gpuactors_serve_running", version, "", version.running);
  text.family("gpuactors_serve_items", "counter", "Items of generative models that went to clients");
  for (const auto& version : versions)
    if (version.generative)
      text.line("gpuactors_serve_items", version, "", version.items);
}

void write_refusals(Text& text, const Versions& versions) {
  constexpr auto name = "gpuactors_serve_refused";
  text.family(name, "counter", "Requests that were refused when they came: no room, no answer in time, no replica");
  for (const auto& version : versions) {
    text.line(name, version, ",why=\"full\"", version.counts.refused_full);
    text.line(name, version, ",why=\"late\"", version.counts.refused_late);
    text.line(name, version, ",why=\"no_replica\"", version.refused_without_replica);
  }
  text.each("gpuactors_serve_timed_out", "counter", "Requests whose timeout passed, or would have before their batch",
            [](const auto& version) {
              return version.counts.expired_waiting + version.counts.expired_running + version.counts.dropped;
            });
}

} // namespace

std::string render_metrics(const std::vector<DispatcherSnapshot>& versions, const std::vector<ModelState>& models) {
  Text text{versions};
  text.models(models);
  write_requests(text, versions);
  write_durations(text);
  write_batches(text, versions);
  write_latencies(text, versions);
  write_streams(text, versions);
  write_replicas(text, versions);
  write_refusals(text, versions);
  return text.take();
}

} // namespace serve
