// The queue of waiting requests and groups, ordered by priority, then age. It also groups them by shape, so that a
// wake-up checks each shape once instead of each request.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/ledger/wakes.hpp>

#include <compare>
#include <map>
#include <memory>
#include <set>

namespace gpuactors::ledger_detail {

/// Whether the registered nodes can serve a shape.
struct Prospect {
  /// The shape fits once other leases are released. If false, it waits for nodes, drained or new ones.
  bool feasible = true;
  /// A place can also be reserved for the shape. False if it waits for a placement group, or fits only as a loan.
  bool reservable = true;
  /// Not feasible, but it would be if no node were drained. So it waits, and is never refused as infeasible.
  bool drained = false;
  /// What a grant takes of the quota of its owner at least, in units; 0 if no quota applies.
  std::int64_t charge = 0;

  /// Whether only a new node could serve the shape.
  [[nodiscard]] bool needs_new_node() const {
    return !feasible && !drained;
  }
};

/// A set of ages in ascending order. A single age needs no allocation: that is the case of every shape if all requests
/// differ.
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
  // The larger ages; null if there are none.
  std::unique_ptr<std::set<std::uint64_t>> others_;
};

/// The text why a shape waits, and the version of the table for which it is valid.
struct Reason {
  std::string text;
  std::uint64_t version = 0;
};

/// The waiting entries of one shape.
struct Shape {
  const ShapeKey* key = nullptr;
  /// Ages of the entries; their priority is that of `key`.
  Ages ages;
  Prospect prospect;
  /// Cached once a second entry has needed it; else null.
  std::unique_ptr<Reason> reason;

  [[nodiscard]] QueueKey head() const {
    return {key->request.priority, ages.least()};
  }

  /// Visits where the entries are in the queue, in its order.
  template <class Visit>
  void for_each_entry(Visit visit) const {
    ages.for_each([&](std::uint64_t age) { visit(QueueKey{key->request.priority, age}); });
  }
};

/// One waiting request or group.
struct Entry {
  QueueKey key;
  /// Exactly one of the two is set.
  RequestId request;
  GroupId group;
  std::string name;
  /// Also set if no quota applies to it; null: nobody.
  std::unique_ptr<const std::string> owner;
  TimePoint since;
  TimePoint deadline = never;
  bool wait_for_nodes = false;
  Shape* shape = nullptr;

  [[nodiscard]] std::string owner_name() const {
    return owner == nullptr ? std::string{} : *owner;
  }

  /// Takes a pointer's place in a million entries that have no owner.
  [[nodiscard]] static std::unique_ptr<const std::string> owned_by(std::string name) {
    return name.empty() ? nullptr : std::make_unique<const std::string>(std::move(name));
  }
};

/// The waiting requests and groups.
class Queue {
public:
  using Shapes = std::map<ShapeKey, Shape, ShapeLess>;
  using Heads = std::map<QueueKey, Shape*>;

  /// Finds or creates the shape, which is deleted with its last entry.
  Shape& shape_of(ShapeKey key, Prospect prospect);

  /// Returns the shape, or null if no entry has it.
  [[nodiscard]] Shape* find_shape(const ShapeKey& key);

  /// Adds an entry, whose `shape` is set.
  Entry& add(Entry entry);

  /// Removes an entry, and its shape if it was the last one.
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

  /// Returns the first entry of every feasible shape without a bounded owner, in the order of the queue. Those of
  /// owners with a quota are in `wakes().owned()`.
  [[nodiscard]] const Heads& heads() const {
    return heads_;
  }

  /// Returns the index of the shapes that are worth a try when resources become free.
  [[nodiscard]] const Wakes& wakes() const {
    return wakes_;
  }

  /// Returns the deadlines of the entries, the earliest first.
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
  // Add a shape to `heads_` and `wakes_`, or remove it from them.
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
