// The parts of a simulated cluster. For simulation*.cpp alone.
#pragma once

#include <broker/simulation.hpp>

namespace simulation {

using namespace gpuactors;
using namespace std::chrono_literals;

/// Of all processes. As long as that, or longer, the broker stands still at times.
constexpr auto link_timeout = 5s;

/// What is committed is there over restarts.
class Cluster::Store : public DesiredState {
public:
  void put(StateSection section, StateKey key, std::string value) override {
    pending_[{section, std::move(key)}] = std::move(value);
  }

  void erase(StateSection section, StateKey key) override {
    pending_[{section, std::move(key)}] = std::nullopt;
  }

  Result<void> commit() override {
    for (auto& [key, value] : pending_) {
      if (value)
        kept_[key] = std::move(*value);
      else
        kept_.erase(key);
    }
    pending_.clear();
    return {};
  }

  Result<std::vector<StateEntry>> load(StateSection section) const override {
    std::vector<StateEntry> result;
    for (const auto& [key, value] : kept_)
      if (key.first == section)
        result.push_back({key.second, value});
    return result;
  }

  void lose_pending() {
    pending_.clear();
  }

private:
  std::map<std::pair<StateSection, StateKey>, std::optional<std::string>> pending_;
  std::map<std::pair<StateSection, StateKey>, std::string> kept_;
};

struct Cluster::Node {
  v1::Node offer;
  std::uint64_t agent = 0;
  std::uint64_t registration = 0;
  std::shared_ptr<Link> link;
  bool registered = false;
  /// By lease.
  std::map<std::uint64_t, v1::HeldLease> held;
};

/// Something that a client has asked for.
struct Cluster::Asked {
  std::string what;
  std::function<void(BrokerCore&, const Asked&)> send;
  std::uint64_t number = 0;
  /// Over which it was asked last.
  std::shared_ptr<Link> link;
  /// It was asked before.
  bool again = false;
};

struct Cluster::Client {
  std::uint64_t id = 0;
  std::shared_ptr<Link> link;
  bool greeted = false;
  /// For good.
  bool gone = false;
  std::uint64_t last_number = 0;
  /// Not answered yet.
  std::map<std::uint64_t, std::shared_ptr<Asked>> asked;
  /// With their epochs.
  std::map<std::uint64_t, std::uint64_t> leases;
  std::set<std::uint64_t> actors;
  /// Requests for actors and groups.
  std::set<std::uint64_t> withdrawn;
  std::set<std::uint64_t> groups;
};

} // namespace simulation
