// The cluster as the dashboard shows it, computed from one state: totals, the map of devices, what is wrong. All is
// pure; any thread.
#pragma once

#include <gpuactors/gpuactors.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gpuactors::cli::dashboard {

/// The numbers of the first line.
struct Totals {
  std::int64_t devices = 0;
  /// In units of 1/10000 of a device.
  std::int64_t granted_units = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t granted_memory_bytes = 0;
  /// Actors by state.
  std::map<std::string, std::size_t> actors;

  /// Returns how much of all devices is granted; nothing without devices.
  [[nodiscard]] std::optional<double> granted_percent() const;
};

[[nodiscard]] Totals totals_of(const v1::ClusterState& state);

/// Returns the totals in words.
[[nodiscard]] std::string headline(const v1::ClusterState& state, const Totals& totals);

/// Who has a part of a device.
struct Part {
  enum class Kind : std::uint8_t {
    lease,
    /// A bundle of a placement group, with all that runs in it.
    bundle,
    /// More than are told apart, or what is on its way back.
    others,
  };
  Kind kind = Kind::lease;
  std::string name;
  /// More about it; empty for nothing.
  std::string about;
  std::int64_t units = 0;
  std::uint64_t memory_bytes = 0;
};

/// A device and its parts, which together are what is granted of it.
struct DeviceView {
  const v1::DeviceState* state;
  std::vector<Part> parts;
};

struct NodeView {
  const v1::NodeState* state;
  std::vector<DeviceView> devices;
};

/// The most parts of a device that are told apart.
inline constexpr std::size_t most_parts = 12;

/// Returns the nodes with their devices, in the order of the state, which must live as long. What a lease lends to
/// others, and what is in a group, counts as that lease or group.
[[nodiscard]] std::vector<NodeView> nodes_of(const v1::ClusterState& state);

/// Something that an operator should look at.
struct Problem {
  std::string text;
  /// The subcommand that tells more about it.
  std::string command;
};

/// For how long a death or a loss counts as a problem.
inline constexpr std::chrono::minutes recent{10};

/// Returns what is wrong: a state that is not whole, nodes that are away or drained, devices that have failed, quotas
/// that are used up, clients that are away, actors that have died without being told to, and events that tell of
/// trouble.
/// @param events the last ones, the latest last.
[[nodiscard]] std::vector<Problem> problems_of(const v1::ClusterState& state, const std::deque<v1::Event>& events,
                                               std::chrono::system_clock::time_point now);

} // namespace gpuactors::cli::dashboard
