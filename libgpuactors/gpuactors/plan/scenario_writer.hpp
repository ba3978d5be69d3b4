// Writes calls to a ledger as a scenario, so that `run_plan` can make them again.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/ledger/event.hpp>
#include <gpuactors/ledger/group.hpp>
#include <gpuactors/ledger/node.hpp>
#include <gpuactors/ledger/request.hpp>

#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gpuactors {

/// One scenario in the making: a step for each call, and before it one for the time that has passed since the last.
///
/// The ids of the scenario are the names of the requests and their numbers: "echo#7". Time passes `late`: the ledger
/// hears of it with the next call, as it did. One thread. Memory grows with what waits or is held.
class ScenarioWriter {
public:
  explicit ScenarioWriter(std::ostream& out);
  ScenarioWriter(const ScenarioWriter&) = delete;
  ScenarioWriter& operator=(const ScenarioWriter&) = delete;

  void add_node(const NodeSpec& node, TimePoint now);
  void fail_device(const std::string& node, int index, TimePoint now);

  /// @param parent the request that holds the lease `request.parent`; none without one.
  void submit(RequestId id, const ResourceRequest& request, RequestId parent, TimePoint now);

  void drain_node(const std::string& node, TimePoint now);
  void undrain_node(const std::string& node, TimePoint now);
  void submit_group(GroupId id, const GroupRequest& request, TimePoint now);
  void release_group(GroupId id, TimePoint now);

  /// Gives back what a request holds, or withdraws it.
  void release(RequestId id, TimePoint now);
  void advance(TimePoint now);

  /// What the call brought about: names of what is over are forgotten.
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
