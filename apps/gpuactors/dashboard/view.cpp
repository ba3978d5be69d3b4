#include "view.hpp"

#include "html.hpp"

#include <gpuactors/base/units.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace gpuactors::cli::dashboard {

namespace {

/// The longest name in a title.
constexpr std::size_t longest_name = 120;

/// A device by its node and index.
using Place = std::pair<std::string, std::int32_t>;

/// A bundle by its group and number.
using Bundle = std::pair<std::uint64_t, std::int32_t>;

std::string actors_in_words(const std::map<std::string, std::size_t>& by_state) {
  std::string words;
  for (const auto& [state, count] : by_state)
    words += fmt::format("{}{} {}", words.empty() ? ": " : ", ", count, state);
  return words;
}

std::string counted(std::int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

/// Adds a part to each device that it is on.
void add_parts(std::map<Place, std::vector<Part>>& places, const std::string& node,
               const google::protobuf::RepeatedPtrField<v1::DeviceGrant>& devices, const Part& part) {
  for (const auto& device : devices) {
    auto here = part;
    here.units = device.share_units();
    here.memory_bytes = device.memory_bytes();
    places[{node, device.index()}].push_back(std::move(here));
  }
}

/// How many leases run inside each bundle, and inside each other lease.
struct Inside {
  std::map<Bundle, std::size_t> bundles;
  std::map<std::uint64_t, std::size_t> leases;
};

std::map<Place, std::vector<Part>> parts_of(const v1::ClusterState& state) {
  Inside inside;
  for (const auto& lease : state.leases()) {
    if (lease.parent() != 0)
      ++inside.leases[lease.parent()];
    else if (lease.group() != 0)
      ++inside.bundles[{lease.group(), lease.bundle()}];
  }
  std::map<Place, std::vector<Part>> places;
  for (const auto& group : state.groups())
    for (int number = 0; number < group.bundles_size(); ++number) {
      const auto& bundle = group.bundles(number);
      const auto name = group.name().empty() ? std::to_string(group.id()) : clipped(group.name(), longest_name);
      add_parts(places, bundle.node(), bundle.devices(),
                {Part::Kind::bundle, fmt::format("group {}", name),
                 fmt::format("bundle {}, {} in it", number,
                             counted(static_cast<std::int64_t>(inside.bundles[{group.id(), number}]), "lease"))});
    }
  for (const auto& lease : state.leases())
    if (lease.parent() == 0 && lease.group() == 0) {
      const auto lent = inside.leases.find(lease.id());
      add_parts(places, lease.node(), lease.devices(),
                {Part::Kind::lease, clipped(lease.name(), longest_name),
                 fmt::format("lease {}{}", lease.id(),
                             lent == inside.leases.end() ? "" : fmt::format(", lends to {}", lent->second))});
    }
  return places;
}

/// Joins the parts that are too many, and adds what is granted but nobody's: of a lease that has ended and whose
/// children have not, say. So all parts together are what is granted.
void complete(std::vector<Part>& parts, const v1::DeviceState& device) {
  Part rest{Part::Kind::others, "", "", 0, 0};
  const bool many = parts.size() > most_parts;
  if (many) {
    rest.name = fmt::format("{} more", parts.size() - most_parts + 1);
    for (auto part = parts.begin() + most_parts - 1; part != parts.end(); ++part) {
      rest.units += part->units;
      rest.memory_bytes += part->memory_bytes;
    }
    parts.erase(parts.begin() + most_parts - 1, parts.end());
    parts.push_back(rest);
  }
  std::int64_t units = Share::one - device.free_units();
  auto memory = device.device().memory_bytes() - std::min(device.free_memory_bytes(), device.device().memory_bytes());
  for (const auto& part : parts) {
    units -= part.units;
    memory -= std::min(part.memory_bytes, memory);
  }
  if (units > 0)
    parts.push_back({Part::Kind::others, "others", "what nobody of these holds", units, memory});
}

} // namespace

std::optional<double> Totals::granted_percent() const {
  constexpr double hundred = 100;
  if (devices == 0)
    return std::nullopt;
  return hundred * static_cast<double>(granted_units) / static_cast<double>(devices * Share::one);
}

Totals totals_of(const v1::ClusterState& state) {
  Totals totals;
  totals.devices = state.devices_size();
  for (const auto& device : state.devices()) {
    const auto memory = device.device().memory_bytes();
    totals.granted_units += Share::one - device.free_units();
    totals.memory_bytes += memory;
    totals.granted_memory_bytes += memory - std::min(device.free_memory_bytes(), memory);
  }
  for (const auto& actor : state.actors())
    ++totals.actors[actor.state()];
  return totals;
}

std::string headline(const v1::ClusterState& state, const Totals& totals) {
  if (state.nodes().empty())
    return "No node has joined yet.";
  return fmt::format("{} with {}: {} of {} granted, {} of {} of their memory. {} for resources. {}{}.",
                     counted(state.nodes_size(), "node"), counted(totals.devices, "device"),
                     to_string(Share{totals.granted_units}), totals.devices, format_bytes(totals.granted_memory_bytes),
                     format_bytes(totals.memory_bytes),
                     state.queue().empty() ? "Nothing waits"
                                           : fmt::format("{} wait{}", counted(state.queue_size(), "request"),
                                                         state.queue_size() == 1 ? "s" : ""),
                     counted(state.actors_size(), "actor"), actors_in_words(totals.actors));
}

std::vector<NodeView> nodes_of(const v1::ClusterState& state) {
  auto places = parts_of(state);
  std::vector<NodeView> nodes;
  std::map<std::string_view, std::size_t> numbers;
  for (const auto& node : state.nodes()) {
    numbers.emplace(node.node().name(), nodes.size());
    nodes.push_back({&node, {}});
  }
  for (const auto& device : state.devices())
    if (const auto number = numbers.find(device.node()); number != numbers.end()) {
      auto parts = std::move(places[{device.node(), device.device().index()}]);
      complete(parts, device);
      nodes[number->second].devices.push_back({&device, std::move(parts)});
    }
  return nodes;
}

} // namespace gpuactors::cli::dashboard
