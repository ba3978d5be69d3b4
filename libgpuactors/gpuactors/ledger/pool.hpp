// Pools: amounts of one node in which requests are placed. A pool is a node, a bundle of a placement group, or a lease,
// for the children of the task that holds it. Placing, lending and giving back work alike in all of them.
#pragma once

#include <gpuactors/ledger/need.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gpuactors::ledger_detail {

struct Node;

/// One device, or the part of it that belongs to a pool.
struct Slot {
  Node* node = nullptr;
  /// The device's index in its node.
  int index = 0;
  /// Index of the device's kind in the node's `kinds`; only in a node's own pool.
  std::size_t kind = 0;
  /// False if the device has failed: nothing is placed on it then.
  bool ok = true;
  Share share;
  Share free_share;
  std::uint64_t bytes = 0;
  std::uint64_t free_bytes = 0;
};

/// The amounts of a node, bundle or lease, and the free part of them.
struct Pool {
  /// Never reused, so that it can identify a pool that may no longer exist.
  std::uint64_t id = 0;
  Node* node = nullptr;
  Share cpus;
  Share free_cpus;
  std::map<std::string, Share> resources;
  std::map<std::string, Share> free_resources;
  /// Ascending by device index.
  std::vector<Slot> slots;

  [[nodiscard]] Slot* slot(int index);
  [[nodiscard]] const Slot* slot(int index) const;
  /// Returns whether everything in the pool is free.
  [[nodiscard]] bool is_untouched() const;
};

/// A pool and the devices to take from it.
struct Fit {
  Pool* pool = nullptr;
  std::vector<DeviceGrant> devices;
};

/// Amounts of one pool that a placement must not use: withheld by a reservation, held by an ancestor, or planned for
/// another bundle. The pointers refer to objects that the creator of the hold keeps alive.
struct Hold {
  const Pool* pool = nullptr;
  const std::vector<DeviceGrant>* devices = nullptr;
  Share cpus;
  const std::map<std::string, Share>* resources = nullptr;
};

/// The view of a placement on pools: their free or their total amounts, in both cases less some holds.
struct Lens {
  enum class Amount : std::uint8_t { free, all };

  Amount amount = Amount::free;
  std::vector<Hold> holds;
  /// Whether drained nodes count like others. Only with total amounts, for the question whether a node could ever serve
  /// a request: nothing is placed on drained nodes.
  bool with_drained = false;
  /// No device gives more than this: what a quota leaves, for requests by memory alone, whose share depends on the
  /// device.
  Share most_share = Share::whole(1);

  /// Leaves of each device no more than these units: the room in a quota.
  void limit_share(std::int64_t units) {
    most_share = std::min(most_share, Share{units});
  }

  /// Returns whether new leases on the node count.
  [[nodiscard]] bool covers(const Node& node) const;
  [[nodiscard]] Share share(const Pool& pool, const Slot& slot) const;
  [[nodiscard]] std::uint64_t bytes(const Pool& pool, const Slot& slot) const;
  [[nodiscard]] Share cpus(const Pool& pool) const;
  [[nodiscard]] Share resource(const Pool& pool, const std::string& name) const;
};

/// Returns whether the slot satisfies `need`; false for free amounts of a suspended node.
[[nodiscard]] bool fits(const Pool& pool, const Slot& slot, const Need& need, const Lens& lens);

/// Returns whether the node has the requested name (unless that is only a preference), type, labels and, for a request
/// without devices, accelerator type.
[[nodiscard]] bool admits(const Node& node, const ResourceRequest& request);

/// Returns whether the node's labels meet the conditions.
[[nodiscard]] bool has_labels(const Node& node, const LabelConditions& labels);

/// Returns the label's value, or null if the node does not have the label.
[[nodiscard]] const std::string* label_of(const Node& node, const std::string& name);

/// Returns whether the pool's cpus and custom resources suffice.
[[nodiscard]] bool suffices_besides_devices(const Pool& pool, const ResourceRequest& request, const Lens& lens);

/// Chooses devices in one pool. Considers all constraints except whether the node takes new leases. Returns an empty
/// vector for a request without devices, and nothing if the request does not fit.
///
/// Fraction, packed: devices in use before idle ones, then least share left, least memory left, lowest index. Fraction,
/// spread: most free share, then most free memory, lowest index. Whole devices: of one kind (type and size) if enough
/// of one kind fit, preferring the kind of which the fewest fit, then less memory, then the lower type name; otherwise
/// of several kinds, less memory first. Among these, the devices closest to each other if the node reports distances,
/// then the lowest index.
[[nodiscard]] std::optional<std::vector<DeviceGrant>> place_in(const Pool& pool, const ResourceRequest& request,
                                                               const Lens& lens);

/// Returns every distinct choice of devices in the pool, about `most` of them: first the one of `place_in`. Devices of
/// one kind with equal amounts left are twins: exchanging them makes no difference.
[[nodiscard]] std::vector<std::vector<DeviceGrant>> choices_in(const Pool& pool, const ResourceRequest& request,
                                                               const Lens& lens, std::size_t most);

/// Returns the `count` devices of `candidates` that are closest to each other. `candidates` are in order of preference,
/// and at least `count`.
[[nodiscard]] std::vector<DeviceGrant> closest_of(const std::vector<const Slot*>& candidates, std::size_t count,
                                                  const ResourceRequest& request);

/// Makes a pool of the given amounts, all of them free.
[[nodiscard]] Pool make_pool(std::uint64_t id, Node& node, const std::vector<DeviceGrant>& devices, Share cpus,
                             const std::map<std::string, Share>& resources);

} // namespace gpuactors::ledger_detail
