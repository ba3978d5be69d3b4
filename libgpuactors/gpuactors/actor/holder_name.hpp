// What holders and their places are called in texts, so that whoever has many actors knows which one an error is about.
#pragma once

#include <gpuactors/actor/lease_info.hpp>
#include <gpuactors/base/ids.hpp>

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

namespace gpuactors::detail {

/// Returns what an actor is called: "actor trainer (Net)"; without a name, "actor 17 (Net)".
[[nodiscard]] inline std::string actor_in_words(std::string_view name, std::string_view type, ActorId id) {
  return name.empty() ? fmt::format("actor {} ({})", id.value(), type) : fmt::format("actor {} ({})", name, type);
}

/// Returns where something is: " on node n1, device 0".
/// @param devices indices on the node.
[[nodiscard]] inline std::string place_in_words(std::string_view node, const std::vector<int>& devices) {
  auto words = node.empty() ? std::string{} : fmt::format(" on node {}", node);
  if (!devices.empty())
    words += fmt::format("{} device{} {}", node.empty() ? " on" : ",", devices.size() > 1 ? "s" : "",
                         fmt::join(devices, ", "));
  return words;
}

[[nodiscard]] inline std::string place_in_words(const LeaseInfo& lease) {
  return place_in_words(lease.node, lease.accelerator_ids("gpus"));
}

/// A holder in the texts of its errors. Made once, so that calls which do not fail need no text.
struct HolderName {
  /// "actor trainer (Net)"; empty for a task, which its caller knows.
  std::string who;
  /// " on node n1, device 0"
  std::string where;

  /// Returns who does something, with the method's or the task's name: "step of actor trainer (Net) on node n1".
  [[nodiscard]] std::string doing(std::string_view what) const {
    return who.empty() ? std::string{what} : fmt::format("{} of {}{}", what, who, where);
  }
};

} // namespace gpuactors::detail
