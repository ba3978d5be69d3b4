// Wakes: finds the shapes that are worth a try when resources become free. An index of the waiting shapes by the places
// where they can be served and by their needs.
//
// A waiting shape did not fit before. So when a few nodes or bundles get something back, only shapes that fit there can
// be served. Each of these pools is considered by itself: which shapes may go there, and which of them need no more
// than it has. Shapes are separated by what excludes them altogether (node, labels, types, names of resources) and by
// the magnitude of their needs, because a tree prunes well only if its shapes lack the same thing.
#pragma once

#include <gpuactors/ledger/need.hpp>
#include <gpuactors/ledger/node_table.hpp>
#include <gpuactors/ledger/quotas.hpp>
#include <gpuactors/ledger/wake_index.hpp>

#include <map>
#include <set>

namespace gpuactors::ledger_detail {

/// Pools that have more free than when the queue was last served, each with its group if it is a bundle.
using Freed = std::map<const Pool*, GroupId>;

/// Owners whose quotas have got room for requests that were without, and the least that each had left since the queue
/// was last served: what needs no more than that waits for a place alone.
using Grown = std::map<std::string, std::int64_t>;

/// The index of the feasible shapes.
class Wakes {
public:
  void insert(Shape& shape);
  void erase(Shape& shape);

  /// Returns the first shape behind `after` (from the front if null) that is worth a try, seen through `lens`; null if
  /// there is none. Groups, requests that may borrow, and those of owners in `grown` are considered regardless of
  /// `freed`; a group only if its largest bundle is within the most that is free anywhere. What has no room in its
  /// owner's quota is passed over, unless it may borrow.
  [[nodiscard]] std::pair<QueueKey, Shape*> next(const QueueKey* after, const NodeTable& table, const Freed& freed,
                                                 const Grown& grown, const Lens& lens, const Quotas& quotas) const;

  /// Returns the first shape of the owner behind `after` that may need no more than `room`, but more than `had`; null
  /// if there is none.
  [[nodiscard]] std::pair<QueueKey, Shape*> next_of(const std::string& owner, const QueueKey* after, std::int64_t room,
                                                    std::int64_t had = -1) const;

  /// Returns whether a shape of the owner may need more than `room`.
  [[nodiscard]] bool needs_more(const std::string& owner, std::int64_t room) const;

  /// The shapes of owners with a quota, by owner.
  struct Owned {
    WakeIndex index;
    /// The most that each may need.
    std::multiset<std::int64_t> charges;
  };

  [[nodiscard]] const std::map<std::string, Owned>& owned() const {
    return owned_;
  }

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
    TypeId type;
    std::string owner;
    // The number of bits of each need.
    std::array<std::uint8_t, dimensions> magnitude{};

    friend auto operator<=>(const Class&, const Class&) = default;
  };

  using Classes = std::map<Class, WakeIndex>;

  static Place place_of(const ShapeKey& key);
  static std::pair<Class, Amounts> class_of(const Shape& shape);
  static Amounts limits_in(const Pool& pool, const Class& of, const Lens& lens, const Quotas& quotas);

  // The parameters of one search and its best result so far.
  struct Search;
  void search(Search& search, const Place& place, const Pool& pool) const;

  std::map<Place, Classes> places_;
  std::map<std::string, Owned> owned_;
  std::size_t size_ = 0;
};

} // namespace gpuactors::ledger_detail
