#include <property/model.hpp>
#include <property/scenario.hpp>

namespace history {

namespace {

using gpuactors::LabelCondition;
using gpuactors::Share;
using Json = nlohmann::ordered_json;

double number(Share amount) {
  return static_cast<double>(amount.units()) / Share::one;
}

Json condition(const LabelCondition& label) {
  switch (label.op) {
  case LabelCondition::Op::in:
    return label.is_exact() ? Json(label.values.front()) : Json{{"in", label.values}};
  case LabelCondition::Op::not_in:
    return {{"not_in", label.values}};
  default:
    return {{"exists", label.op == LabelCondition::Op::exists}};
  }
}

void write_amounts(Json& to, const gpuactors::ResourceRequest& r) {
  if (r.gpus != Share{})
    to["gpus"] = number(r.gpus);
  if (r.memory_bytes > 0)
    to["memory_bytes"] = std::to_string(r.memory_bytes);
  if (r.cpus != Share{})
    to["cpus"] = number(r.cpus);
  if (!r.accelerator_type.empty())
    to["accelerator_type"] = r.accelerator_type;
  for (const auto& [name, amount] : r.resources)
    to["resources"][name] = number(amount);
  if (!r.node.empty())
    to["node"] = r.node;
  if (r.node_is_soft)
    to["node_soft"] = true;
  for (const auto& [name, label] : r.labels)
    to["labels"][name] = condition(label);
}

template <class Request>
void write_waiting(Json& to, const Request& r) {
  if (r.priority != 0)
    to["priority"] = r.priority;
  if (r.queue_timeout)
    to["queue_timeout"] = std::chrono::duration<double>(*r.queue_timeout).count();
  if (r.wait_for_nodes)
    to["wait_for_nodes"] = true;
  if (!r.queue)
    to["queue"] = false;
}

std::string request_name(std::uint64_t id) {
  return "r" + std::to_string(id);
}

std::string group_name(std::uint64_t id) {
  return "g" + std::to_string(id);
}

} // namespace

void Scenario::add(const char* action, Json value) {
  steps_.push_back({{action, std::move(value)}});
}

void Scenario::submit(std::uint64_t id, const gpuactors::ResourceRequest& request, std::uint64_t parent) {
  Json step{{"id", request_name(id)}};
  write_amounts(step, request);
  write_waiting(step, request);
  if (request.type)
    step["type"] = model::type_name(request.type);
  if (request.strategy == gpuactors::Strategy::spread)
    step["strategy"] = "SPREAD";
  if (!request.owner.empty())
    step["owner"] = request.owner;
  if (parent != 0)
    step["parent"] = request_name(parent);
  if (request.group) {
    step["group"] = group_name(request.group.value());
    if (request.bundle != -1)
      step["bundle"] = request.bundle;
  }
  add("submit", std::move(step));
}

void Scenario::submit_group(std::uint64_t id, const gpuactors::GroupRequest& group) {
  static const char* const strategies[] = {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"};
  Json step{{"id", group_name(id)}, {"strategy", strategies[static_cast<std::size_t>(group.strategy)]}};
  write_waiting(step, group);
  if (group.shrinks)
    step["shrinks"] = true;
  if (!group.owner.empty())
    step["owner"] = group.owner;
  step["bundles"] = Json::array();
  for (const auto& bundle : group.bundles) {
    auto& to = step["bundles"].emplace_back(Json::object());
    write_amounts(to, bundle);
  }
  add("submit_group", std::move(step));
}

void Scenario::release(std::uint64_t id) {
  add("release", {{"id", request_name(id)}});
}

void Scenario::release_group(std::uint64_t id) {
  add("release_group", {{"id", group_name(id)}});
}

void Scenario::add_node(const gpuactors::NodeSpec& node) {
  Json step{{"name", node.name}, {"cpus", number(node.cpus)}};
  for (const auto& [name, value] : node.labels)
    step["labels"][name] = value;
  for (const auto& [name, amount] : node.resources)
    step["resources"][name] = number(amount);
  for (const auto& device : node.devices) {
    Json to{{"accelerator_type", device.accelerator_type}, {"memory_bytes", std::to_string(device.memory_bytes)}};
    if (device.numa_node >= 0)
      to["numa_node"] = device.numa_node;
    step["devices"].push_back(std::move(to));
  }
  if (!node.distances.empty())
    step["distances"] = node.distances;
  if (node.types)
    step["types"] = *node.types;
  add("add_node", std::move(step));
}

void Scenario::set_types(const std::string& node, const std::optional<std::vector<std::string>>& types) {
  Json step{{"name", node}};
  if (types)
    step["types"] = *types;
  add("set_types", std::move(step));
}

void Scenario::on_node(const char* action, const std::string& name) {
  add(action, {{"name", name}});
}

void Scenario::fail_device(const std::string& node, int index, bool holders_stay) {
  Json step{{"node", node}, {"index", index}};
  if (holders_stay)
    step["holders_stay"] = true;
  add("fail_device", std::move(step));
}

void Scenario::set_quota(const std::string& owner, std::optional<Share> limit) {
  Json step{{"owner", owner}};
  if (limit)
    step["gpus"] = number(*limit);
  add("set_quota", std::move(step));
}

void Scenario::advance(int seconds) {
  add("advance", {{"seconds", seconds}});
}

std::string Scenario::text() const {
  std::string text = "{\"steps\":[";
  for (const auto& step : steps_)
    text += (&step == &steps_.front() ? "\n  " : ",\n  ") + step.dump();
  return text + "]}\n";
}

} // namespace history
