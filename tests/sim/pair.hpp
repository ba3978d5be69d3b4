// Two brokers and some nodes on hosts whose network is cut: the decisions of brokers that stand by, simulated. One
// thread.
#pragma once

#include <gpuactors/base/dial_turns.hpp>
#include <gpuactors/broker/core/broker_role.hpp>
#include <gpuactors/broker/core/followers.hpp>
#include <gpuactors/broker/core/standby_core.hpp>
#include <gpuactors/broker/core/state_feed.hpp>

#include <broker/memory_store.hpp>
#include <sim/hosts.hpp>

#include <array>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

namespace simulation {

/// Of all processes.
inline constexpr std::chrono::seconds link_timeout{5};

/// What happens in a history.
struct PairOptions {
  std::size_t nodes = 3;
  /// As `--votes`.
  std::size_t votes = 0;
  /// How many of each within a history, about.
  std::size_t cuts = 0;
  std::size_t deaths = 0;
  std::size_t freezes = 0;
  std::size_t lost_files = 0;
  /// One of the brokers does not come back at the end, nor does the node beside it.
  bool one_stays_away = false;
};

/// How often something has happened.
using PairCoverage = std::map<std::string, std::size_t>;

class Pair {
public:
  Pair(std::uint64_t seed, PairOptions options, PairCoverage& coverage, std::ostream* trace);

  /// Faults for so long.
  void live(Duration time);

  /// The network is whole, and everything runs again.
  void heal();

  /// What is wrong at the end. Empty: nothing.
  [[nodiscard]] std::vector<std::string> disagreements();

  /// What was wrong on the way.
  [[nodiscard]] const std::vector<std::string>& violations() const noexcept {
    return violations_;
  }

private:
  enum class Part : std::uint8_t { none, stands_by, serves };

  /// What is in a file.
  struct Kept {
    BrokerRole role;
    std::set<std::uint64_t> changes;
  };

  struct Broker {
    Hosts::Process process;
    std::string address;
    /// That of its options.
    std::optional<std::string> standby_of;
    std::shared_ptr<broker_test::MemoryStore> file;
    Part part = Part::none;
    /// What it ended with last.
    std::string error;
    // While it stands by.
    std::optional<StandbyCore> standby;
    DialTurns turns{1};
    Hosts::LinkPtr active;
    bool copying = false;
    /// Which broker's state the copy is, as of when.
    std::string copied_lineage;
    std::uint64_t copied_term = 0;
    TimePoint copied_at{};
    // While it serves.
    std::shared_ptr<StateFeed> feed;
    std::optional<Followers> followers;
    v1::TakenOver claim;
    std::string lineage;
    std::map<std::string, Hosts::LinkPtr> nodes;
    bool settles = false;
  };

  struct Node {
    Hosts::Process process;
    DialTurns turns{2};
    Hosts::LinkPtr link;
    /// The broker that it has; null: none.
    Broker* broker = nullptr;
  };

  struct Change {
    std::uint64_t id = 0;
    std::string lineage;
    std::uint64_t term = 0;
    TimePoint time{};
  };

  [[nodiscard]] const Broker& other(const Broker& broker) const {
    return brokers_[&broker == &brokers_[0] ? 1 : 0];
  }

  Broker& other(const Broker& broker) {
    return brokers_[&broker == &brokers_[0] ? 1 : 0];
  }

  void say(const std::string& what);
  void violated(const std::string& what);
  static Kept kept(const Broker& broker);

  // Brokers.
  void start(Broker& broker);
  void end(Broker& broker, const std::string& error);
  void stop(Hosts::Process& process);
  /// Starts what has died, after a while.
  void revive(Hosts::Process& process);
  void start(Hosts::Process& process);
  void stand_by(Broker& broker, std::set<std::string> nodes);
  void dial_active(Broker& broker);
  void follow(Broker& broker);
  void followed(Broker& broker, const Hosts::LinkPtr& link, TimePoint asked, const Result<v1::StateChanges>& answer);
  void redial_active(Broker& broker, const Error& why, bool refused);
  void look(Broker& broker);
  void serve(Broker& broker, bool takes_over);
  void tell_other(Broker& broker);
  void work(Broker& broker);
  Result<v1::StateChanges> answer(Broker& broker, const v1::FollowState& question);
  void told(Broker& broker, const v1::TakenOver& claim);
  /// Asks over a connection; `done` is called with an answer, or once it is too late for one.
  void ask(Broker& from, Broker& to, const Hosts::LinkPtr& link, const v1::FollowState& question,
           std::function<void(Result<v1::StateChanges>)> done);

  // Nodes.
  void start(Node& node);
  void dial(Node& node);
  void reg(Node& node, Broker& at);
  void registered(Broker& broker, Node& node, const Hosts::LinkPtr& link);
  void redial(Node& node, bool refused);

  // Checks.
  void check_takeover(const Broker& broker, const std::string& why);
  void check_copy(const Broker& broker, const Kept& before);
  void watch();
  [[nodiscard]] std::size_t nodes_of(const Broker& broker) const;

  // Faults.
  void cut();
  void hurt();
  std::vector<Hosts::Process*> processes();

  const PairOptions options_;
  PairCoverage& coverage_;
  std::ostream* const trace_;
  Hosts hosts_;
  std::array<Broker, 2> brokers_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Change> changes_;
  std::uint64_t last_change_ = 0;
  std::uint64_t logs_ = 0;
  std::uint64_t lineages_ = 0;
  /// Since when a broker has more than half of the nodes, and when one had them last for longer than votes last.
  std::optional<TimePoint> majority_since_;
  TimePoint majority_{};
  std::set<const Hosts::Process*> away_;
  bool whole_ = false;
  std::vector<std::string> violations_;
};

} // namespace simulation
