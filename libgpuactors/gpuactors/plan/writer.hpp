// Writes what the ledger answers as JSON lines. Shares are exact decimals, bytes are strings.
#pragma once

#include <gpuactors/ledger/event.hpp>
#include <gpuactors/ledger/view.hpp>

#include <functional>
#include <iosfwd>
#include <string>

namespace gpuactors::plan_detail {

/// The names that a scenario gave to requests and groups.
struct Names {
  std::function<std::string(LeaseId)> of_lease;
  std::function<std::string(GroupId)> of_group;
  std::function<std::string(const PendingView&)> of_pending;
};

/// Writes one event as one line.
void write_event(std::ostream& out, std::size_t step, const Event& event, const std::string& id);

/// Writes the line with the final state.
void write_final(std::ostream& out, const std::vector<NodeView>& nodes, const std::vector<PendingView>& pending,
                 const Names& names);

} // namespace gpuactors::plan_detail
