// gpuactors types: lists what can be submitted and spawned, and the messages that go in and come out.
#include "types.hpp"

#include "command.hpp"
#include "json.hpp"
#include "table.hpp"
#include "words.hpp"

#include <gpuactors/gpuactors.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <vector>

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

/// Returns all message types that the tasks and actors use, by name. Types without a description are left out.
Messages messages_of(const DescribedTypes& types) {
  Messages messages;
  const auto add = [&](const std::string& name) {
    if (const auto message = types.messages().find(name))
      collect(**message, messages);
  };
  for (const auto& task : types.catalog().tasks()) {
    add(task.input());
    add(task.output());
  }
  for (const auto& actor : types.catalog().actors()) {
    add(actor.config());
    for (const auto& method : actor.methods()) {
      add(method.input());
      add(method.output());
    }
  }
  return messages;
}

// -- for people -----------------------------------------------------------------------------------

template <class Type>
std::string reply_of(const Type& type) {
  return (type.streamed() ? "stream of " : "") + type.output();
}

/// Whether some nodes do not have all types.
bool differ(const v1::TypeCatalog& catalog) {
  const auto is_somewhere = [](const auto& type) { return type.node_count() > 0; };
  return std::any_of(catalog.tasks().begin(), catalog.tasks().end(), is_somewhere)
         || std::any_of(catalog.actors().begin(), catalog.actors().end(), is_somewhere);
}

template <class Type>
std::string nodes_of(const Type& type) {
  if (type.node_count() == 0)
    return "all";
  const auto rest = type.node_count() - static_cast<std::uint32_t>(type.nodes_size());
  return fmt::format("{}{}", fmt::join(type.nodes(), ", "), rest > 0 ? fmt::format(" and {} more", rest) : "");
}

void print_tables(const DescribedTypes& types) {
  const auto& catalog = types.catalog();
  // Where all nodes have the same types, nobody needs to know where they are.
  const bool with_nodes = differ(catalog);
  const auto row = [&](std::vector<std::string> cells, std::string nodes) {
    if (with_nodes)
      cells.push_back(std::move(nodes));
    return cells;
  };
  Table tasks{row({"TASK", "INPUT", "REPLY", "NEEDS"}, "NODES")};
  for (const auto& task : catalog.tasks())
    tasks.add(row({task.name(), task.input(), reply_of(task), needs_in_words(task.needs())}, nodes_of(task)));
  tasks.print(std::cout);

  Table actors{row({"ACTOR", "OWNS", "NEEDS", "METHOD", "INPUT", "REPLY"}, "NODES")};
  for (const auto& actor : catalog.actors()) {
    const auto owns = ownership_of(actor);
    actors.add(row({actor.name(), std::string{name_of(owns)}, needs_in_words(actor.needs(), owns), "(configuration)",
                    actor.config(), ""},
                   nodes_of(actor)));
    for (const auto& method : actor.methods())
      actors.add(row({"", "", "", method.name(), method.input(), reply_of(method)}, ""));
  }
  std::cout << '\n';
  actors.print(std::cout);

  Table messages{{"MESSAGE", "FIELD", "TYPE"}};
  for (const auto& [name, message] : messages_of(types)) {
    if (message->field_count() == 0)
      messages.add({name, "(none)", ""});
    for (int i = 0; i < message->field_count(); ++i)
      messages.add({i == 0 ? name : "", std::string{message->field(i)->name()}, type_of(*message->field(i))});
  }
  std::cout << '\n';
  messages.print(std::cout);
}

// -- for programs ---------------------------------------------------------------------------------

Json amounts_of(const v1::TypeNeeds& needs) {
  return {{"gpus", needs.gpus()}, {"memory_bytes", json_of(needs.memory_bytes())}, {"cpus", needs.cpus()}};
}

Json fields_of(const Descriptor& message) {
  auto fields = Json::object();
  for (int i = 0; i < message.field_count(); ++i)
    fields[std::string{message.field(i)->name()}] = type_of(*message.field(i));
  return fields;
}

/// Says where a type is, if it is not on all nodes.
template <class Type>
Json with_nodes(Json entry, const Type& type) {
  if (type.node_count() == 0)
    return entry;
  entry["nodes"] = std::vector<std::string>{type.nodes().begin(), type.nodes().end()};
  entry["node_count"] = type.node_count();
  return entry;
}

void print_array(const DescribedTypes& types) {
  auto list = Json::array();
  for (const auto& task : types.catalog().tasks())
    list.push_back(with_nodes({{"kind", "task"},
                               {"name", task.name()},
                               {"input", task.input()},
                               {"output", task.output()},
                               {"streamed", task.streamed()},
                               {"needs", amounts_of(task.needs())}},
                              task));
  for (const auto& actor : types.catalog().actors()) {
    auto methods = Json::array();
    for (const auto& method : actor.methods())
      methods.push_back({{"name", method.name()},
                         {"input", method.input()},
                         {"output", method.output()},
                         {"streamed", method.streamed()}});
    list.push_back(with_nodes({{"kind", "actor"},
                               {"name", actor.name()},
                               {"owns", name_of(ownership_of(actor))},
                               {"config", actor.config()},
                               {"needs", amounts_of(actor.needs())},
                               {"methods", std::move(methods)}},
                              actor));
  }
  for (const auto& [name, message] : messages_of(types))
    list.push_back({{"kind", "message"}, {"name", name}, {"fields", fields_of(*message)}});
  print_json(std::cout, list);
}

struct TypesArguments {
  ClusterOptions cluster;
  bool json = false;
};

Result<void> run_types(const TypesArguments& arguments) {
  GPUACTORS_TRY(arguments.cluster.check());
  std::optional<Cluster> cluster;
  GPUACTORS_LET(types, open_types(arguments.cluster, cluster));
  if (arguments.json)
    print_array(types);
  else
    print_tables(types);
  return {};
}

} // namespace

Result<DescribedTypes> open_types(const ClusterOptions& options, std::optional<Cluster>& cluster,
                                  std::string_view wanted) {
  if (!options.connects()) {
    GPUACTORS_TRY(TypeRegistry::global().check());
    return DescribedTypes::of(TypeRegistry::global());
  }
  GPUACTORS_LET(opened, options.open());
  cluster.emplace(std::move(opened));
  return cluster->described_types(wanted);
}

void fill_in(Options& options, const v1::TypeNeeds& needs) {
  if (options.gpus == 0 && options.memory_bytes == 0) {
    options.gpus = needs.gpus();
    options.memory_bytes = needs.memory_bytes();
  }
  if (options.cpus == 0)
    options.cpus = needs.cpus();
}

Command add_types(CLI::App& program) {
  auto arguments = std::make_shared<TypesArguments>();
  auto* parser = program.add_subcommand("types", "What can be submitted and spawned: methods and message types");
  parser->add_flag("--json", arguments->json, "Print one array of tasks, actors and messages");
  arguments->cluster.add_to(*parser);
  parser->footer(
      "With a broker: what the nodes of the cluster run, in the program of their workers and in plugins.\n"
      "A message is written as JSON, by the Protobuf JSON mapping: {\"n\":1000} for a message with the field "
      "n.\n\n"
      "Examples:\n"
      "  gpuactors types\n"
      "  gpuactors types --broker 127.0.0.1:7711\n"
      "  gpuactors types --json | jq -r '.[] | select(.kind == \"task\") | .name'");
  return {parser, [arguments] { return run_types(*arguments); }};
}

} // namespace gpuactors::cli
