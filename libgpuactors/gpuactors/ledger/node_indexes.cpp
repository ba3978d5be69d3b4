// The indexes of NodeTable: their orders, and who is in them.
#include <gpuactors/ledger/check.hpp>
#include <gpuactors/ledger/node_table.hpp>

#include <tuple>

namespace gpuactors::ledger_detail {

// -- orders of the indexes -------------------------------------------------------------------------

bool BySlot::operator()(const Slot* a, const Slot* b) const {
  if (a->free_share != b->free_share)
    return a->free_share < b->free_share;
  if (a->free_bytes != b->free_bytes)
    return a->free_bytes < b->free_bytes;
  return std::tie(a->node->order, a->index) < std::tie(b->node->order, b->index);
}

bool BySlot::operator()(const Slot* a, const Need& b) const {
  return a->free_share != b.share ? a->free_share < b.share : a->free_bytes < b.bytes;
}

bool ByIdle::operator()(const NodeKind* a, const NodeKind* b) const {
  return a->idle != b->idle ? a->idle < b->idle : a->node->order < b->node->order;
}

bool ByIdle::operator()(const NodeKind* a, int idle) const {
  return a->idle < idle;
}

bool ByCpus::operator()(const Node* a, const Node* b) const {
  return std::tie(a->pool.free_cpus, a->order) < std::tie(b->pool.free_cpus, b->order);
}

bool ByFreeShare::operator()(const Node* a, const Node* b) const {
  return std::tuple{b->free_share, b->pool.free_cpus, a->order}
         < std::tuple{a->free_share, a->pool.free_cpus, b->order};
}

// -- indexes ---------------------------------------------------------------------------------------

void NodeTable::enter(Node& node) {
  cpus_with(node).insert(&node);
  if (spreads_)
    by_free_share_.insert(&node);
  for (auto& slot : node.pool.slots)
    if (slot.ok)
      enter(node, slot);
}

void NodeTable::leave(Node& node) {
  cpus_with(node).erase(&node);
  if (spreads_)
    by_free_share_.erase(&node);
  for (auto& slot : node.pool.slots)
    if (slot.ok)
      leave(node, slot);
}

void NodeTable::enter(Node& node, Slot& slot) {
  // Every grant takes part of a device's share, so a full device need not be in an index.
  if (slot.free_share == Share{})
    return;
  auto& kind = node.kinds[slot.kind];
  if (slot.free_share < Share::whole(1)) {
    kind.kind->in_use.insert(&slot);
    return;
  }
  if (auto handle = kind.kind->idle.extract(&kind)) {
    ++kind.idle;
    kind.kind->idle.insert(std::move(handle));
  } else {
    ++kind.idle;
    kind.kind->idle.insert(&kind);
  }
}

void NodeTable::leave(Node& node, Slot& slot) {
  if (slot.free_share == Share{})
    return;
  auto& kind = node.kinds[slot.kind];
  if (slot.free_share < Share::whole(1)) {
    kind.kind->in_use.erase(&slot);
    return;
  }
  auto handle = kind.kind->idle.extract(&kind);
  GPUACTORS_LEDGER_CHECK(static_cast<bool>(handle), "an idle device is missing from its index");
  if (--kind.idle > 0)
    kind.kind->idle.insert(std::move(handle));
}

const std::set<Node*, ByFreeShare>& NodeTable::by_free_share() {
  if (!spreads_) {
    spreads_ = true;
    for (auto& [name, node] : nodes_)
      if (node.takes_leases())
        by_free_share_.insert(&node);
  }
  return by_free_share_;
}

// -- check -----------------------------------------------------------------------------------------

void NodeTable::check() const {
  std::size_t in_use = 0;
  std::size_t drained = 0;
  for (const auto& [name, node] : nodes_) {
    drained += node.takes_leases() ? 0 : 1;
    Share free;
    std::map<const DevicesOfKind*, int> idle;
    for (const auto& slot : node.pool.slots) {
      if (!slot.ok)
        continue;
      free += slot.free_share;
      if (!node.takes_leases())
        continue;
      if (slot.free_share == Share::whole(1)) {
        ++idle[node.kinds[slot.kind].kind];
        continue;
      }
      if (slot.free_share == Share{})
        continue;
      ++in_use;
      GPUACTORS_LEDGER_CHECK(node.kinds[slot.kind].kind->in_use.count(const_cast<Slot*>(&slot)) == 1,
                             "a device in use is not in its index");
    }
    GPUACTORS_LEDGER_CHECK(free == node.free_share, "the free share of a node is not the sum over its devices");
    for (const auto& kind : node.kinds) {
      GPUACTORS_LEDGER_CHECK(kind.idle == idle[kind.kind], "a node's count of idle devices is wrong");
      GPUACTORS_LEDGER_CHECK(kind.kind->idle.count(const_cast<NodeKind*>(&kind)) == (kind.idle > 0 ? 1U : 0U),
                             "a node's idle devices are not in their index");
    }
    GPUACTORS_LEDGER_CHECK(by_cpus_[node.pool.slots.empty() ? 0 : 1].count(const_cast<Node*>(&node))
                               == (node.takes_leases() ? 1U : 0U),
                           "a node is not in the index of cpus");
  }
  std::size_t indexed = 0;
  for (const auto& [key, kind] : kinds_)
    indexed += kind.in_use.size();
  GPUACTORS_LEDGER_CHECK(drained == drained_, "the count of drained nodes is wrong");
  GPUACTORS_LEDGER_CHECK(in_use == indexed, "an index names a device that is not in use");
}

} // namespace gpuactors::ledger_detail
