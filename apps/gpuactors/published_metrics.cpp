#include "published_metrics.hpp"

#include <gpuactors/base/metric_name.hpp>

#include <map>
#include <set>
#include <string>
#include <utility>

namespace gpuactors::cli {

namespace {

struct Published {
  const v1::ActorInfo* actor;
  const v1::Metric* metric;
};

/// Returns the type that holds for all of them: a family has one.
std::string_view type_of(const std::vector<Published>& family) {
  const auto kind = family.front().metric->kind();
  for (const auto& [actor, metric] : family)
    if (metric->kind() != kind)
      return "untyped";
  switch (kind) {
  case v1::Metric::COUNTER:
    return "counter";
  case v1::Metric::HISTOGRAM:
    return "histogram";
  default:
    return "gauge";
  }
}

/// Returns what the first of them that says anything says it is.
std::string_view help_of(const std::vector<Published>& family) {
  for (const auto& [actor, metric] : family)
    if (!metric->help().empty())
      return metric->help();
  return "Published by actors.";
}

} // namespace

void write_published(MetricsWriter& out, const v1::ClusterState& state) {
  std::map<std::string_view, std::vector<Published>> families;
  for (const auto& actor : state.actors())
    for (const auto& metric : actor.metrics())
      families[metric.name()].push_back({&actor, &metric});
  // One actor cannot have both, but two can: a page with one sample twice would be refused.
  std::set<std::string, std::less<>> parts;
  for (const auto& [name, family] : families)
    if (type_of(family) == "histogram")
      for (auto& part : histogram_parts(name))
        parts.insert(std::move(part));
  for (const auto& [name, family] : families) {
    if (parts.contains(name))
      continue;
    const auto type = type_of(family);
    out.family(name, type, help_of(family));
    for (const auto& [actor, metric] : family) {
      const auto id = std::to_string(actor->id());
      const MetricsWriter::Labels labels{{"name_space", actor->name_space()},
                                         {"actor", actor->name()},
                                         {"id", id},
                                         {"type", actor->type()},
                                         {"node", actor->lease().node()}};
      // Beside metrics of other kinds, of a histogram only its sum has a place.
      if (type == "histogram")
        out.histogram(labels, {metric->bounds().begin(), metric->bounds().end()},
                      {metric->counts().begin(), metric->counts().end()}, metric->value());
      else
        out.sample(labels, metric->value());
    }
  }
}

} // namespace gpuactors::cli
