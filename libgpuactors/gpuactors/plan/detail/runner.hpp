// Runs the steps of a scenario over a ledger.
#pragma once

#include <gpuactors/plan/detail/ids.hpp>
#include <gpuactors/plan/detail/observer.hpp>
#include <gpuactors/plan/reader.hpp>

#include <memory>
#include <vector>

namespace gpuactors::plan_detail {

/// Runs one scenario. Throws `ScenarioError` if the scenario is in error.
class Runner {
public:
  /// @param observers are told of everything, in this order; must outlive the runner.
  explicit Runner(const std::vector<std::unique_ptr<Observer>>& observers) : observers_(observers) {
    // nop
  }

  void add_node(const Json& value, const std::string& place);
  void run_step(const Json& step, std::size_t number);
  void finish();

private:
  void submit(const Json& value, const std::string& place);
  void submit_group(const Json& value, const std::string& place);
  void release(const Json& value, const std::string& place);
  void release_group(const Json& value, const std::string& place);
  void set_quota(const Json& value, const std::string& place);
  void advance(const Json& value, const std::string& place);
  void change_node(const std::string& action, const Json& value, const std::string& place);
  void report(const Ledger::Events& events);
  void tell_of_node(NodeChange change, const std::string& node, int index);
  void tell(const Event& event, const std::string& id);

  Ledger ledger_;
  TimePoint now_{};
  std::size_t step_ = 0;
  IdTable requests_;
  IdTable groups_;
  // Requests whose leases were lost and of which something is kept.
  std::map<RequestId, LeaseId> lost_;
  const std::vector<std::unique_ptr<Observer>>& observers_;
};

} // namespace gpuactors::plan_detail
