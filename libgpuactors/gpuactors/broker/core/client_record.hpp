// What the broker knows of one client. Internal to the layer.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/contact.hpp>
#include <gpuactors/base/ids.hpp>

#include <cstdint>
#include <optional>
#include <set>
#include <string>

namespace gpuactors {

struct ClientRecord {
  std::string name;
  /// The name in its certificate.
  std::string owner;
  std::string release;
  /// Null while the client is away.
  ContactPtr port;
  /// The number under which its connection is watched.
  std::uint64_t peer = 0;
  /// Leases that the client says it holds.
  std::set<LeaseId> claimed;
  /// How long the client may be away.
  Duration grace{};
  /// It has said goodbye: the end of its connection is its own end.
  bool leaves = false;
  /// Set while the connection is lost: when the client's work is ended.
  std::optional<TimePoint> away_until;
};

} // namespace gpuactors
