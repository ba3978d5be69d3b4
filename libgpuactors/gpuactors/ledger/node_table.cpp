#include <gpuactors/ledger/check.hpp>
#include <gpuactors/ledger/node_table.hpp>

#include <algorithm>
#include <limits>
#include <tuple>

namespace gpuactors::ledger_detail {

Node& NodeTable::add(NodeSpec spec, std::uint64_t pool_id) {
  const auto name = spec.name;
  const auto [it, added] = nodes_.try_emplace(name);
  GPUACTORS_LEDGER_CHECK(added, "a node was added twice");
  set_order(it);
  auto& node = it->second;
  node.spec = std::move(spec);
  node.topology = Topology{node.spec};
  if (node.spec.types)
    node.types = types_.enter(*node.spec.types);
  // Many nodes with many equal names of types would take memory for each of them.
  node.spec.types.reset();
  node.pool = Pool{pool_id, &node, node.spec.cpus, node.spec.cpus, node.spec.resources, node.spec.resources, {}};
  for (std::size_t i = 0; i < node.spec.devices.size(); ++i) {
    const auto& device = node.spec.devices[i];
    auto& kind = kinds_[{device.accelerator_type, device.memory_bytes}];
    kind.accelerator_type = device.accelerator_type;
    kind.memory_bytes = device.memory_bytes;
    auto known = std::find_if(node.kinds.begin(), node.kinds.end(), [&](const auto& k) { return k.kind == &kind; });
    if (known == node.kinds.end()) {
      known = node.kinds.insert(known, NodeKind{&node, &kind, 0});
      ++kind.nodes;
    }
    node.pool.slots.push_back({&node, static_cast<int>(i), static_cast<std::size_t>(known - node.kinds.begin()), true,
                               Share::whole(1), Share::whole(1), device.memory_bytes, device.memory_bytes});
  }
  node.free_share = Share::whole(static_cast<std::int64_t>(node.pool.slots.size()));
  if (node.kinds.size() > 1)
    mixed_.emplace(it->first, &node);
  enter(node);
  ++version_;
  return node;
}

void NodeTable::set_order(Nodes::iterator it) {
  constexpr auto last = std::numeric_limits<std::uint64_t>::max();
  const auto below = it == nodes_.begin() ? 0 : std::prev(it)->second.order;
  const auto next = std::next(it);
  // Most new names come last: the fixed stride leaves room after them, where halving the remaining range would soon
  // exhaust it.
  constexpr auto stride = std::uint64_t{1} << 32;
  const auto above =
      next == nodes_.end() ? (below < last - 2 * stride ? below + 2 * stride : last) : next->second.order;
  if (above - below >= 2) {
    it->second.order = below + (above - below) / 2;
    return;
  }
  // No number is free between the neighbours: renumbers all nodes. Their relative order is unchanged, so the indexes
  // stay sorted.
  const auto step = last / (nodes_.size() + 1);
  std::uint64_t order = 0;
  for (auto& [name, node] : nodes_)
    node.order = order += step;
}

void NodeTable::remove(Node& node) {
  GPUACTORS_LEDGER_CHECK(node.pool.is_untouched(), "a node was removed while something on it is held");
  if (node.takes_leases())
    leave(node);
  else
    --drained_;
  mixed_.erase(node.spec.name);
  types_.leave(node.types);
  for (const auto& kind : node.kinds)
    if (--kind.kind->nodes == 0)
      kinds_.erase(kinds_.find({kind.kind->accelerator_type, kind.kind->memory_bytes}));
  ++version_;
  nodes_.erase(nodes_.find(node.spec.name));
}

void NodeTable::drain(Node& node) {
  if (!node.takes_leases())
    return;
  leave(node);
  node.state = NodeState::draining;
  ++drained_;
  ++version_;
}

void NodeTable::undrain(Node& node) {
  if (node.takes_leases())
    return;
  node.state = NodeState::ok;
  --drained_;
  enter(node);
  ++version_;
}

void NodeTable::suspend(Node& node, bool suspended) {
  node.suspended = suspended;
  ++version_;
}

bool NodeTable::set_types(Node& node, const std::optional<std::vector<std::string>>& types) {
  const auto* const before = node.types;
  node.types = types ? types_.enter(*types) : nullptr;
  // Equal sets are one, which is still there: it is left only now.
  types_.leave(before);
  ++version_;
  return node.types != before;
}

void NodeTable::fail(Node& node, Slot& slot) {
  if (!slot.ok)
    return;
  const bool indexed = node.takes_leases();
  if (indexed)
    leave(node);
  slot.ok = false;
  node.free_share -= slot.free_share;
  if (indexed)
    enter(node);
  ++version_;
}

Node* NodeTable::find(std::string_view name) {
  const auto it = nodes_.find(name);
  return it == nodes_.end() ? nullptr : &it->second;
}

const Node* NodeTable::find(std::string_view name) const {
  const auto it = nodes_.find(name);
  return it == nodes_.end() ? nullptr : &it->second;
}

std::vector<std::string> NodeTable::names() const {
  std::vector<std::string> names;
  for (const auto& [name, node] : nodes_)
    names.push_back(name);
  return names;
}

// -- amounts ---------------------------------------------------------------------------------------

template <class Change>
void NodeTable::update(Pool& pool, const std::vector<DeviceGrant>& devices, bool cpus_change, Change change) {
  auto& node = *pool.node;
  if (&pool != &node.pool) {
    change();
    return;
  }
  ++version_;
  const bool indexed = node.takes_leases();
  const bool reorders = cpus_change || !devices.empty();
  if (indexed && cpus_change)
    cpus_with(node).erase(&node);
  if (indexed && spreads_ && reorders)
    by_free_share_.erase(&node);
  for (const auto& device : devices)
    if (auto& slot = *pool.slot(device.index); slot.ok) {
      if (indexed)
        leave(node, slot);
      node.free_share -= slot.free_share;
    }
  change();
  for (const auto& device : devices)
    if (auto& slot = *pool.slot(device.index); slot.ok) {
      if (indexed)
        enter(node, slot);
      node.free_share += slot.free_share;
    }
  if (indexed && cpus_change)
    cpus_with(node).insert(&node);
  if (indexed && spreads_ && reorders)
    by_free_share_.insert(&node);
}

void NodeTable::take(Pool& pool, const std::vector<DeviceGrant>& devices, Share cpus,
                     const std::map<std::string, Share>& resources) {
  update(pool, devices, cpus > Share{}, [&] {
    for (const auto& device : devices) {
      auto* slot = pool.slot(device.index);
      GPUACTORS_LEDGER_CHECK(slot->free_share >= device.share, "a device was granted beyond its share");
      GPUACTORS_LEDGER_CHECK(slot->free_bytes >= device.memory_bytes, "a device was granted beyond its memory");
      slot->free_share -= device.share;
      slot->free_bytes -= device.memory_bytes;
    }
    GPUACTORS_LEDGER_CHECK(pool.free_cpus >= cpus, "a node was granted beyond its cpus");
    pool.free_cpus -= cpus;
    for (const auto& [name, amount] : resources) {
      if (amount == Share{})
        continue;
      auto it = pool.free_resources.find(name);
      GPUACTORS_LEDGER_CHECK(it != pool.free_resources.end() && it->second >= amount,
                             "a node was granted beyond a custom resource");
      it->second -= amount;
    }
  });
}

void NodeTable::give_back(Pool& pool, const std::vector<DeviceGrant>& devices, Share cpus,
                          const std::map<std::string, Share>& resources) {
  update(pool, devices, cpus > Share{}, [&] {
    for (const auto& device : devices) {
      auto* slot = pool.slot(device.index);
      slot->free_share += device.share;
      slot->free_bytes += device.memory_bytes;
      GPUACTORS_LEDGER_CHECK(slot->free_share <= slot->share, "a share of a device was given back twice");
      GPUACTORS_LEDGER_CHECK(slot->free_bytes <= slot->bytes, "memory of a device was given back twice");
    }
    pool.free_cpus += cpus;
    GPUACTORS_LEDGER_CHECK(pool.free_cpus <= pool.cpus, "cpus were given back twice");
    for (const auto& [name, amount] : resources) {
      if (amount == Share{})
        continue;
      auto it = pool.free_resources.find(name);
      GPUACTORS_LEDGER_CHECK(it != pool.free_resources.end(), "an unknown custom resource was given back");
      it->second += amount;
      GPUACTORS_LEDGER_CHECK(it->second <= pool.resources.at(name), "a custom resource was given back twice");
    }
  });
}

} // namespace gpuactors::ledger_detail
