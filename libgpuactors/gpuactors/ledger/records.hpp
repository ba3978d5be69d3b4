// Records: what the ledger keeps of leases and of placement groups.
#pragma once

#include <gpuactors/ledger/group.hpp>
#include <gpuactors/ledger/lease.hpp>
#include <gpuactors/ledger/pool.hpp>
#include <gpuactors/ledger/wake_index.hpp>

#include <cstddef>
#include <memory>
#include <set>
#include <vector>

namespace gpuactors::ledger_detail {

/// A lease, from its grant until its resources are back at their source: held -> (given back at once) or (ended, while
/// borrowers still hold parts of it) -> gone.
struct LeaseRecord {
  Lease lease;
  /// The source of the resources: a node, a bundle, or the lent pool of another lease.
  Pool* source = nullptr;
  /// The pool that the lease lends to its children; created when first needed.
  std::unique_ptr<Pool> lent;
  /// How many leases hold parts of it.
  std::size_t borrowers = 0;
  bool ended = false;
  /// It was lost with a device, and its holder has not ended yet: the rest of it is kept when its borrowers are gone.
  bool holder_stays = false;
};

/// A bundle of a group that has its place.
struct Bundle {
  BundleGrant grant;
  /// The node's pool.
  Pool* source = nullptr;
  /// The pool from which requests for this bundle draw.
  std::unique_ptr<Pool> pool;

  /// Returns whether a request with this bundle's group may draw from it.
  [[nodiscard]] bool serves(const ResourceRequest& request) const {
    return request.bundle == -1 || request.bundle == grant.bundle;
  }
};

/// A placement group. It waits as long as bundles lack a place: waiting -> placed -> (a bundle lost) waiting -> ... A
/// shrinking group: waiting -> placed -> (its last bundle ended) gone.
struct GroupRecord {
  GroupRequest request;
  QueueKey key;
  /// Whether the group was placed once: it then survives the loss of a bundle.
  bool placed = false;
  /// The bundles that have a place, ordered by number.
  std::vector<Bundle> bundles;
  /// Numbers of the bundles that have ended for good.
  std::set<int> gone;
  /// Leases drawn from the bundles, including ended ones whose parts are still lent.
  std::set<LeaseId> leases;
  /// The number of requests that wait for this group.
  std::size_t waiting = 0;

  /// Bundles have the numbers from 0 to below this.
  [[nodiscard]] int bundle_count() const {
    return static_cast<int>(request.bundles.size());
  }

  /// Returns what is asked for the bundle.
  [[nodiscard]] const ResourceRequest& asked(int number) const {
    return request.bundles[static_cast<std::size_t>(number)];
  }

  [[nodiscard]] const Bundle* find(int number) const {
    for (const auto& bundle : bundles)
      if (bundle.grant.bundle == number)
        return &bundle;
    return nullptr;
  }

  /// Returns whether any bundle waits for a place.
  [[nodiscard]] bool lacks_any() const {
    return bundles.size() + gone.size() < request.bundles.size();
  }

  /// Returns whether the bundle (for -1, any bundle) waits for a place.
  [[nodiscard]] bool lacks(int number) const {
    return number == -1 ? lacks_any() : find(number) == nullptr && gone.count(number) == 0;
  }
};

} // namespace gpuactors::ledger_detail
