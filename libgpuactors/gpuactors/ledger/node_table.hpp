// The nodes, and the indexes that find room without visiting all of them.
#pragma once

#include <gpuactors/ledger/node.hpp>
#include <gpuactors/ledger/pool.hpp>
#include <gpuactors/ledger/topology.hpp>
#include <gpuactors/ledger/type_table.hpp>
#include <gpuactors/ledger/view.hpp>

#include <array>
#include <set>
#include <string_view>

namespace gpuactors::ledger_detail {

struct DevicesOfKind;

/// The number of idle devices of one kind in one node.
struct NodeKind {
  Node* node = nullptr;
  DevicesOfKind* kind = nullptr;
  int idle = 0;
};

/// A registered node. Lives at one address from `NodeTable::add` to `NodeTable::remove`.
struct Node {
  NodeSpec spec;
  NodeState state = NodeState::ok;
  /// Nothing is granted there for now; see `Ledger::suspend_node`.
  bool suspended = false;
  /// Sorts nodes as their names do, so that indexes compare a number instead of a name.
  std::uint64_t order = 0;
  Pool pool;
  /// Free share summed over the devices that have not failed.
  Share free_share;
  std::vector<NodeKind> kinds;
  Topology topology;
  /// In `NodeTable::types`; `spec` has no names of them. Null: unknown.
  const TypeSet* types = nullptr;

  [[nodiscard]] const DeviceSpec& device(const Slot& slot) const {
    return spec.devices[static_cast<std::size_t>(slot.index)];
  }

  [[nodiscard]] bool takes_leases() const {
    return state == NodeState::ok;
  }
};

/// Orders the devices in fractional use that are not full: least free share, least free memory, node, index.
struct BySlot {
  using is_transparent = void;
  bool operator()(const Slot* a, const Slot* b) const;
  bool operator()(const Slot* a, const Need& b) const;
};

/// Orders the nodes with idle devices of a kind: fewest idle devices, then node.
struct ByIdle {
  using is_transparent = void;
  bool operator()(const NodeKind* a, const NodeKind* b) const;
  bool operator()(const NodeKind* a, int idle) const;
};

/// Orders nodes for requests without devices: least free cpus, then node.
struct ByCpus {
  bool operator()(const Node* a, const Node* b) const;
};

/// Orders nodes for spreading: most free share, then most free cpus, then node.
struct ByFreeShare {
  bool operator()(const Node* a, const Node* b) const;
};

/// The devices of one type and memory size.
struct DevicesOfKind {
  std::string accelerator_type;
  std::uint64_t memory_bytes = 0;
  std::set<Slot*, BySlot> in_use;
  std::set<NodeKind*, ByIdle> idle;
  /// The nodes that have such devices; the kind goes with the last one.
  std::size_t nodes = 0;
};

/// The table of nodes. Its indexes cover the devices that have not failed, on nodes that take leases.
class NodeTable {
public:
  using Nodes = std::map<std::string, Node, std::less<>>;
  using Kinds = std::map<std::pair<std::string, std::uint64_t>, DevicesOfKind>;

  /// Adds a node with a new name.
  Node& add(NodeSpec spec, std::uint64_t pool_id);

  /// Removes a node whose resources are all free.
  void remove(Node& node);

  void drain(Node& node);
  void undrain(Node& node);

  /// The node stays in the indexes: what searches them skips it.
  void suspend(Node& node, bool suspended);

  /// @returns whether the node had others before.
  bool set_types(Node& node, const std::optional<std::vector<std::string>>& types);

  void fail(Node& node, Slot& slot);

  [[nodiscard]] Node* find(std::string_view name);
  [[nodiscard]] const Node* find(std::string_view name) const;

  /// Returns the names of all nodes, in their order.
  [[nodiscard]] std::vector<std::string> names() const;

  /// Take amounts from a pool, which must have them free, or give them back.
  void take(Pool& pool, const std::vector<DeviceGrant>& devices, Share cpus,
            const std::map<std::string, Share>& resources);
  void give_back(Pool& pool, const std::vector<DeviceGrant>& devices, Share cpus,
                 const std::map<std::string, Share>& resources);

  [[nodiscard]] const Nodes& nodes() const {
    return nodes_;
  }

  /// Likewise, for who takes amounts from what is found there.
  [[nodiscard]] Nodes& nodes() {
    return nodes_;
  }

  [[nodiscard]] const Kinds& kinds() const {
    return kinds_;
  }

  /// Returns whether any node is drained.
  [[nodiscard]] bool has_drained() const {
    return drained_ > 0;
  }

  /// Returns two indexes: first the nodes without devices, then those with devices.
  [[nodiscard]] const std::array<std::set<Node*, ByCpus>, 2>& by_cpus() const {
    return by_cpus_;
  }

  /// Returns the nodes with devices of more than one kind, by name.
  [[nodiscard]] const std::map<std::string_view, Node*>& mixed() const {
    return mixed_;
  }

  /// Returns the index for spreading. It is built on the first call and maintained from then on, because most programs
  /// never spread.
  [[nodiscard]] const std::set<Node*, ByFreeShare>& by_free_share();

  /// Returns the table of the types that nodes have.
  [[nodiscard]] TypeTable& types() {
    return types_;
  }

  [[nodiscard]] const TypeTable& types() const {
    return types_;
  }

  /// Returns a number that grows with every change of the free amounts.
  [[nodiscard]] std::uint64_t version() const {
    return version_;
  }

  /// Recomputes the indexes and aborts if they differ. Slow: for tests.
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

  // Applies `change` to the pool while its node is out of the indexes whose order the change can affect.
  template <class Change>
  void update(Pool& pool, const std::vector<DeviceGrant>& devices, bool cpus_change, Change change);

  Nodes nodes_;
  Kinds kinds_;
  std::array<std::set<Node*, ByCpus>, 2> by_cpus_;
  std::set<Node*, ByFreeShare> by_free_share_;
  std::map<std::string_view, Node*> mixed_;
  TypeTable types_;
  bool spreads_ = false;
  std::size_t drained_ = 0;
  std::uint64_t version_ = 0;
};

} // namespace gpuactors::ledger_detail
