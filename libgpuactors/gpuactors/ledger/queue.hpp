// What waits, in order of priority, then age; and the same by shape, so that a wake-up asks once for each shape and not
// once for each request.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/ledger/wake_index.hpp>

#include <compare>
#include <map>
#include <set>

namespace gpuactors::ledger_detail {

/// What a shape can hope for from the nodes that there are.
struct Prospect {
  /// It could be satisfied if others gave back what they hold. If not, it waits for nodes.
  bool feasible = true;
  /// And a place for it could be held back: it does not wait for a placement group, or for a loan alone.
  bool reservable = true;
};

/// All that waits with one shape.
struct Shape {
  const ShapeKey* key = nullptr;
  /// Ages of what waits; all have the priority of the key.
  std::set<std::uint64_t> ages;
  Prospect prospect;
  /// Why the shape waits, and the version of the cluster that this is true of.
  std::string reason;
  std::uint64_t reason_version = 0;

  [[nodiscard]] QueueKey head() const {
    return {key->request.priority, *ages.begin()};
  }
};

/// One request or group that waits.
struct Entry {
  QueueKey key;
  /// Exactly one of the two.
  RequestId request;
  GroupId group;
  std::string name;
  TimePoint since;
  TimePoint deadline = never;
  bool wait_for_nodes = false;
  Shape* shape = nullptr;
};

/// The waiting requests and groups.
class Queue {
public:
  using Shapes = std::map<ShapeKey, Shape, ShapeLess>;
  using Heads = std::map<QueueKey, Shape*>;

  /// Finds or makes the shape; it goes with its last entry.
  Shape& shape_of(ShapeKey key, Prospect prospect);

  /// The shape, if anything of it waits.
  [[nodiscard]] Shape* find_shape(const ShapeKey& key);

  /// Adds an entry of a shape.
  Entry& add(Entry entry);

  /// Removes an entry, and its shape with the last one.
  Entry remove(QueueKey key);

  /// Moves an entry to another shape with the same priority.
  void move(QueueKey key, Shape& to);

  void set_prospect(Shape& shape, Prospect prospect);

  [[nodiscard]] const Entry* find(QueueKey key) const;
  [[nodiscard]] const Entry* find(RequestId id) const;

  [[nodiscard]] const std::map<QueueKey, Entry>& entries() const {
    return entries_;
  }

  [[nodiscard]] Shapes& shapes() {
    return shapes_;
  }

  /// The first entry of every feasible shape, in the order of the queue.
  [[nodiscard]] const Heads& heads() const {
    return heads_;
  }

  /// The first shape behind `after` (from the front, if it is null) that is worth a try. `limits_of` says, for an
  /// accelerator type ("" is any), what there is at most.
  template <class LimitsOf>
  [[nodiscard]] std::pair<QueueKey, Shape*> next(const QueueKey* after, LimitsOf limits_of) const {
    std::pair<QueueKey, Shape*> first{};
    for (const auto& [type, index] : wake_)
      if (const auto found = index.next(after, limits_of(type));
          found.second != nullptr && (first.second == nullptr || found.first < first.first))
        first = found;
    return first;
  }

  /// The first deadlines.
  [[nodiscard]] const std::set<std::pair<TimePoint, QueueKey>>& deadlines() const {
    return deadlines_;
  }

  [[nodiscard]] QueueKey next_key(int priority) {
    return {priority, ++age_};
  }

  void check() const;

private:
  void detach(Shape& shape, std::uint64_t age);
  void attach(Shape& shape, std::uint64_t age);
  // The shape is, or is no longer, to be found by its head.
  void enter(Shape& shape);
  void leave(Shape& shape);

  std::map<QueueKey, Entry> entries_;
  std::map<RequestId, QueueKey> by_request_;
  Shapes shapes_;
  Heads heads_;
  // By accelerator type.
  std::map<std::string, WakeIndex> wake_;
  std::set<std::pair<TimePoint, QueueKey>> deadlines_;
  std::uint64_t age_ = 0;
};

} // namespace gpuactors::ledger_detail
