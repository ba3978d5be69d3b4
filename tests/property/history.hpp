// Histories of calls: made from a seed, run against the ledger and the naive model side by side, shrunk, printed.
#pragma once

#include <property/model.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace history {

/// One call. Whom it is about is chosen by `pick` among what there is then, so that a call means something whatever was
/// taken out before it.
struct Op {
  enum class Kind : std::uint8_t {
    submit,
    release,
    cancel,
    submit_group,
    release_group,
    add_node,
    remove_node,
    drain_node,
    undrain_node,
    set_types,
    fail_device,
    set_quota,
    advance,
  };

  Kind kind = Kind::submit;
  std::uint64_t pick = 0;
  gpuactors::ResourceRequest request;
  /// The request's parent is the `parent`th lease there is, if that is not 0.
  std::uint64_t parent = 0;
  /// The request draws from the `group`th group there is, if that is not 0.
  std::uint64_t group = 0;
  gpuactors::GroupRequest bundles;
  /// Of a new node; `set_types` takes its types.
  gpuactors::NodeSpec node;
  /// Of the request's owner; nothing removes it.
  std::optional<gpuactors::Share> quota{};
  int seconds = 0;
  /// Those who hold what is lost with a device stay.
  bool holders_stay = false;
};

struct History {
  gpuactors::LedgerOptions options;
  std::vector<Op> ops;
};

/// A history from a seed. Groups that may wait and reservations do not meet: where a group's reservation goes is not
/// for the model to say.
History make(std::uint64_t seed);

/// What happened in histories, so that a test can tell whether it has seen everything.
struct Coverage {
  std::map<gpuactors::Event::Kind, std::uint64_t> events;
  std::uint64_t from_queue = 0;
  std::uint64_t borrowed = 0;
  std::uint64_t in_bundles = 0;
  std::uint64_t groups = 0;
  /// Groups that lost bundles and kept others, and those of them that were placed again.
  std::uint64_t torn = 0;
  std::uint64_t mended = 0;
  /// Leases that were lost and of which something was kept, and those of them that were released.
  std::uint64_t remains = 0;
  std::uint64_t remains_released = 0;
  /// Groups that went on with fewer bundles.
  std::uint64_t shrunk = 0;
  /// Histories at whose end a second ledger was built from what the first one held.
  std::uint64_t rebuilt = 0;
  /// Calls after which something was held back, and requests that fit but for that.
  std::uint64_t reservations = 0;
  std::uint64_t held_back = 0;
  /// Requests and groups that waited for a drained node, and those of them that were served, or refused as infeasible.
  std::uint64_t drained = 0;
  std::uint64_t drained_served = 0;
  std::uint64_t drained_refused = 0;
  /// Requests and groups that waited for room in a quota, and those of them that were served, or refused as infeasible.
  std::uint64_t over_quota = 0;
  std::uint64_t over_quota_served = 0;
  std::uint64_t over_quota_refused = 0;
  /// Requests and groups that no quota of theirs could ever have room for.
  std::uint64_t beyond_quota = 0;
  /// Requests for a type that were served, waited while a node did not have it, and found none that has it.
  std::uint64_t typed = 0;
  std::uint64_t waited_for_type = 0;
  std::uint64_t type_not_found = 0;
  /// Requests and groups that were served when a node's types changed, and refused as no node had their type then.
  std::uint64_t types_served = 0;
  std::uint64_t types_refused = 0;
};

/// Runs it against ledger and model, with all checks after every call but the first `known` ones, with which another
/// history went well. @returns what went wrong, or nothing.
std::string run(const History& history, Coverage* coverage = nullptr, std::size_t known = 0);

/// Takes out what the failure does not need.
History shrink(History history);

/// Renders the calls, up to the first that goes wrong, as a scenario for `gpuactors plan`. Its reservations are those
/// of the defaults, whatever `options` says.
std::string scenario(const History& history);

} // namespace history
