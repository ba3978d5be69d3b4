// TypeTable: the types of tasks and actors that nodes have, as numbers. Names are looked up once for each request and
// node; whoever looks for a place compares numbers. Nodes with equal types share one set of them.
#pragma once

#include <gpuactors/base/ids.hpp>

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace gpuactors::ledger_detail {

/// Numbers of types, ascending.
using TypeSet = std::vector<TypeId>;

/// Returns whether the set has the type. Every set has "no type", and null has all: it is that of a node whose types
/// are unknown.
[[nodiscard]] bool has_type(const TypeSet* set, TypeId type) noexcept;

class TypeTable {
public:
  /// Returns the number of a name, a new one if the name has none. Numbers are never used for another name.
  TypeId number_of(std::string_view name);

  /// Returns the number of a name; none if it has none.
  [[nodiscard]] TypeId find(std::string_view name) const;

  /// Returns the name of a number, or an empty one.
  [[nodiscard]] std::string_view name_of(TypeId type) const;

  /// Counts a node with these types. The set stays at one address until all such nodes have left.
  const TypeSet* enter(const std::vector<std::string>& names);
  void leave(const TypeSet* set);

  /// Returns how many nodes do not have the type.
  [[nodiscard]] std::size_t lacking(TypeId type) const;

  /// Returns the names of the types that any node has, in their order.
  [[nodiscard]] std::vector<std::string> known() const;

  /// Forgets names that neither a node nor `needed` has.
  void forget_all_but(std::set<TypeId> needed);

  [[nodiscard]] std::size_t size() const noexcept {
    return numbers_.size();
  }

private:
  std::map<std::string, TypeId, std::less<>> numbers_;
  // Views of the keys of `numbers_`.
  std::map<TypeId, std::string_view> names_;
  // With the number of nodes that have exactly these types.
  std::map<TypeSet, std::size_t> sets_;
  std::uint64_t last_ = 0;
};

} // namespace gpuactors::ledger_detail
