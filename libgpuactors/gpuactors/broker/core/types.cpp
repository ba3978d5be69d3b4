// The broker and the types of tasks and actors: which nodes have which, and what requests need.
#include <gpuactors/actor/interface.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/broker/core/broker_core.hpp>
#include <gpuactors/broker/core/requests.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace gpuactors {

namespace {

/// The nodes that have each type, and how many nodes there are whose types are known.
struct Homes {
  std::map<std::string_view, std::vector<std::string>> nodes;
  std::size_t known = 0;
};

/// Says where a type is, if it is not everywhere.
template <class Description>
void tell_nodes(Description& type, const Homes& homes) {
  constexpr std::size_t most_names = 8;
  type.clear_nodes();
  type.clear_node_count();
  const auto& nodes = homes.nodes.at(type.name());
  if (nodes.size() == homes.known)
    return;
  type.set_node_count(static_cast<std::uint32_t>(nodes.size()));
  for (std::size_t i = 0; i < std::min(nodes.size(), most_names); ++i)
    type.add_nodes(nodes[i]);
}

template <class List>
bool names(const List& types, const std::string& name) {
  return std::any_of(types.begin(), types.end(), [&](const auto& type) { return type.name() == name; });
}

} // namespace

Result<TypeId> BrokerCore::type_of(std::string_view kind, const std::string& name) {
  if (name.empty())
    return TypeId{};
  if (!is_type_name(name))
    return fail(Errc::invalid_argument, fmt::format("\"{}\" is no name for a type: 1 to {} letters, digits, _ - . /",
                                                    name, limits::name_length));
  // Kept, so that a request costs no memory for it.
  type_name_.assign(kind).append(name);
  return ledger_.type(type_name_);
}

Result<ResourceRequest> BrokerCore::request_for(const ActorRecord& record) {
  GPUACTORS_LET(request, read_request(record.request));
  GPUACTORS_TRY(check_group(request.group));
  GPUACTORS_LET(type, type_of(actor_kind, record.spec.type()));
  request.type = type;
  return std::move(request);
}

void BrokerCore::programs_changed(const v1::NodePrograms& message) {
  if (const auto known = nodes_.find(message.node());
      known != nodes_.end() && known->second.agent_id == message.agent())
    renew_programs(message.node(), message.programs(), message.has_types() ? &message.types() : nullptr);
  // A node that waits to be admitted does not say it again.
  arrivals_.each_of(message.node(), [&](Arrival& arrival) {
    if (arrival.message.agent() != message.agent())
      return;
    arrival.message.set_programs(message.programs());
    if (message.has_types())
      *arrival.message.mutable_types() = message.types();
    else
      arrival.message.clear_types();
  });
}

void BrokerCore::renew_programs(const std::string& name, std::uint64_t programs, const v1::TypeCatalog* types) {
  auto& record = nodes_.at(name);
  if (programs <= record.programs)
    return;
  record.programs = programs;
  std::optional<std::vector<std::string>> names;
  if (types != nullptr)
    names = type_names(*types);
  auto events = ledger_.set_types(name, std::move(names), world_.now());
  if (events)
    record.types = types != nullptr ? *types : v1::TypeCatalog{};
  log_.add(EventKind::node_renewed, name);
  apply(std::move(events), "set_types");
  if (types != nullptr)
    give_up_moves_to(name, *types);
  for (auto& [id, lease] : task_leases_)
    if (const auto* held = ledger_.find_lease(id); held != nullptr && held->node == name)
      reclaim(id, lease);
  answer_early();
}

void BrokerCore::give_up_moves_to(const std::string& name, const v1::TypeCatalog& types) {
  // The node would send them back, and that would count as a restart.
  std::vector<ActorId> lost;
  for (const auto& [id, record] : actors_)
    if (record.next && record.next->node == name && !names(types.actors(), record.spec.type()))
      lost.push_back(id);
  for (const auto id : lost)
    if (auto* actor = actors_.find(id); actor != nullptr)
      give_up_move(*actor);
}

void BrokerCore::types(const v1::GetTypes& message, TypesAnswer answer) {
  const auto has_wanted = [&](const auto& node) {
    const auto& [name, record] = node;
    return message.wanted().empty() || names(record.types.tasks(), message.wanted())
           || names(record.types.actors(), message.wanted());
  };
  // The nodes of an earlier broker are coming back: without them, nobody knows all types.
  if (settling_ && std::none_of(nodes_.begin(), nodes_.end(), has_wanted)) {
    early_.keep(EarlyCalls::Types{message, std::move(answer)});
    return;
  }
  v1::TypeCatalog result;
  Homes tasks;
  Homes actors;
  std::set<std::string_view> files;
  std::size_t bytes = 0;
  // If nodes have different types of the same name, the first node in the order of names counts.
  for (const auto& [name, node] : nodes_) {
    const bool known = node.types.tasks_size() + node.types.actors_size() > 0;
    tasks.known += known ? 1 : 0;
    actors.known += known ? 1 : 0;
    for (const auto& task : node.types.tasks()) {
      auto& homes = tasks.nodes[task.name()];
      homes.push_back(name);
      if (homes.size() == 1)
        *result.add_tasks() = task;
    }
    for (const auto& actor : node.types.actors()) {
      auto& homes = actors.nodes[actor.name()];
      homes.push_back(name);
      if (homes.size() == 1)
        *result.add_actors() = actor;
    }
    for (const auto& file : node.types.files()) {
      if (bytes + file.size() > limits::catalog_bytes || !files.insert(file).second)
        continue;
      bytes += file.size();
      result.add_files(file);
    }
  }
  for (auto& task : *result.mutable_tasks())
    tell_nodes(task, tasks);
  for (auto& actor : *result.mutable_actors())
    tell_nodes(actor, actors);
  answer.deliver(std::move(result));
}

} // namespace gpuactors
