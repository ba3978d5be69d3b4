// InstanceTable: which lease holds which units of a node's accelerators, such as core 0 or core 1.
#pragma once

#include <gpuactors/base/ids.hpp>
#include <gpuactors/base/result.hpp>
#include <gpuactors/base/units.hpp>
#include <gpuactors/v1/control.pb.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gpuactors {

/// Unit numbers by the name of the resource, ascending.
using Instances = std::map<std::string, std::vector<int>>;

/// The units of the resources that are accelerators of a kind without fractions, numbered from 0; other resources have
/// no units to tell apart. A plain value; one thread.
///
/// The ledger decides how many units a lease has, this table which ones: a lease takes the lowest free units of its
/// node, or of its parent lease, which then shares them. When a lease ends before its borrowers, the borrowed units
/// stay with them, and later go back to where that lease had them from.
class InstanceTable {
public:
  explicit InstanceTable(const std::map<std::string, Share>& node_resources);

  /// Assigns units to a lease. @returns `internal` when there are fewer than the ledger has granted.
  Result<Instances> take(LeaseId lease, LeaseId parent, const std::map<std::string, Share>& resources);

  /// Gives back the units of a lease; no effect for a lease without units.
  void give_back(LeaseId lease);

  /// The units of the node that no lease has.
  [[nodiscard]] const Instances& free() const noexcept {
    return free_;
  }

private:
  struct Holding {
    /// The lease that lent the units; null if they come from the node.
    LeaseId source;
    /// Units that the lease holds and has not lent.
    Instances unlent;
  };

  [[nodiscard]] Instances& pool_of(LeaseId source);

  Instances free_;
  std::map<LeaseId, Holding> holdings_;
};

/// Takes accelerator units for a lease and writes them into it.
/// @returns the report for the broker if there are too few, otherwise nothing.
[[nodiscard]] std::optional<v1::LeaseEnded> take_units(InstanceTable& instances, v1::Lease& lease);

} // namespace gpuactors
