// Writes calls to a ledger as a scenario, so that `run_plan` can make them again.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/ledger/event.hpp>
#include <gpuactors/ledger/group.hpp>
#include <gpuactors/ledger/ledger.hpp>
#include <gpuactors/ledger/node.hpp>
#include <gpuactors/ledger/request.hpp>

#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuactors {

/// Writes one scenario: a step for each call, and before it a step for the time that has passed since the last call.
///
/// The ids of the scenario are the names of the requests and their numbers: "echo#7". Time steps are `late`: the ledger
/// learns of the time with the next call, as in the recorded run. One thread. Memory grows with the requests and groups
/// that wait or hold something.
class ScenarioWriter {
public:
  explicit ScenarioWriter(std::ostream& out);
  ScenarioWriter(const ScenarioWriter&) = delete;
  ScenarioWriter& operator=(const ScenarioWriter&) = delete;

  void add_node(const NodeSpec& node, TimePoint now);
  void remove_node(std::string_view node, TimePoint now);
  void fail_device(std::string_view node, int index, Holders holders, TimePoint now);

  /// @param type the name of `request.type`; empty without one.
  /// @param parent the request that holds the lease `request.parent`; empty without a parent.
  void submit(RequestId id, const ResourceRequest& request, std::string_view type, RequestId parent, TimePoint now);

  void drain_node(std::string_view node, TimePoint now);
  void undrain_node(std::string_view node, TimePoint now);
  void set_types(std::string_view node, const std::optional<std::vector<std::string>>& types, TimePoint now);
  void set_quota(std::string_view owner, std::optional<Share> limit, TimePoint now);
  void submit_group(GroupId id, const GroupRequest& request, TimePoint now);
  void release_group(GroupId id, TimePoint now);

  /// Releases what a request holds, or withdraws the request.
  void release(RequestId id, TimePoint now);
  void advance(TimePoint now);

  /// Forgets the names of requests and groups that these events of the last call have ended.
  void forget(const std::vector<Event>& events);

  /// Ends the scenario; nothing may follow.
  void finish();

private:
  void pass_time(TimePoint now);
  void step(const std::string& action, const std::string& content);

  std::ostream& out_;
  bool first_ = true;
  std::optional<TimePoint> last_;
  std::map<RequestId, std::string> names_;
  std::map<GroupId, std::string> groups_;
};

} // namespace gpuactors
