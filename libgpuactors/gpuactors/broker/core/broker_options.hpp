// BrokerOptions: what a broker is started with.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/units.hpp>
#include <gpuactors/broker/core/desired_state.hpp>

#include <cstdint>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>

namespace gpuactors {

struct BrokerOptions {
  /// Receives the calls to the broker's ledger as a scenario for `run_plan`; null: nothing is recorded. Not with
  /// `settle`: scenarios expect no nodes.
  std::shared_ptr<std::ostream> recording{};
  /// The broker issues only ids above this, so that none collides with a lease or actor of an earlier broker.
  std::uint64_t last_id = 0;
  /// How long the broker waits after its start for the nodes and clients of an earlier broker to return. Until then,
  /// requests that no node can satisfy wait, and the work of clients that have not returned continues.
  Duration settle{};
  /// State that survives restarts: actors that are named, detached or may be restarted, placement groups, drained
  /// nodes; null: a restarted broker knows only what its nodes report.
  std::shared_ptr<DesiredState> store{};
  /// Heartbeat interval and link timeout of the broker's process. Nodes and clients in other processes must use
  /// compatible values; zero: all of them are in this process.
  Duration heartbeat{};
  Duration link_timeout{};
  /// How often a broker that stood by has taken over this cluster.
  std::uint64_t term = 0;
  /// Tells its state apart from those of other clusters, as the store says.
  std::string lineage{};
  /// The broker in whose place this one serves, and why; empty: none.
  std::string taken_from{};
  std::string taken_why{};
  /// Where the broker listens that stood by for this one, or for which this one did; empty: none.
  std::string other{};
  /// When it began to serve, in nanoseconds since 1970.
  std::int64_t since_unix_ns = 0;
  /// Quotas by owner, set at the start: they replace those of the store, which keeps them. Each as
  /// `Ledger::set_quota` permits.
  std::map<std::string, Share> quotas{};
};

} // namespace gpuactors
