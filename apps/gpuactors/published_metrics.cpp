#include "published_metrics.hpp"

#include <map>

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
  return kind == v1::Metric::COUNTER ? "counter" : "gauge";
}

} // namespace

void write_published(MetricsWriter& out, const v1::ClusterState& state) {
  std::map<std::string_view, std::vector<Published>> families;
  for (const auto& actor : state.actors())
    for (const auto& metric : actor.metrics())
      families[metric.name()].push_back({&actor, &metric});
  for (const auto& [name, family] : families) {
    out.family(name, type_of(family), "Published by actors.");
    for (const auto& [actor, metric] : family)
      out.sample({{"name_space", actor->name_space()},
                  {"actor", actor->name()},
                  {"id", std::to_string(actor->id())},
                  {"type", actor->type()},
                  {"node", actor->lease().node()}},
                 metric->value());
  }
}

} // namespace gpuactors::cli
