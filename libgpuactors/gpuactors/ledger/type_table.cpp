#include <gpuactors/ledger/check.hpp>
#include <gpuactors/ledger/type_table.hpp>

#include <algorithm>

namespace gpuactors::ledger_detail {

bool has_type(const TypeSet* set, TypeId type) noexcept {
  return !type || set == nullptr || std::binary_search(set->begin(), set->end(), type);
}

TypeId TypeTable::number_of(std::string_view name) {
  if (const auto known = numbers_.find(name); known != numbers_.end())
    return known->second;
  const TypeId type{++last_};
  const auto added = numbers_.emplace(name, type).first;
  names_.emplace(type, added->first);
  return type;
}

TypeId TypeTable::find(std::string_view name) const {
  const auto known = numbers_.find(name);
  return known == numbers_.end() ? TypeId{} : known->second;
}

std::string_view TypeTable::name_of(TypeId type) const {
  const auto known = names_.find(type);
  return known == names_.end() ? std::string_view{} : known->second;
}

const TypeSet* TypeTable::enter(const std::vector<std::string>& names) {
  TypeSet set;
  set.reserve(names.size());
  for (const auto& name : names)
    set.push_back(number_of(name));
  std::sort(set.begin(), set.end());
  set.erase(std::unique(set.begin(), set.end()), set.end());
  const auto entry = sets_.try_emplace(std::move(set), 0).first;
  ++entry->second;
  return &entry->first;
}

void TypeTable::leave(const TypeSet* set) {
  if (set == nullptr)
    return;
  const auto entry = sets_.find(*set);
  GPUACTORS_LEDGER_CHECK(entry != sets_.end(), "the types of a node are not in their table");
  if (--entry->second == 0)
    sets_.erase(entry);
}

std::size_t TypeTable::lacking(TypeId type) const {
  std::size_t count = 0;
  for (const auto& [set, nodes] : sets_)
    count += has_type(&set, type) ? 0 : nodes;
  return count;
}

std::vector<std::string> TypeTable::known() const {
  std::set<std::string_view> names;
  for (const auto& [set, nodes] : sets_)
    for (const auto type : set)
      names.insert(name_of(type));
  return {names.begin(), names.end()};
}

void TypeTable::forget_all_but(std::set<TypeId> needed) {
  for (const auto& [set, nodes] : sets_)
    needed.insert(set.begin(), set.end());
  std::erase_if(names_, [&](const auto& entry) { return needed.count(entry.first) == 0; });
  std::erase_if(numbers_, [&](const auto& entry) { return needed.count(entry.second) == 0; });
}

} // namespace gpuactors::ledger_detail
