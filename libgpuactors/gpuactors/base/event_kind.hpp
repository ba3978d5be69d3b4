// EventKind: what an event in the broker's log is about, and its name.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpuactors {

/// What an event in the broker's log is about. Programs see the name (`v1::Event::kind`): never change one, only add.
enum class EventKind : std::uint8_t {
  // of requests and leases
  granted,
  pending,
  infeasible,
  rejected,
  released,
  lost,
  /// A node has reported a lease that the broker did not know.
  adopted,
  // of actors
  spawned,
  restarting,
  died,
  moving,
  /// A method does not return, and cannot be ended.
  stuck,
  // of nodes
  node_added,
  node_returned,
  /// The node is gone without having announced it.
  node_lost,
  /// The node is gone because it was stopped.
  node_left,
  /// The node's connection was lost because the broker stood still; the node has time to return.
  node_away,
  node_drained,
  node_resumed,
  node_empty,
  device_failed,
  // of clients
  client_away,
  client_returned,
  // of the broker itself
  error,
  stood_still,
  quota_set,
  /// The node has reloaded its programs, which may have changed.
  node_renewed,
  /// A broker stands by for this one, or does so at another address.
  standby,
  /// A worker process was ended for the host memory that it used.
  out_of_memory,
};

/// The names of all kinds, in the order of `EventKind`.
inline constexpr std::array<std::string_view, 29> event_kind_names{
    "granted",      "pending",       "infeasible",    "rejected",    "released",        "lost",
    "adopted",      "spawned",       "restarting",    "died",        "moving",          "stuck",
    "node_added",   "node_returned", "node_lost",     "node_left",   "node_away",       "node_drained",
    "node_resumed", "node_empty",    "device_failed", "client_away", "client_returned", "error",
    "stood_still",  "quota_set",     "node_renewed",  "standby",     "out_of_memory"};

static_assert(event_kind_names.size() == static_cast<std::size_t>(EventKind::out_of_memory) + 1);

/// Returns the kind's name as spelled in the source. Any thread.
[[nodiscard]] constexpr std::string_view to_string(EventKind kind) noexcept {
  return event_kind_names[static_cast<std::size_t>(kind)];
}

} // namespace gpuactors
