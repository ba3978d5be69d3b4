// Reports of what holders use and of how tasks went, as messages and as sums.
#pragma once

#include <gpuactors/v1/control.pb.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gpuactors {

/// Divides reports among messages that each fit on a link: about `limits::usage_bytes`. None for no reports. Pure.
[[nodiscard]] std::vector<v1::HolderUsage> in_messages(std::vector<v1::HolderUsage::Entry> entries);

/// How the tasks of a node went: the sum over its workers, each of which counts from its own start. Pure.
class TaskTotals {
public:
  /// Takes what a worker has counted since its start.
  void take(std::uint64_t worker, const google::protobuf::RepeatedPtrField<v1::CallStats>& counts);

  /// Forgets a worker that has ended. What it counted stays in the sums.
  void ended(std::uint64_t worker);

  [[nodiscard]] bool empty() const noexcept {
    return totals_.empty();
  }

  /// Returns a report of all; it does not say yet of which node.
  [[nodiscard]] v1::HolderUsage report() const;

private:
  using ByName = std::map<std::string, v1::CallStats>;

  ByName totals_;
  /// What each worker has last said.
  std::map<std::uint64_t, ByName> last_;
};

} // namespace gpuactors
