// Who is worth asking when something has become free: an index of what waits by where and by what it waits for.
//
// What waits did not fit before. So when something becomes free in a few nodes or bundles, only what fits there can be
// served, and each is looked at by itself: which shapes may go there, and which of these need no more than it has.
// Shapes are kept apart by what bars them altogether (node, labels, type, names of resources) and by the magnitude of
// their needs, because one tree prunes well only where its shapes are short of the same thing.
#pragma once

#include <gpuactors/ledger/cluster.hpp>
#include <gpuactors/ledger/need.hpp>
#include <gpuactors/ledger/wake_index.hpp>

#include <map>

namespace gpuactors::ledger_detail {

/// Pools that have more free than when the queue was last served, each with the group whose bundle it is.
using Freed = std::map<const Pool*, GroupId>;

/// The feasible shapes.
class Wakes {
public:
  void insert(Shape& shape);
  void erase(Shape& shape);

  /// The first shape behind `after` (from the front, if it is null) that is worth a try; null if there is none. Seen
  /// through `lens`. Groups, and requests that may borrow, are not asked for by what has become free: of groups, the
  /// largest bundle must be within what there is anywhere.
  [[nodiscard]] std::pair<QueueKey, Shape*> next(const QueueKey* after, const Cluster& cluster, const Freed& freed,
                                                 const Lens& lens) const;

  [[nodiscard]] std::size_t size() const {
    return size_;
  }

private:
  // Where a shape can be served.
  struct Place {
    enum class Kind : std::uint8_t {
      // On any node, if the rest is right.
      anywhere,
      // On the node of this name.
      node,
      // On nodes with this label: "zone=a".
      label,
      // In the bundles of this group.
      bundle,
      // On any node, or out of what a lease lends.
      loan,
      // On several nodes.
      group,
    };

    Kind kind = Kind::anywhere;
    std::string name;
    GroupId group;

    friend auto operator<=>(const Place&, const Place&) = default;
  };

  // What shapes in one tree have in common.
  struct Class {
    Measure measure = Measure::share;
    std::string accelerator_type;
    // Those in the last dimensions; if there are more, they are left aside.
    std::vector<std::string> resources;
    LabelConditions labels;
    // The number of binary digits of each need.
    std::array<std::uint8_t, dimensions> magnitude{};

    friend auto operator<=>(const Class&, const Class&) = default;
  };

  using Classes = std::map<Class, WakeIndex>;

  static Place place_of(const ShapeKey& key);
  static std::pair<Class, Amounts> class_of(const ShapeKey& key);
  static Amounts limits_in(const Pool& pool, const Class& of, const Lens& lens);

  // What one search looks for, and the best it has found.
  struct Search;
  void search(Search& search, const Place& place, const Pool& pool) const;

  std::map<Place, Classes> places_;
  std::size_t size_ = 0;
};

} // namespace gpuactors::ledger_detail
