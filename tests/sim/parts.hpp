// The parts of a simulated cluster. For simulation*.cpp alone.
#pragma once

#include <sim/cluster.hpp>

namespace simulation {

using namespace gpuactors;
using namespace std::chrono_literals;

/// Of all processes. As long as that, or longer, the broker stands still at times.
constexpr auto link_timeout = 5s;

struct Cluster::Node {
  Node();
  ~Node();

  v1::Node offer;
  /// What each of its programs has; nothing: it does not say.
  std::vector<std::optional<v1::TypeCatalog>> programs{1};
  /// How often they have changed.
  std::uint64_t generation = 0;
  /// Its process's number: another one when it was restarted.
  std::uint64_t agent = 0;
  std::unique_ptr<AgentSide> world;
  std::unique_ptr<AgentCore> core;
  std::shared_ptr<Link> link;
  bool registered = false;
  bool says_goodbye = false;
  std::map<std::uint64_t, std::shared_ptr<Process>> processes;
  /// Leases whose memory is held by its processes.
  std::map<std::uint64_t, v1::HeldLease> held;
  /// Actors that have ended themselves here, as its agent knows.
  std::vector<v1::OwnEnd> own_ends;
};

/// A worker process; to the agent, the connection to it.
struct Cluster::Process : Contact {
  explicit Process(Node& home) : node(home) {
    // nop
  }

  Node& node;
  std::uint64_t number = 0;
  /// The lease that it was started for; 0: it is shared.
  std::uint64_t owner = 0;
  /// What its program has.
  std::optional<v1::TypeCatalog> types;
  /// That of its node when it was started.
  std::uint64_t generation = 0;
  bool alive = true;
  bool watched = false;
  bool connection_lost = false;
  TimePoint last_to_worker;
  TimePoint last_to_agent;
  /// Own ends of actors that it has told of, and that are still on their way.
  std::vector<v1::OwnEnd> told;
  /// Whose memory it holds, and what of it runs.
  std::set<std::uint64_t> leases;
  std::set<std::uint64_t> running;
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
  /// Whose end is waited for.
  std::uint64_t mourned = 0;
};

struct Cluster::Client {
  std::uint64_t id = 0;
  /// Who it is, by its certificate.
  Caller caller;
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
