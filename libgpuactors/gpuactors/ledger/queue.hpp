// What waits, in order of priority, then age; and the same by shape, so that a wake-up asks once for each shape and not
// once for each request.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/ledger/wakes.hpp>

#include <compare>
#include <map>
#include <memory>
#include <set>

namespace gpuactors::ledger_detail {

/// What a shape can hope for from the nodes that there are.
struct Prospect {
  /// It could be satisfied if others gave back what they hold. If not, it waits for nodes.
  bool feasible = true;
  /// And a place for it could be held back: it does not wait for a placement group, or for a loan alone.
  bool reservable = true;
};

/// Ages in ascending order. A single one, as all shapes have where all requests differ, costs no allocation.
class Ages {
public:
  void insert(std::uint64_t age);
  void erase(std::uint64_t age);

  [[nodiscard]] bool empty() const {
    return least_ == 0;
  }

  [[nodiscard]] std::size_t size() const {
    return empty() ? 0 : 1 + (others_ ? others_->size() : 0);
  }

  [[nodiscard]] bool contains(std::uint64_t age) const {
    return age == least_ || (others_ && others_->count(age) > 0);
  }

  [[nodiscard]] std::uint64_t least() const {
    return least_;
  }

  template <class Visit>
  void for_each(Visit visit) const {
    if (!empty())
      visit(least_);
    if (others_)
      for (const auto age : *others_)
        visit(age);
  }

private:
  // Ages count from 1.
  std::uint64_t least_ = 0;
  // Null when there is none.
  std::unique_ptr<std::set<std::uint64_t>> others_;
};

/// Why a shape waits, and the version of the cluster that this is true of.
struct Reason {
  std::string text;
  std::uint64_t version = 0;
};

/// All that waits with one shape.
struct Shape {
  const ShapeKey* key = nullptr;
  /// Ages of what waits; all have the priority of the key.
  Ages ages;
  Prospect prospect;
  /// Once it has been told to more than one.
  std::unique_ptr<Reason> reason;

  [[nodiscard]] QueueKey head() const {
    return {key->request.priority, ages.least()};
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

  /// Who is worth asking.
  [[nodiscard]] const Wakes& wakes() const {
    return wakes_;
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
  Wakes wakes_;
  std::set<std::pair<TimePoint, QueueKey>> deadlines_;
  std::uint64_t age_ = 0;
};

} // namespace gpuactors::ledger_detail
