// Wakes: finds the shapes that are worth a try when resources become free. An index of the waiting shapes by the places
// where they can be served and by their needs.
//
// A waiting shape did not fit before. So when a few nodes or bundles get something back, only shapes that fit there can
// be served. Each of these pools is considered by itself: which shapes may go there, and which of them need no more
// than it has. Shapes are separated by what excludes them altogether (node, labels, type, names of resources) and by
// the magnitude of their needs, because a tree prunes well only if its shapes lack the same thing.
#pragma once

#include <gpuactors/ledger/cluster.hpp>
#include <gpuactors/ledger/need.hpp>
#include <gpuactors/ledger/wake_index.hpp>

#include <map>

namespace gpuactors::ledger_detail {

/// Pools that have more free than when the queue was last served, each with its group if it is a bundle.
using Freed = std::map<const Pool*, GroupId>;

/// The index of the feasible shapes.
class Wakes {
public:
  void insert(Shape& shape);
  void erase(Shape& shape);

  /// Returns the first shape behind `after` (from the front if null) that is worth a try, seen through `lens`; null if
  /// there is none. Groups, and requests that may borrow, are considered regardless of `freed`; a group only if its
  /// largest bundle is within the most that is free anywhere.
  [[nodiscard]] std::pair<QueueKey, Shape*> next(const QueueKey* after, const Cluster& cluster, const Freed& freed,
                                                 const Lens& lens) const;

  [[nodiscard]] std::size_t size() const {
    return size_;
  }

private:
  // The places where a shape can be served.
  struct Place {
    enum class Kind : std::uint8_t {
      // On any node that meets the other constraints.
      anywhere,
      // On the node of this name.
      node,
      // On nodes with this label: "zone=a".
      label,
      // In the bundles of this group.
      bundle,
      // On any node, or from what a lease lends.
      loan,
      // On several nodes.
      group,
    };

    Kind kind = Kind::anywhere;
    std::string name;
    GroupId group;

    friend auto operator<=>(const Place&, const Place&) = default;
  };

  // The common properties of the shapes in one tree.
  struct Class {
    Measure measure = Measure::share;
    std::string accelerator_type;
    // Names of the custom resources in the last dimensions; further ones are ignored.
    std::vector<std::string> resources;
    LabelConditions labels;
    // The number of bits of each need.
    std::array<std::uint8_t, dimensions> magnitude{};

    friend auto operator<=>(const Class&, const Class&) = default;
  };

  using Classes = std::map<Class, WakeIndex>;

  static Place place_of(const ShapeKey& key);
  static std::pair<Class, Amounts> class_of(const ShapeKey& key);
  static Amounts limits_in(const Pool& pool, const Class& of, const Lens& lens);

  // The parameters of one search and its best result so far.
  struct Search;
  void search(Search& search, const Place& place, const Pool& pool) const;

  std::map<Place, Classes> places_;
  std::size_t size_ = 0;
};

} // namespace gpuactors::ledger_detail
