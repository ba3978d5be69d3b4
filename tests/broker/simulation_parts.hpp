// The parts of a simulated cluster. For simulation*.cpp alone.
#pragma once

#include <broker/simulation.hpp>

namespace simulation {

using namespace gpuactors;
using namespace std::chrono_literals;

/// Of all processes. As long as that, or longer, the broker stands still at times.
constexpr auto link_timeout = 5s;

struct Cluster::Node {
  v1::Node offer;
  std::uint64_t agent = 0;
  std::uint64_t registration = 0;
  std::shared_ptr<Link> link;
  bool registered = false;
  /// By lease.
  std::map<std::uint64_t, v1::HeldLease> held;
  /// Actors that have ended themselves here.
  std::vector<v1::OwnEnd> own_ends;
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
