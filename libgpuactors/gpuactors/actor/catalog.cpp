#include <gpuactors/actor/catalog.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/units.hpp>
#include <gpuactors/wire/message_types.hpp>

#include <fmt/format.h>

#include <utility>

namespace gpuactors {

namespace {

constexpr auto any_word = "any";
constexpr auto whole_word = "whole";
constexpr auto fraction_word = "fraction";

const char* word_for(Ownership ownership) {
  switch (ownership) {
  case Ownership::whole:
    return whole_word;
  case Ownership::fraction:
    return fraction_word;
  case Ownership::any:
    break;
  }
  return any_word;
}

void describe(const Needs& needs, v1::TypeNeeds& out) {
  out.set_gpus(needs.gpus);
  out.set_memory_bytes(needs.memory_bytes);
  out.set_cpus(needs.cpus);
}

/// Describes the properties that tasks and methods have in common.
template <class Type, class Description>
void describe(const Type& type, Description& out, MessageDescriptions& messages) {
  out.set_name(type.name);
  out.set_input(std::string{type.input->full_name()});
  out.set_output(std::string{type.output->full_name()});
  out.set_streamed(type.streamed);
  messages.add(*type.input);
  messages.add(*type.output);
}

} // namespace

v1::TypeCatalog describe_types(const TypeRegistry& registry) {
  v1::TypeCatalog catalog;
  MessageDescriptions messages;
  for (const auto* task : registry.tasks()) {
    auto& out = *catalog.add_tasks();
    describe(*task, out, messages);
    describe(task->needs, *out.mutable_needs());
  }
  for (const auto* actor : registry.actors()) {
    auto& out = *catalog.add_actors();
    out.set_name(actor->name);
    out.set_ownership(word_for(actor->ownership));
    out.set_config(std::string{actor->config->full_name()});
    messages.add(*actor->config);
    for (const auto& [name, method] : actor->methods)
      describe(method, *out.add_methods(), messages);
    describe(actor->needs, *out.mutable_needs());
  }
  *catalog.mutable_files() = messages.files();
  return catalog;
}

Result<void> check_catalog(const v1::TypeCatalog& catalog) {
  if (const auto bytes = catalog.ByteSizeLong(); bytes > limits::catalog_bytes)
    return fail(Errc::invalid_argument,
                fmt::format("the descriptions of all types and their messages have {}, at most {} are allowed",
                            format_bytes(bytes), format_bytes(limits::catalog_bytes)));
  if (const auto count = catalog.tasks_size() + catalog.actors_size(); std::cmp_greater(count, limits::types_per_node))
    return fail(Errc::invalid_argument, fmt::format("the program and its plugins have {} types, at most {} are allowed",
                                                    count, limits::types_per_node));
  return {};
}

Ownership ownership_of(const v1::ActorDescription& actor) noexcept {
  if (actor.ownership() == whole_word)
    return Ownership::whole;
  return actor.ownership() == fraction_word ? Ownership::fraction : Ownership::any;
}

} // namespace gpuactors
