#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/suggest.hpp>
#include <gpuactors/cluster/described_types.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace gpuactors {

namespace {

/// Whether a name is safe to show on one line: a terminal would obey control characters. The bound leaves room for full
/// names of messages.
bool is_plain(std::string_view name) noexcept {
  constexpr std::size_t longest = 8 * limits::name_length;
  return !name.empty() && name.size() <= longest
         && std::none_of(name.begin(), name.end(), [](unsigned char c) { return std::iscntrl(c) != 0; });
}

/// Whether the names of a task or method are safe to show.
template <class Type>
bool is_proper(const Type& type) {
  return is_plain(type.name()) && is_plain(type.input()) && is_plain(type.output());
}

/// Keeps the proper entries, sorted by name.
template <class List, class Proper>
void tidy(List& list, Proper proper) {
  list.erase(std::remove_if(list.begin(), list.end(), [&](const auto& entry) { return !proper(entry); }), list.end());
  std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.name() < b.name(); });
}

v1::TypeCatalog tidied(v1::TypeCatalog catalog) {
  tidy(*catalog.mutable_tasks(), [](const auto& task) { return is_type_name(task.name()) && is_proper(task); });
  tidy(*catalog.mutable_actors(),
       [](const auto& actor) { return is_type_name(actor.name()) && is_plain(actor.config()); });
  for (auto& actor : *catalog.mutable_actors())
    tidy(*actor.mutable_methods(), [](const auto& method) { return is_proper(method); });
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
  return fail(Errc::not_found, fmt::format("{} \"{}\"{}", what, name,
                                           names.empty() ? ": no node has brought one, or there is no node"
                                                         : did_you_mean(name, names)));
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
