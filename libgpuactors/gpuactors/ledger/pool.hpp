// Pools: amounts of one node that requests are placed in. A node is one; so is a bundle of a placement group, and so is
// a lease, for the children of the task that holds it. Placing, lending and giving back work alike in all of them.
#pragma once

#include <gpuactors/ledger/need.hpp>

#include <optional>
#include <utility>
#include <vector>

namespace gpuactors::ledger_detail {

struct Node;

/// One device, or the part of it that a pool has.
struct Slot {
  Node* node = nullptr;
  /// The device's index in its node.
  int index = 0;
  /// In a node's own pool: which of the node's `kinds` it is.
  std::size_t kind = 0;
  /// Nothing is placed on a device that has failed.
  bool ok = true;
  Share share;
  Share free_share;
  std::uint64_t bytes = 0;
  std::uint64_t free_bytes = 0;
};

/// What a node, bundle or lease has, and what of it is free.
struct Pool {
  /// Never used twice, so that it can stand for a pool that may have gone.
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
  /// Whether all of it is free.
  [[nodiscard]] bool is_untouched() const;
};

/// Amounts of one pool that are to be left alone: withheld by a reservation, held by an ancestor, or planned for
/// another bundle. Refers to what its maker keeps alive.
struct Hold {
  const Pool* pool = nullptr;
  const std::vector<DeviceGrant>* devices = nullptr;
  Share cpus;
  const std::map<std::string, Share>* resources = nullptr;
};

/// How a placement looks at pools: at what is free now or at all there is, in both cases less some holds.
struct Lens {
  enum class Amount : std::uint8_t { free, all };

  Amount amount = Amount::free;
  std::vector<Hold> holds;

  [[nodiscard]] Share share(const Pool& pool, const Slot& slot) const;
  [[nodiscard]] std::uint64_t bytes(const Pool& pool, const Slot& slot) const;
  [[nodiscard]] Share cpus(const Pool& pool) const;
  [[nodiscard]] Share resource(const Pool& pool, const std::string& name) const;
};

/// Whether the slot gives what is needed.
[[nodiscard]] bool fits(const Pool& pool, const Slot& slot, const Need& need, const Lens& lens);

/// Whether node name (unless it is a wish), labels and, for a request without devices, the accelerator type are right.
[[nodiscard]] bool admits(const Node& node, const ResourceRequest& request);

/// Whether the labels of the node are as asked.
[[nodiscard]] bool has_labels(const Node& node, const LabelConditions& labels);

/// The label's value, or null.
[[nodiscard]] const std::string* label_of(const Node& node, const std::string& name);

/// Whether cpus and custom resources suffice.
[[nodiscard]] bool suffices_besides_devices(const Pool& pool, const ResourceRequest& request, const Lens& lens);

/// Chooses devices in one pool, all constraints considered but whether its node takes new leases. Empty for a request
/// without devices; nothing when it does not fit.
///
/// A fraction, packed: devices in use before idle ones, then least share left, least memory left, lowest index. Spread:
/// most share free, then most memory free, lowest index. Whole devices: of one kind (type and size) if enough of one
/// fit, of that with the fewest that do, less memory, lower type name; else of several kinds, less memory first. Among
/// those the closest to each other, if the node reports distances; lowest index.
[[nodiscard]] std::optional<std::vector<DeviceGrant>> place_in(const Pool& pool, const ResourceRequest& request,
                                                               const Lens& lens);

/// Of `candidates`, in order of preference, the `count` that are closest to each other. At least that many are needed.
[[nodiscard]] std::vector<DeviceGrant> closest_of(const std::vector<const Slot*>& candidates, std::size_t count,
                                                  const ResourceRequest& request);

/// A pool with what `devices`, `cpus` and `resources` name, all of it free.
[[nodiscard]] Pool make_pool(std::uint64_t id, Node& node, const std::vector<DeviceGrant>& devices, Share cpus,
                             const std::map<std::string, Share>& resources);

} // namespace gpuactors::ledger_detail
