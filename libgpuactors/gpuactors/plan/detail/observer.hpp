// Observers of a scenario while it runs: they write its lines, explanations, tables and pictures.
#pragma once

#include <gpuactors/ledger/ledger.hpp>

#include <functional>
#include <string>

namespace gpuactors::plan_detail {

/// The names that a scenario gave to requests and groups that wait or hold something.
struct Names {
  std::function<std::string(RequestId)> of_request;
  std::function<std::string(GroupId)> of_group;

  [[nodiscard]] std::string of_lease(const Ledger& ledger, LeaseId id) const {
    return of_request(ledger.find_lease(id)->request);
  }

  [[nodiscard]] std::string of_pending(const PendingView& waiting) const {
    return waiting.request ? of_request(waiting.request) : of_group(waiting.group);
  }
};

enum class NodeChange : std::uint8_t { added, removed, drained, undrained, device_failed };

/// Called in the order of the steps; one thread. Must not refer to the arguments of a call after it.
class Observer {
public:
  virtual ~Observer() = default;

  /// Called before a request that keeps the rules is submitted to the ledger.
  virtual void before_submit(const Ledger&, std::size_t /*step*/, const std::string& /*id*/, const ResourceRequest&) {
    // nop
  }

  /// Called before a placement group that keeps the rules is submitted to the ledger.
  virtual void before_submit_group(const Ledger&, std::size_t /*step*/, const std::string& /*id*/,
                                   const GroupRequest&) {
    // nop
  }

  /// Called when a node was added or changed, before the events that this causes. `index` is the device that failed, or
  /// -1.
  virtual void on_node(const Ledger&, std::size_t /*step*/, NodeChange, const std::string& /*node*/, int /*index*/) {
    // nop
  }

  /// Called for each event of the ledger; `id` is the name of the request or group.
  virtual void on_event(const Ledger&, std::size_t /*step*/, const Event&, const std::string& /*id*/) {
    // nop
  }

  /// Called after each step.
  virtual void after_step(const Ledger&, std::size_t /*step*/, TimePoint /*now*/) {
    // nop
  }

  /// Called after all steps.
  virtual void on_end(const Ledger&, const Names&) {
    // nop
  }
};

} // namespace gpuactors::plan_detail
