// What the broker knows of leases for tasks, before they are granted and after. Internal to the layer.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/ids.hpp>
#include <gpuactors/broker/core/rooms.hpp>
#include <gpuactors/broker/core/world.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace gpuactors {

/// A request for a task lease that is not granted yet.
struct TaskRequest {
  std::uint64_t client = 0;
  std::uint64_t client_request = 0;
  /// Client and resource request, as one string: leases with another key make way for this request.
  std::string key;
  TimePoint since{};
  /// The lease from which it may borrow.
  LeaseId parent;
  /// Of the client's name, for the request and then its lease.
  Rooms::Place place;
  GroupId group;
  bool isolated = false;
  google::protobuf::Map<std::string, std::string> environment;
  /// The type of the tasks.
  std::string task;
  BrokerAnswer<Grant> answer;
};

struct TaskLease {
  std::uint64_t client = 0;
  std::string key;
  /// In whose quota it counts, as in the ledger.
  std::string owner;
  Rooms::Place place;
  /// The answer to the client, set while the lease's runner is being started.
  std::optional<BrokerAnswer<Grant>> starting;
  bool reclaimed = false;
  /// The agent was told to end the lease.
  bool ending = false;
};

} // namespace gpuactors
