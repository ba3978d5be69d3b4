// The nodes, and the indexes that find room among them without looking at all of them.
#pragma once

#include <gpuactors/ledger/node.hpp>
#include <gpuactors/ledger/pool.hpp>
#include <gpuactors/ledger/topology.hpp>
#include <gpuactors/ledger/view.hpp>

#include <array>
#include <set>
#include <string_view>

namespace gpuactors::ledger_detail {

struct DeviceKind;

/// The devices of one kind in one node, as far as they are idle.
struct NodeKind {
  Node* node = nullptr;
  DeviceKind* kind = nullptr;
  int idle = 0;
};

/// A registered node. Lives at one address from `Cluster::add` to `Cluster::remove`.
struct Node {
  NodeSpec spec;
  NodeState state = NodeState::ok;
  /// Ascends with the name over all nodes, so that indexes compare a number instead of a name.
  std::uint64_t order = 0;
  Pool pool;
  /// Sum over its devices that have not failed.
  Share free_share;
  std::vector<NodeKind> kinds;
  Topology topology;

  [[nodiscard]] const DeviceSpec& device(const Slot& slot) const {
    return spec.devices[static_cast<std::size_t>(slot.index)];
  }

  [[nodiscard]] bool takes_leases() const {
    return state == NodeState::ok;
  }
};

/// Devices in fractional use that are not full: least free share, least free memory, node, index.
struct BySlot {
  using is_transparent = void;
  bool operator()(const Slot* a, const Slot* b) const;
  bool operator()(const Slot* a, const Need& b) const;
};

/// Nodes with idle devices of a kind: fewest, then by node.
struct ByIdle {
  using is_transparent = void;
  bool operator()(const NodeKind* a, const NodeKind* b) const;
  bool operator()(const NodeKind* a, int idle) const;
};

/// Nodes for requests without devices: least free cpus, then by node.
struct ByCpus {
  bool operator()(const Node* a, const Node* b) const;
};

/// Nodes for spreading: most free share, then most free cpus, then by node.
struct ByFreeShare {
  bool operator()(const Node* a, const Node* b) const;
};

/// All devices of one type and size.
struct DeviceKind {
  std::string accelerator_type;
  std::uint64_t memory_bytes = 0;
  std::set<Slot*, BySlot> in_use;
  std::set<NodeKind*, ByIdle> idle;
};

/// The table of nodes. Indexes hold exactly the devices that have not failed, of nodes that take leases.
class Cluster {
public:
  using Nodes = std::map<std::string, Node, std::less<>>;
  using Kinds = std::map<std::pair<std::string, std::uint64_t>, DeviceKind>;

  /// Adds a node that is not there yet.
  Node& add(NodeSpec spec, std::uint64_t pool_id);

  /// Removes a node of which all is free.
  void remove(Node& node);

  void drain(Node& node);
  void undrain(Node& node);

  void fail(Node& node, Slot& slot);

  [[nodiscard]] Node* find(std::string_view name);
  [[nodiscard]] const Node* find(std::string_view name) const;

  /// Takes amounts from any pool, which must have them, or gives them back.
  void take(Pool& pool, const std::vector<DeviceGrant>& devices, Share cpus,
            const std::map<std::string, Share>& resources);
  void give_back(Pool& pool, const std::vector<DeviceGrant>& devices, Share cpus,
                 const std::map<std::string, Share>& resources);

  [[nodiscard]] const Nodes& nodes() const {
    return nodes_;
  }

  [[nodiscard]] const Kinds& kinds() const {
    return kinds_;
  }

  /// First the nodes without devices, then those with some.
  [[nodiscard]] const std::array<std::set<Node*, ByCpus>, 2>& by_cpus() const {
    return by_cpus_;
  }

  /// Nodes with devices of more than one kind, by name.
  [[nodiscard]] const std::map<std::string_view, Node*>& mixed() const {
    return mixed_;
  }

  /// Built on the first call and kept up from then on: most programs never spread.
  [[nodiscard]] const std::set<Node*, ByFreeShare>& by_free_share();

  /// Grows with every change of what is free.
  [[nodiscard]] std::uint64_t version() const {
    return version_;
  }

  /// Recomputes the indexes and aborts where they differ. Slow: for tests.
  void check() const;

private:
  [[nodiscard]] std::set<Node*, ByCpus>& cpus_with(const Node& node) {
    return by_cpus_[node.pool.slots.empty() ? 0 : 1];
  }

  void set_order(Nodes::iterator it);
  void enter(Node& node);
  void leave(Node& node);
  void enter(Node& node, Slot& slot);
  void leave(Node& node, Slot& slot);

  // Applies `change` to the pool with its node out of the indexes that it can touch.
  template <class Change>
  void update(Pool& pool, const std::vector<DeviceGrant>& devices, bool cpus_change, Change change);

  Nodes nodes_;
  Kinds kinds_;
  std::array<std::set<Node*, ByCpus>, 2> by_cpus_;
  std::set<Node*, ByFreeShare> by_free_share_;
  std::map<std::string_view, Node*> mixed_;
  bool spreads_ = false;
  std::uint64_t version_ = 0;
};

} // namespace gpuactors::ledger_detail
