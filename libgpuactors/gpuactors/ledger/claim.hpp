// Claims: how far those who have waited longest are towards a reservation, and what is reserved for them.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/ledger/pool.hpp>
#include <gpuactors/ledger/wake_index.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gpuactors::ledger_detail {

/// A place held back, for a request or for one bundle of a group.
struct ReservedPlace {
  Fit at;
  Share cpus;
  std::map<std::string, Share> resources;
};

struct Reservation {
  std::vector<ReservedPlace> places;
  TimePoint until;
  /// The group whose bundles contain the places; none if the places are on nodes.
  GroupId group;
};

/// The progress of a priority's oldest blocked request towards a reservation: counting -> reserved -> (served) or
/// counting.
struct Claim {
  QueueKey holder;
  /// When counting began.
  TimePoint since;
  /// Grants behind the holder, since then, that took what it could have used.
  int passes = 0;
  std::optional<Reservation> reservation;
  /// How often a device (pool id, index) was reserved in vain, so that the next attempt looks elsewhere. The index is
  /// -1 for what a pool has besides devices.
  std::map<std::pair<std::uint64_t, int>, int> vain;

  void count_anew(TimePoint now) {
    since = now;
    passes = 0;
  }
};

} // namespace gpuactors::ledger_detail
