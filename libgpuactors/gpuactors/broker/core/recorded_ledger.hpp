// RecordedLedger: a ledger that can record its calls.
#pragma once

#include <gpuactors/ledger/ledger.hpp>
#include <gpuactors/plan/scenario_writer.hpp>

#include <iosfwd>
#include <memory>

namespace gpuactors {

/// The broker's ledger. While it records, each mutating call becomes a step of a scenario: `run_plan` then gives the
/// same answers in the same order. The base is private, so that a change which is not recorded has to be named here.
class RecordedLedger : private Ledger {
public:
  using Ledger::Events;

  explicit RecordedLedger(LedgerOptions options = {}) : Ledger(options) {
    // nop
  }

  ~RecordedLedger();
  RecordedLedger(RecordedLedger&&) = delete;
  RecordedLedger& operator=(RecordedLedger&&) = delete;

  /// Starts the recording; call before any other call that changes the ledger.
  void record(std::shared_ptr<std::ostream> out);

  /// Whether a recording could not be written completely.
  [[nodiscard]] bool recording_failed() const noexcept;

  /// Ends the recording.
  void finish();

  // Recording versions of the functions of `Ledger`.
  Result<Events> add_node(NodeSpec spec, TimePoint now);
  Result<Events> fail_device(std::string_view node, int index, TimePoint now, Holders holders);
  Result<Events> drain_node(std::string_view name, TimePoint now);
  Result<Events> undrain_node(std::string_view name, TimePoint now);
  Result<Events> set_types(std::string_view name, std::optional<std::vector<std::string>> types, TimePoint now);
  Events submit(RequestId id, ResourceRequest request, TimePoint now);
  Events submit_group(GroupId id, GroupRequest request, TimePoint now);
  Result<Events> release_group(GroupId id, TimePoint now);
  Result<Events> release(LeaseId id, std::uint64_t epoch, TimePoint now);
  Result<Events> cancel(RequestId id, TimePoint now);
  Result<Events> set_quota(const std::string& owner, std::optional<Share> limit, TimePoint now);
  Events advance(TimePoint now);

  // Not recorded: scenarios have no nodes that are away for a while, and begin with an empty ledger.
  // So a broker that records has no `settle`: while nodes are expected, quotas grant nothing, and plan would.
  using Ledger::expect_nodes;
  using Ledger::pause;
  using Ledger::remove_node;
  using Ledger::restore;
  using Ledger::restore_group;
  using Ledger::resume;
  using Ledger::suspend_node;
  using Ledger::unsuspend_node;

  // Views, and names.
  using Ledger::bundles_of;
  using Ledger::could_be_served;
  using Ledger::find_lease;
  using Ledger::find_remains;
  using Ledger::for_each_held;
  using Ledger::for_each_pending;
  using Ledger::held_in;
  using Ledger::is_pending;
  using Ledger::lease_of;
  using Ledger::leases;
  using Ledger::next_timeout;
  using Ledger::nodes;
  using Ledger::over_quota;
  using Ledger::quotas;
  using Ledger::type;
  using Ledger::waits_in_vain;

private:
  // Returns the events of a call that `write` records, if it has not failed.
  template <class Write>
  Result<Events> recorded(Result<Events> events, Write write);
  template <class Write>
  Events recorded(Events events, Write write);

  std::shared_ptr<std::ostream> out_;
  std::unique_ptr<ScenarioWriter> writer_;
};

} // namespace gpuactors
