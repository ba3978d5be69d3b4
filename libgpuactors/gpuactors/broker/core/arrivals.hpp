// Arrivals: nodes that have registered and are not admitted yet, because a broker that started again waits for others.
// Internal to the layer.
#pragma once

#include <gpuactors/broker/core/world.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace gpuactors {

/// What a node tells of leases that the broker does not know before it admits the node.
using NodeReport =
    std::variant<v1::LeaseStarted, v1::LeaseEnded, v1::ActorSaved, v1::HolderUsage::Entry, v1::HolderUsage>;

struct Arrival {
  v1::RegisterNode message;
  ContactPtr agent;
  BrokerAnswer<void> answer;
  /// The node's reports since, in order.
  std::vector<NodeReport> reports;

  [[nodiscard]] const std::string& name() const {
    return message.node().name();
  }

  [[nodiscard]] bool is_of(const std::string& node, std::uint64_t number) const {
    return name() == node && message.agent() == number;
  }
};

class Arrivals {
public:
  /// A part of what a node holds, sent ahead of its registration because all of it is more than one message takes.
  void add_ahead(const v1::HeldAhead& message);

  /// Puts what was sent ahead into the registration, and forgets what any agent of this name has sent.
  /// @returns `unavailable` if not all of it has arrived.
  Result<void> complete(v1::RegisterNode& message);

  /// Adds one, and refuses an earlier one of the same agent, whose connection was lost.
  void add(Arrival arrival);

  /// Refuses one whose node is being stopped.
  void leave(const std::string& node, std::uint64_t agent);

  /// Keeps a report of a lease until its node is admitted. @returns false if no node that waits holds the lease.
  template <class Message>
  [[nodiscard]] bool postpone(const Message& report) {
    for (auto& arrival : all_)
      for (const auto& held : arrival.message.held())
        if (held.lease().id() == report.lease() && held.lease().epoch() == report.epoch()) {
          arrival.reports.emplace_back(report);
          return true;
        }
    return false;
  }

  /// Keeps the latest report of what a node's tasks have used. @returns false if that node does not wait.
  [[nodiscard]] bool postpone_tasks(const v1::HolderUsage& message);

  /// Calls `function` with each that has this name: more than one agent may ask for it.
  template <class F>
  void each_of(const std::string& node, F&& function) {
    for (auto& arrival : all_)
      if (arrival.name() == node)
        function(arrival);
  }

  [[nodiscard]] bool has(const std::string& node) const;

  [[nodiscard]] bool empty() const noexcept {
    return all_.empty();
  }

  [[nodiscard]] std::vector<Arrival> take() {
    return std::exchange(all_, {});
  }

private:
  struct Parts {
    std::string node;
    std::uint64_t registration = 0;
    std::vector<v1::HeldLease> held;
  };

  /// Answers those of the node with the reason, and forgets them.
  void refuse(const std::string& node, std::uint64_t agent, const char* why);

  std::vector<Arrival> all_;
  /// By agent.
  std::map<std::uint64_t, Parts> ahead_;
};

} // namespace gpuactors
