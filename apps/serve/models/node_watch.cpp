#include "node_watch.hpp"

#include <chrono>
#include <mutex>
#include <utility>

namespace serve {

using gpuactors::Clock;
using gpuactors::Result;
using gpuactors::TimePoint;

namespace {

constexpr std::chrono::seconds node_look{2};

} // namespace

/// What a late answer may still be written to.
struct NodeWatch::Known {
  std::mutex mutex;
  std::set<std::string> draining;
  /// Nodes that served while an answer was on its way, which may be older.
  std::set<std::string> served;
  TimePoint next{};
  bool asked = false;
};

NodeWatch::NodeWatch(gpuactors::Cluster& cluster) : cluster_(cluster), known_(std::make_shared<Known>()) {
  // nop
}

std::set<std::string> NodeWatch::draining() {
  {
    const std::lock_guard lock{known_->mutex};
    if (known_->asked || Clock::now() < known_->next)
      return known_->draining;
    known_->asked = true;
    known_->served.clear();
  }
  cluster_.state_async().then([known = known_](const Result<gpuactors::v1::ClusterState>& state) {
    const std::lock_guard lock{known->mutex};
    known->asked = false;
    known->next = Clock::now() + node_look;
    if (!state)
      return;
    known->draining.clear();
    for (const auto& node : state->nodes())
      if (node.state() == "draining" && !known->served.contains(node.node().name()))
        known->draining.insert(node.node().name());
  });
  const std::lock_guard lock{known_->mutex};
  return known_->draining;
}

void NodeWatch::serves(const std::string& node) {
  const std::lock_guard lock{known_->mutex};
  known_->draining.erase(node);
  known_->served.insert(node);
}

} // namespace serve
