#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/suggest.hpp>
#include <gpuactors/cluster/described_types.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace gpuactors {

namespace {

/// Methods may be called whatever can be shown on a line.
bool is_method_name(std::string_view name) noexcept {
  return !name.empty() && name.size() <= limits::name_length
         && std::none_of(name.begin(), name.end(), [](unsigned char c) { return std::iscntrl(c) != 0; });
}

/// Keeps the entries with proper names, in the order of these.
template <class List>
void tidy(List& list, bool (*proper)(std::string_view) noexcept) {
  list.erase(std::remove_if(list.begin(), list.end(), [&](const auto& entry) { return !proper(entry.name()); }),
             list.end());
  std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.name() < b.name(); });
}

v1::TypeCatalog tidied(v1::TypeCatalog catalog) {
  tidy(*catalog.mutable_tasks(), is_type_name);
  tidy(*catalog.mutable_actors(), is_type_name);
  for (auto& actor : *catalog.mutable_actors())
    tidy(*actor.mutable_methods(), is_method_name);
  return catalog;
}

template <class List>
auto find_in(const List& list, std::string_view name, std::string_view what) -> Result<decltype(&*list.begin())> {
  std::vector<std::string> names;
  for (const auto& entry : list) {
    if (entry.name() == name)
      return &entry;
    names.push_back(entry.name());
  }
  return fail(Errc::not_found,
              fmt::format("{} \"{}\"{}", what, name, names.empty() ? ": none is known" : did_you_mean(name, names)));
}

} // namespace

DescribedTypes::DescribedTypes(v1::TypeCatalog catalog)
  : catalog_(std::make_shared<const v1::TypeCatalog>(tidied(std::move(catalog)))), messages_(catalog_->files()) {
  // nop
}

DescribedTypes DescribedTypes::of(const TypeRegistry& registry) {
  return DescribedTypes{describe_types(registry)};
}

Result<const v1::TaskDescription*> DescribedTypes::find_task(std::string_view name) const {
  return find_in(catalog_->tasks(), name, "there is no task type");
}

Result<const v1::ActorDescription*> DescribedTypes::find_actor(std::string_view name) const {
  return find_in(catalog_->actors(), name, "there is no actor type");
}

Result<const v1::MethodDescription*> DescribedTypes::find_method(const v1::ActorDescription& actor,
                                                                 std::string_view method) {
  return find_in(actor.methods(), method, fmt::format("actor type {} has no method", actor.name()));
}

} // namespace gpuactors
