#include <gpuactors/base/suggest.hpp>
#include <gpuactors/ledger/explain.hpp>
#include <gpuactors/ledger/refusal.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace gpuactors::ledger_detail {

namespace {

// Returns the device part of the text, for constraints that are checked after the devices.
std::string with_devices(const ResourceRequest& request) {
  return wants_devices(request) || !request.accelerator_type.empty() ? " with " + describe_devices(request) : "";
}

std::string has_types(const Node& node) {
  std::vector<std::string> types;
  for (const auto& slot : node.pool.slots)
    if (const auto& type = node.device(slot).accelerator_type;
        slot.ok && std::find(types.begin(), types.end(), type) == types.end())
      types.push_back(type);
  if (types.empty())
    return "no device";
  std::string text;
  for (const auto& type : types)
    text += fmt::format("{}{}", text.empty() ? "" : " and ", type.empty() ? "one without a type" : type);
  return text;
}

// The requested amount, to follow "no node has", and the existing one, to follow "node n0".
struct Words {
  std::string asked;
  std::string has;
  // Whether `has` is about one device instead of the whole node.
  bool on_one_device = false;
};

// Returns what the request needs of the first device that it may go to.
Need need_in(const Node& node, const ResourceRequest& request) {
  for (const auto& slot : node.pool.slots)
    if (const auto& spec = node.device(slot); slot.ok && is_of_type(spec.accelerator_type, request.accelerator_type))
      return need_on(request, spec.memory_bytes);
  return need_on(request, node.spec.devices.front().memory_bytes);
}

Words words_of_devices(const Pool& pool, const ResourceRequest& request, const Refusal& refusal,
                       const std::string& free) {
  const bool whole = wants_whole_devices(request);
  const auto count = fmt::format("has {}", refusal.has);
  if (refusal.constraint == Constraint::devices)
    return {describe_devices(request) + free,
            whole ? count : "the most on one device is " + to_string(Share{refusal.has}), !whole};
  if (whole)
    return {fmt::format("{} with {} each{}", describe_devices(request), describe_bytes(request.memory_bytes), free),
            count, false};
  return {fmt::format("{} on one device{}{}", describe_bytes(need_in(*pool.node, request).bytes),
                      request.accelerator_type.empty() ? "" : " of type " + request.accelerator_type, free),
          "the most is " + describe_bytes(static_cast<std::uint64_t>(refusal.has)), true};
}

Words words_of(const Pool& pool, const ResourceRequest& request, const Lens& lens, const Refusal& refusal) {
  const auto& node = *pool.node;
  const std::string free = lens.amount == Lens::Amount::free ? " free" : "";
  const auto has = "has " + to_string(Share{refusal.has});
  switch (refusal.constraint) {
  case Constraint::label: {
    const auto* value = label_of(node, refusal.name);
    return {fmt::format("label {} ({})", refusal.name, to_string(request.labels.at(refusal.name))),
            value == nullptr ? "there is no label " + refusal.name
                             : fmt::format("label {} is \"{}\"", refusal.name, *value)};
  }
  case Constraint::accelerator:
    return {describe_devices(request), "has " + has_types(node)};
  case Constraint::devices:
  case Constraint::memory:
    return words_of_devices(pool, request, refusal, free);
  case Constraint::cpus:
    return {to_string(request.cpus) + " cpus" + free, has};
  case Constraint::resource:
    return {describe_resource(refusal.name, request.resources.at(refusal.name)) + free,
            "has " + describe_amount(refusal.name, Share{refusal.has})};
  case Constraint::name:
  case Constraint::type:
  case Constraint::draining:
  case Constraint::suspended:
  case Constraint::none:
    break;
  }
  return {};
}

// Returns what the name of a type that no node has may have been meant to be.
std::string meant_by(const TypeTable& types, TypeId type) {
  const auto name = types.name_of(type);
  const auto known = types.known();
  return std::find(known.begin(), known.end(), name) != known.end() ? std::string{} : did_you_mean(name, known);
}

// Renders "no node has X: node n0 has Y", or of a bundle "bundle 0 does not have X: node n0 has Y".
std::string render(const Pool& pool, const ResourceRequest& request, const Lens& lens, const TypeTable& types,
                   const Refusal& refusal, std::string_view who) {
  const auto& name = pool.node->spec.name;
  const bool is_bundle = !who.starts_with("no node");
  const auto has = is_bundle ? "does not have" : "has";
  if (refusal.constraint == Constraint::none)
    return {};
  if (refusal.constraint == Constraint::name)
    return fmt::format("{} is {}on node {}: it is on node {}", who, is_bundle ? "not " : "", request.node, name);
  if (refusal.constraint == Constraint::type)
    return fmt::format("node {} does not have the type \"{}\"{}", name, types.name_of(request.type),
                       meant_by(types, request.type));
  if (refusal.constraint == Constraint::draining)
    return fmt::format("{} takes {}new leases: node {} is draining", who, is_bundle ? "no " : "", name);
  if (refusal.constraint == Constraint::suspended)
    return fmt::format("{} {}: node {} is away", who, is_bundle ? "cannot be reached" : "has room and can be reached",
                       name);
  const auto words = words_of(pool, request, lens, refusal);
  if (refusal.constraint == Constraint::label)
    return fmt::format("{} {} the labels: on node {} {}, asked: {}", who, has, name, words.has,
                       to_string(request.labels.at(refusal.name)));
  const bool after_devices = refusal.constraint == Constraint::cpus || refusal.constraint == Constraint::resource;
  const auto with = after_devices ? with_devices(request) : "";
  if (words.on_one_device)
    return fmt::format("{}{} {} {}: {}, on node {}", who, with, has, words.asked, words.has, name);
  return fmt::format("{}{} {} {}: node {} {}", who, with, has, words.asked, name, words.has);
}

bool has_accelerator(const Node& node, const std::string& type) {
  return std::any_of(node.pool.slots.begin(), node.pool.slots.end(),
                     [&](const Slot& slot) { return slot.ok && is_of_type(node.device(slot).accelerator_type, type); });
}

// Returns the nodes with the most of each measure, from the ends of the indexes.
std::vector<const Node*> likely_nodes(const NodeTable& table, const ResourceRequest& request) {
  std::vector<const Node*> nodes;
  for (const auto& [key, kind] : table.kinds()) {
    if (!is_of_type(kind.accelerator_type, request.accelerator_type))
      continue;
    if (!kind.idle.empty())
      nodes.push_back((*kind.idle.lower_bound((*kind.idle.rbegin())->idle))->node);
    if (!kind.in_use.empty()) {
      nodes.push_back((*kind.in_use.lower_bound(Need{(*kind.in_use.rbegin())->free_share, 0}))->node);
      nodes.push_back((*kind.in_use.rbegin())->node);
    }
  }
  for (const auto& by_cpus : table.by_cpus())
    if (!by_cpus.empty())
      nodes.push_back(*by_cpus.rbegin());
  // If all nodes are full, any node with a device of the type.
  const auto any = std::find_if(table.nodes().begin(), table.nodes().end(), [&](const auto& item) {
    return item.second.takes_leases() && has_accelerator(item.second, request.accelerator_type);
  });
  if (any != table.nodes().end())
    nodes.push_back(&any->second);
  std::sort(nodes.begin(), nodes.end(), [](const Node* a, const Node* b) { return a->order < b->order; });
  return nodes;
}

} // namespace

std::string explain(const NodeTable& table, const ResourceRequest& request, const Lens& lens) {
  if (table.nodes().empty())
    return "no node is registered";
  const Node* best = nullptr;
  Refusal least;
  // Checks one node; returns whether the request fits there.
  const auto ask = [&](const Node& node) {
    auto refusal = refusal_of(node.pool, request, lens, true);
    if (refusal.constraint == Constraint::none)
      return true;
    if (best == nullptr || std::tie(least.constraint, least.has) < std::tie(refusal.constraint, refusal.has)) {
      best = &node;
      least = std::move(refusal);
    }
    return false;
  };
  const auto* named = needs_node(request) ? table.find(request.node) : nullptr;
  if (needs_node(request) && named == nullptr)
    return fmt::format("no node is named \"{}\"{}", request.node, did_you_mean(request.node, table.names()));
  const auto& types = table.types();
  const auto all = table.nodes().size();
  const auto lacking = request.type ? types.lacking(request.type) : 0;
  if (lacking == all && named == nullptr)
    return fmt::format("no node has the type \"{}\": {} registered{}", types.name_of(request.type),
                       all == 1 ? "1 node is" : fmt::format("{} nodes are", all), meant_by(types, request.type));
  const bool few =
      all <= nodes_to_explain || lens.amount == Lens::Amount::all || !request.labels.empty() || lacking > 0;
  if (named != nullptr) {
    if (ask(*named))
      return {};
  } else if (few) {
    for (const auto& [name, node] : table.nodes())
      if (ask(node))
        return {};
  } else {
    for (const auto* node : likely_nodes(table, request))
      if (ask(*node))
        return {};
  }
  if (best == nullptr)
    return "no node takes new leases";
  auto text = render(best->pool, request, lens, types, least, named != nullptr ? "no node of that name" : "no node");
  if (lacking > 0 && named == nullptr)
    text += fmt::format("; {} of {} nodes {} not have the type \"{}\"", lacking, all, lacking == 1 ? "does" : "do",
                        types.name_of(request.type));
  return text;
}

std::string explain_here(const Pool& pool, const ResourceRequest& request, const Lens& lens, const TypeTable& types,
                         bool new_lease) {
  const auto refusal = refusal_of(pool, request, lens, new_lease);
  if (refusal.constraint == Constraint::none)
    return {};
  if (refusal.constraint == Constraint::name)
    return fmt::format("asked node {}", request.node);
  if (refusal.constraint == Constraint::type)
    return fmt::format("does not have the type \"{}\"", types.name_of(request.type));
  if (refusal.constraint == Constraint::draining)
    return "draining: takes no new leases";
  if (refusal.constraint == Constraint::suspended)
    return "away: takes no leases until it is back";
  const auto words = words_of(pool, request, lens, refusal);
  return fmt::format("asked {}: {}", words.asked, words.has);
}

std::string explain_in(const Pool& pool, const ResourceRequest& request, const Lens& lens, const TypeTable& types,
                       std::string_view what) {
  const auto refusal = refusal_of(pool, request, lens, false);
  const auto text = render(pool, request, lens, types, refusal, what);
  return refusal.constraint == Constraint::type ? fmt::format("{}: {}", what, text) : text;
}

} // namespace gpuactors::ledger_detail
