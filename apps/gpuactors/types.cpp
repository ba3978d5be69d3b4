// gpuactors types: what can be submitted and spawned, and the messages that go in and come out.
#include "types.hpp"

#include "cluster_options.hpp"
#include "command.hpp"
#include "json.hpp"
#include "table.hpp"

#include <gpuactors/gpuactors.hpp>

#include <fmt/format.h>

#include <iostream>
#include <map>
#include <memory>

namespace gpuactors::cli {

namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

std::string_view name_of(Ownership ownership) {
  switch (ownership) {
  case Ownership::whole:
    return "whole devices";
  case Ownership::fraction:
    return "a share below 1";
  case Ownership::any:
    break;
  }
  return "anything";
}

std::string name_of(const Descriptor& message) {
  return std::string{message.full_name()};
}

std::string type_of(const FieldDescriptor& field) {
  if (field.is_map())
    return fmt::format("map<{}, {}>", type_of(*field.message_type()->map_key()),
                       type_of(*field.message_type()->map_value()));
  std::string name{field.type_name()};
  if (field.message_type() != nullptr)
    name = name_of(*field.message_type());
  else if (field.enum_type() != nullptr)
    name = field.enum_type()->full_name();
  return field.is_repeated() ? "repeated " + name : name;
}

using Messages = std::map<std::string, const Descriptor*>;

/// Adds `message` and the messages inside it.
void collect(const Descriptor& message, Messages& messages) {
  if (!messages.emplace(name_of(message), &message).second)
    return;
  for (int i = 0; i < message.field_count(); ++i) {
    const auto& field = *message.field(i);
    const auto* inner = field.is_map() ? field.message_type()->map_value()->message_type() : field.message_type();
    if (inner != nullptr)
      collect(*inner, messages);
  }
}

/// All message types that the registered types use, by name.
Messages messages_of(const TypeRegistry& registry) {
  Messages messages;
  for (const auto* task : registry.tasks()) {
    collect(*task->input, messages);
    collect(*task->output, messages);
  }
  for (const auto* actor : registry.actors()) {
    collect(*actor->config, messages);
    for (const auto& [name, method] : actor->methods) {
      collect(*method.input, messages);
      collect(*method.output, messages);
    }
  }
  return messages;
}

// -- for people -----------------------------------------------------------------------------------

template <class Type>
std::string reply_of(const Type& type) {
  return (type.streamed ? "stream of " : "") + name_of(*type.output);
}

std::string words_for(const Needs& needs) {
  std::vector<std::string> parts;
  if (needs.gpus != 0)
    parts.push_back(fmt::format("gpus {}", needs.gpus));
  if (needs.memory_bytes != 0)
    parts.push_back("memory " + format_bytes(needs.memory_bytes));
  if (needs.cpus != 0)
    parts.push_back(fmt::format("cpus {}", needs.cpus));
  return parts.empty() ? "nothing" : fmt::format("{}", fmt::join(parts, ", "));
}

void print_tables(const TypeRegistry& registry) {
  Table tasks{{"TASK", "INPUT", "REPLY", "NEEDS"}};
  for (const auto* task : registry.tasks())
    tasks.add({task->name, name_of(*task->input), reply_of(*task), words_for(task->needs)});
  tasks.print(std::cout);

  Table actors{{"ACTOR", "OWNS", "NEEDS", "METHOD", "INPUT", "REPLY"}};
  for (const auto* actor : registry.actors()) {
    actors.add({actor->name, std::string{name_of(actor->ownership)}, words_for(actor->needs), "(configuration)",
                name_of(*actor->config), ""});
    for (const auto& [name, method] : actor->methods)
      actors.add({"", "", "", name, name_of(*method.input), reply_of(method)});
  }
  std::cout << '\n';
  actors.print(std::cout);

  Table messages{{"MESSAGE", "FIELD", "TYPE"}};
  for (const auto& [name, message] : messages_of(registry)) {
    if (message->field_count() == 0)
      messages.add({name, "(none)", ""});
    for (int i = 0; i < message->field_count(); ++i)
      messages.add({i == 0 ? name : "", std::string{message->field(i)->name()}, type_of(*message->field(i))});
  }
  std::cout << '\n';
  messages.print(std::cout);
}

// -- for programs ---------------------------------------------------------------------------------

Json amounts_of(const Needs& needs) {
  return {{"gpus", needs.gpus}, {"memory_bytes", json_of(needs.memory_bytes)}, {"cpus", needs.cpus}};
}

Json fields_of(const Descriptor& message) {
  auto fields = Json::object();
  for (int i = 0; i < message.field_count(); ++i)
    fields[std::string{message.field(i)->name()}] = type_of(*message.field(i));
  return fields;
}

void print_array(const TypeRegistry& registry) {
  auto list = Json::array();
  for (const auto* task : registry.tasks())
    list.push_back({{"kind", "task"},
                    {"name", task->name},
                    {"input", name_of(*task->input)},
                    {"output", name_of(*task->output)},
                    {"streamed", task->streamed},
                    {"needs", amounts_of(task->needs)}});
  for (const auto* actor : registry.actors()) {
    auto methods = Json::array();
    for (const auto& [name, method] : actor->methods)
      methods.push_back({{"name", name},
                         {"input", name_of(*method.input)},
                         {"output", name_of(*method.output)},
                         {"streamed", method.streamed}});
    list.push_back({{"kind", "actor"},
                    {"name", actor->name},
                    {"owns", name_of(actor->ownership)},
                    {"config", name_of(*actor->config)},
                    {"needs", amounts_of(actor->needs)},
                    {"methods", std::move(methods)}});
  }
  for (const auto& [name, message] : messages_of(registry))
    list.push_back({{"kind", "message"}, {"name", name}, {"fields", fields_of(*message)}});
  print_json(std::cout, list);
}

struct Arguments {
  ClusterOptions cluster;
  bool json = false;
};

Result<void> run_types(const Arguments& arguments) {
  GPUACTORS_TRY(arguments.cluster.check());
  const auto& registry = TypeRegistry::global();
  GPUACTORS_TRY(registry.check());
  if (arguments.json)
    print_array(registry);
  else
    print_tables(registry);
  return {};
}

} // namespace

Result<const ActorType*> find_actor_type(std::string_view name) {
  const auto& registry = TypeRegistry::global();
  GPUACTORS_TRY(registry.check());
  auto type = registry.find_actor(name);
  if (!type)
    return fail(type.error().code(),
                fmt::format("{} (the command line knows the messages of built-in types only)", type.error().message()));
  return type;
}

Command add_types(CLI::App& program) {
  auto arguments = std::make_shared<Arguments>();
  auto* parser = program.add_subcommand("types", "What can be submitted and spawned: methods and message types");
  parser->add_flag("--json", arguments->json, "Print one array of tasks, actors and messages");
  arguments->cluster.add_to(*parser);
  parser->footer(
      "A message is written as JSON, by the Protobuf JSON mapping: {\"n\":1000} for a message with the field "
      "n.\n\n"
      "Examples:\n"
      "  gpuactors types\n"
      "  gpuactors types --json | jq -r '.[] | select(.kind == \"task\") | .name'");
  return {parser, [arguments] { return run_types(*arguments); }};
}

} // namespace gpuactors::cli
