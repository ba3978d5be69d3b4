// Which units of a node's accelerators are held by which lease: core 0 by this one, core 1 by that one.
#pragma once

#include <gpuactors/base/ids.hpp>
#include <gpuactors/base/result.hpp>
#include <gpuactors/base/units.hpp>

#include <map>
#include <string>
#include <vector>

namespace gpuactors {

/// Unit numbers by the name of the resource, ascending.
using Instances = std::map<std::string, std::vector<int>>;

/// The units of the resources that are accelerators of a kind without fractions, numbered from 0; other resources have
/// no units to tell apart. A plain value; one thread.
///
/// The ledger decides how many units a lease has, this table which ones: a lease takes the lowest free ones of its
/// node, or of the lease that lends to it, which then shares them. What a lease gives back while others still hold some
/// of it stays with those, and goes back to where the lease had it from.
class InstanceTable {
public:
  explicit InstanceTable(const std::map<std::string, Share>& node_resources);

  /// Assigns units to a lease. @returns `internal` when there are fewer than the ledger has granted.
  Result<Instances> take(LeaseId lease, LeaseId parent, const std::map<std::string, Share>& resources);

  /// Gives back what a lease has; does nothing for one that has none.
  void give_back(LeaseId lease);

  /// The units of the node that no lease has.
  [[nodiscard]] const Instances& free() const noexcept {
    return free_;
  }

private:
  struct Holding {
    /// None when they come from the node.
    LeaseId source;
    /// What it has and has not lent.
    Instances unlent;
  };

  [[nodiscard]] Instances& pool_of(LeaseId source);

  Instances free_;
  std::map<LeaseId, Holding> holdings_;
};

} // namespace gpuactors
