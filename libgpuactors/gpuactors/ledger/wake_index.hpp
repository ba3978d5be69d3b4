// Finds who in the queue could be served by what is free, without asking everyone.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace gpuactors::ledger_detail {

/// A place in the queue; less is served first.
struct QueueKey {
  int priority = 0;
  std::uint64_t age = 0;

  friend bool operator==(QueueKey, QueueKey) = default;

  friend std::strong_ordering operator<=>(QueueKey a, QueueKey b) {
    return a.priority != b.priority ? b.priority <=> a.priority : a.age <=> b.age;
  }
};

struct Shape;

/// What a shape is measured by. One number each, so that one comparison tells most of those that cannot be served.
enum class Measure : std::uint8_t {
  /// Whole devices of one node.
  devices,
  /// Share of one device, in 1/10000.
  share,
  /// Bytes of one device.
  bytes,
  /// Cpus of a node, in 1/10000, for what needs no device.
  cpus,
};

inline constexpr std::size_t measures = 4;

/// How much of each there is at most for one request: no more fits, but not all that is within these bounds does.
using Limits = std::array<std::int64_t, measures>;

/// What a shape needs, side by side: devices, or share of one device; bytes of one device; cpus; two custom resources.
inline constexpr std::size_t dimensions = 5;
using Amounts = std::array<std::int64_t, dimensions>;

/// Shapes by their place in the queue, in a balanced tree that knows the least needs below each of its nodes.
class WakeIndex {
public:
  void insert(QueueKey key, const Amounts& needs, Shape* shape);
  void erase(QueueKey key);

  /// The first shape behind `after` (from the front, if it is null) whose needs are all within the limits; null if
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
    // Heap order; a hash of the key, so that the tree is balanced and always the same.
    std::uint32_t weight = 0;
    Index left = none;
    Index right = none;
    // The least that anything in this subtree needs, each dimension by itself.
    Amounts least{};
  };

  [[nodiscard]] bool may_hold(Index at, const Amounts& limits) const;
  void update(Index at);
  Index merge(Index a, Index b);
  // Splits into what comes before `key` and the rest.
  std::pair<Index, Index> split(Index at, QueueKey key);
  Index erase_from(Index at, QueueKey key);
  [[nodiscard]] Index first_within(Index at, const QueueKey* after, const Amounts& limits) const;

  std::vector<Node> nodes_;
  std::vector<Index> unused_;
  Index root_ = none;
};

} // namespace gpuactors::ledger_detail
