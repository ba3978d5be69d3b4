// What looks on while a scenario runs: the writer of its lines, of explanations, tables and pictures.
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

/// Called in the order of the steps; one thread. Refers to nothing that it was given after a call.
class Observer {
public:
  virtual ~Observer() = default;

  /// A request that keeps the rules is about to be put to the ledger.
  virtual void before_submit(const Ledger&, std::size_t /*step*/, const std::string& /*id*/, const ResourceRequest&) {
    // nop
  }

  /// The same for a placement group.
  virtual void before_submit_group(const Ledger&, std::size_t /*step*/, const std::string& /*id*/,
                                   const GroupRequest&) {
    // nop
  }

  /// A node has come or changed; `index` is the device that failed, or -1. Called before the events that this brings.
  virtual void on_node(const Ledger&, std::size_t /*step*/, NodeChange, const std::string& /*node*/, int /*index*/) {
    // nop
  }

  /// The ledger has answered; `id` is the name of the request or group.
  virtual void on_event(const Ledger&, std::size_t /*step*/, const Event&, const std::string& /*id*/) {
    // nop
  }

  /// A step is over.
  virtual void after_step(const Ledger&, std::size_t /*step*/, TimePoint /*now*/) {
    // nop
  }

  /// All steps are over.
  virtual void on_end(const Ledger&, const Names&) {
    // nop
  }
};

} // namespace gpuactors::plan_detail
