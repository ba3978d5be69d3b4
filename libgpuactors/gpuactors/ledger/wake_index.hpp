// WakeIndex: finds shapes in the queue that fit into given limits, without visiting all of them.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace gpuactors::ledger_detail {

/// A position in the queue; lesser keys are served first.
struct QueueKey {
  int priority = 0;
  std::uint64_t age = 0;

  /// Returns a position behind all of this priority.
  [[nodiscard]] static QueueKey last_of(int priority) {
    return {priority, std::numeric_limits<std::uint64_t>::max()};
  }

  friend bool operator==(QueueKey, QueueKey) = default;

  friend std::strong_ordering operator<=>(QueueKey a, QueueKey b) {
    return a.priority != b.priority ? b.priority <=> a.priority : a.age <=> b.age;
  }
};

struct Shape;

/// The needs of a shape: devices, or share of one device; bytes of one device; cpus; two custom resources.
inline constexpr std::size_t dimensions = 5;
using Amounts = std::array<std::int64_t, dimensions>;

/// The shapes by their position in the queue, in a balanced tree that stores the least needs in each subtree.
class WakeIndex {
public:
  void insert(QueueKey key, const Amounts& needs, Shape* shape);
  void erase(QueueKey key);

  /// Returns the first shape behind `after` (from the front if null) whose needs are all within the limits; null if
  /// there is none.
  [[nodiscard]] std::pair<QueueKey, Shape*> next(const QueueKey* after, const Amounts& limits) const;

  [[nodiscard]] bool empty() const {
    return root_ == none;
  }

  [[nodiscard]] std::size_t size() const {
    return nodes_.size() - unused_.size();
  }

private:
  using Index = std::uint32_t;
  static constexpr Index none = ~Index{0};

  struct Node {
    QueueKey key;
    Shape* shape = nullptr;
    Amounts needs{};
    // The heap order of this treap: a hash of the key, which makes the tree balanced and deterministic.
    std::uint32_t weight = 0;
    Index left = none;
    Index right = none;
    // The least needs in this subtree, in each dimension separately.
    Amounts least{};
  };

  [[nodiscard]] bool may_hold(Index at, const Amounts& limits) const;
  void update(Index at);
  Index merge(Index a, Index b);
  // Splits a subtree into the keys before `key` and the rest.
  std::pair<Index, Index> split(Index at, QueueKey key);
  Index erase_from(Index at, QueueKey key);
  [[nodiscard]] Index first_within(Index at, const QueueKey* after, const Amounts& limits) const;

  std::vector<Node> nodes_;
  std::vector<Index> unused_;
  Index root_ = none;
};

} // namespace gpuactors::ledger_detail
