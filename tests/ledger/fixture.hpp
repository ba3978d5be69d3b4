// A ledger with a clock and names, for tests that read like the rules they check.
#pragma once

#include <gpuactors/ledger/ledger.hpp>

#include <support/catch.hpp>

#include <string>

namespace ledger_test {

using namespace gpuactors;
using Kind = Event::Kind;
using std::chrono::seconds;

inline NodeSpec node_of(const std::string& name, int devices, std::uint64_t bytes = 100, const std::string& type = "") {
  NodeSpec node;
  node.name = name;
  node.cpus = Share::whole(16);
  node.devices.assign(static_cast<std::size_t>(devices), DeviceSpec{type, bytes, ""});
  return node;
}

inline ResourceRequest gpus(double amount, std::uint64_t bytes = 0) {
  ResourceRequest request;
  request.gpus = *Share::from_double(amount, "gpus");
  request.memory_bytes = bytes;
  return request;
}

inline ResourceRequest memory(std::uint64_t bytes) {
  return gpus(0, bytes);
}

/// Every call checks the ledger's books.
class Fixture {
public:
  explicit Fixture(std::vector<NodeSpec> nodes = {}, LedgerOptions options = {}) : ledger(options) {
    for (auto& node : nodes) {
      const auto added = ledger.add_node(std::move(node), now);
      REQUIRE(added);
    }
  }

  /// Submits and returns the answer; what else happened is in `events`.
  Event submit(ResourceRequest request) {
    events = ledger.submit(RequestId{++last_request}, std::move(request), now);
    ledger.check();
    REQUIRE_FALSE(events.empty());
    CHECK(events.front().request == RequestId{last_request});
    return events.front();
  }

  Event submit_group(GroupStrategy strategy, std::vector<ResourceRequest> bundles) {
    GroupRequest group;
    group.strategy = strategy;
    group.bundles = std::move(bundles);
    return submit_group(group);
  }

  Event submit_group(const GroupRequest& group) {
    events = ledger.submit_group(GroupId{++last_group}, group, now);
    ledger.check();
    REQUIRE_FALSE(events.empty());
    return events.front();
  }

  /// Releases what the event granted and returns what followed.
  Ledger::Events release(const Event& granted) {
    REQUIRE(granted.lease.has_value());
    return take(ledger.release(granted.lease->id, granted.lease->epoch, now));
  }

  Ledger::Events take(Result<Ledger::Events> result) {
    REQUIRE(result);
    ledger.check();
    return *result;
  }

  Ledger::Events advance(Duration by) {
    now += by;
    auto result = ledger.advance(now);
    ledger.check();
    return result;
  }

  Ledger ledger;
  TimePoint now{};
  Ledger::Events events;
  std::uint64_t last_request = 0;
  std::uint64_t last_group = 0;
};

/// "n0:0" or "n0:0,1", or the kind of the event and its reason.
inline std::string place(const Event& event) {
  if (!event.lease)
    return std::string{to_string(event.kind)} + ": " + event.reason;
  std::string text = event.lease->node;
  for (std::size_t i = 0; i < event.lease->devices.size(); ++i)
    text += (i == 0 ? ":" : ",") + std::to_string(event.lease->devices[i].index);
  return text;
}

} // namespace ledger_test
