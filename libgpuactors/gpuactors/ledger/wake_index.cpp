#include <gpuactors/ledger/check.hpp>
#include <gpuactors/ledger/wake_index.hpp>

#include <algorithm>

namespace gpuactors::ledger_detail {

namespace {

// Hashes the key with the finalizer of splitmix64, which gives neighbouring ages unrelated weights.
std::uint32_t weight_of(QueueKey key) {
  auto z = key.age + (static_cast<std::uint64_t>(static_cast<std::uint32_t>(key.priority)) << 40);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return static_cast<std::uint32_t>((z ^ (z >> 31)) >> 32);
}

bool within(const Amounts& needs, const Amounts& limits) {
  for (std::size_t i = 0; i < dimensions; ++i)
    if (needs[i] > limits[i])
      return false;
  return true;
}

} // namespace

bool WakeIndex::may_hold(Index at, const Amounts& limits) const {
  return at != none && within(nodes_[at].least, limits);
}

void WakeIndex::update(Index at) {
  auto& node = nodes_[at];
  node.least = node.needs;
  for (const auto child : {node.left, node.right})
    if (child != none)
      for (std::size_t i = 0; i < dimensions; ++i)
        node.least[i] = std::min(node.least[i], nodes_[child].least[i]);
}

WakeIndex::Index WakeIndex::merge(Index a, Index b) {
  if (a == none || b == none)
    return a == none ? b : a;
  if (nodes_[a].weight >= nodes_[b].weight) {
    nodes_[a].right = merge(nodes_[a].right, b);
    update(a);
    return a;
  }
  nodes_[b].left = merge(a, nodes_[b].left);
  update(b);
  return b;
}

std::pair<WakeIndex::Index, WakeIndex::Index> WakeIndex::split(Index at, QueueKey key) {
  if (at == none)
    return {none, none};
  if (nodes_[at].key < key) {
    const auto [before, rest] = split(nodes_[at].right, key);
    nodes_[at].right = before;
    update(at);
    return {at, rest};
  }
  const auto [before, rest] = split(nodes_[at].left, key);
  nodes_[at].left = rest;
  update(at);
  return {before, at};
}

void WakeIndex::insert(QueueKey key, const Amounts& needs, Shape* shape) {
  Index at = 0;
  if (unused_.empty()) {
    at = static_cast<Index>(nodes_.size());
    nodes_.emplace_back();
  } else {
    at = unused_.back();
    unused_.pop_back();
  }
  nodes_[at] = Node{key, shape, needs, weight_of(key), none, none, {}};
  update(at);
  const auto [before, rest] = split(root_, key);
  root_ = merge(merge(before, at), rest);
}

WakeIndex::Index WakeIndex::erase_from(Index at, QueueKey key) {
  GPUACTORS_LEDGER_CHECK(at != none, "a shape is missing from the index that wakes it");
  if (nodes_[at].key == key) {
    unused_.push_back(at);
    return merge(nodes_[at].left, nodes_[at].right);
  }
  if (key < nodes_[at].key)
    nodes_[at].left = erase_from(nodes_[at].left, key);
  else
    nodes_[at].right = erase_from(nodes_[at].right, key);
  update(at);
  return at;
}

void WakeIndex::erase(QueueKey key) {
  root_ = erase_from(root_, key);
  if (root_ == none) {
    nodes_.clear();
    unused_.clear();
  }
}

WakeIndex::Index WakeIndex::first_within(Index at, const QueueKey* after, const Amounts& limits) const {
  if (!may_hold(at, limits))
    return none;
  const auto& node = nodes_[at];
  if (after != nullptr && node.key <= *after)
    return first_within(node.right, after, limits);
  if (const auto found = first_within(node.left, after, limits); found != none)
    return found;
  if (within(node.needs, limits))
    return at;
  // All keys to the right are greater than `after`.
  return first_within(node.right, nullptr, limits);
}

std::pair<QueueKey, Shape*> WakeIndex::next(const QueueKey* after, const Amounts& limits) const {
  const auto found = first_within(root_, after, limits);
  if (found == none)
    return {{}, nullptr};
  return {nodes_[found].key, nodes_[found].shape};
}

} // namespace gpuactors::ledger_detail
