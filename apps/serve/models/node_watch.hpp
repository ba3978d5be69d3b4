// Which nodes of the cluster are being emptied, for the keepers of all models.
#pragma once

#include <gpuactors/gpuactors.hpp>

#include <memory>
#include <set>
#include <string>

namespace serve {

/// Any thread; never waits.
class NodeWatch {
public:
  /// `cluster` must outlive the watch.
  explicit NodeWatch(gpuactors::Cluster& cluster);

  /// Returns the names of the nodes that take no new work, as the broker said some seconds ago, and asks it again if
  /// that is too long ago. While it does not answer, what it said last.
  std::set<std::string> draining();

  /// Notes that the broker has just granted something there: the node is not drained any more, whatever was said
  /// before.
  void serves(const std::string& node);

private:
  struct Known;

  gpuactors::Cluster& cluster_;
  const std::shared_ptr<Known> known_;
};

} // namespace serve
