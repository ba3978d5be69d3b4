// Amounts of countable resources, as messages carry them: a map from names to units of 1/10000.
#pragma once

#include <gpuactors/base/units.hpp>

#include <google/protobuf/map.h>

#include <map>
#include <string>

namespace gpuactors {

using ResourceUnits = google::protobuf::Map<std::string, std::int64_t>;

[[nodiscard]] inline std::map<std::string, Share> from_wire(const ResourceUnits& units) {
  std::map<std::string, Share> resources;
  for (const auto& [name, amount] : units)
    resources.emplace(name, Share{amount});
  return resources;
}

[[nodiscard]] inline ResourceUnits to_wire(const std::map<std::string, Share>& resources) {
  ResourceUnits units;
  for (const auto& [name, amount] : resources)
    units[name] = amount.units();
  return units;
}

} // namespace gpuactors
