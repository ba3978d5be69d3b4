#include <gpuactors/base/host_memory.hpp>
#include <gpuactors/plan/scenario_writer.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <ostream>

namespace gpuactors {

namespace {

using Json = nlohmann::json;

// Returns seconds with all nine decimals, because the reader rounds to the nanosecond.
std::string seconds_of(Duration duration) {
  const auto count = std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
  return fmt::format("{}.{:09}", count / 1'000'000'000, count % 1'000'000'000);
}

void add_resources(Json& json, const std::map<std::string, Share>& resources) {
  for (const auto& [name, amount] : resources)
    if (name == host_memory_resource)
      json["host_memory_bytes"] = std::to_string(amount.units());
    else
      json["resources"][name] = amount.to_double();
}

Json to_json(const NodeSpec& node) {
  Json devices = Json::array();
  const DeviceSpec* last = nullptr;
  for (const auto& device : node.devices) {
    if (last != nullptr && *last == device) {
      devices.back()["count"] = devices.back()["count"].get<int>() + 1;
      continue;
    }
    last = &device;
    devices.push_back({{"accelerator_type", device.accelerator_type},
                       {"count", 1},
                       {"memory_bytes", std::to_string(device.memory_bytes)},
                       {"uuid", device.uuid}});
    if (device.numa_node >= 0)
      devices.back()["numa_node"] = device.numa_node;
  }
  Json result{{"name", node.name}, {"cpus", node.cpus.to_double()}, {"devices", std::move(devices)}};
  if (!node.labels.empty())
    result["labels"] = node.labels;
  add_resources(result, node.resources);
  if (!node.distances.empty())
    result["distances"] = node.distances;
  if (node.types)
    result["types"] = *node.types;
  return result;
}

Json to_json(const LabelCondition& condition) {
  using Op = LabelCondition::Op;
  switch (condition.op) {
  case Op::in:
    return {{"in", condition.values}};
  case Op::not_in:
    return {{"not_in", condition.values}};
  case Op::exists:
    return {{"exists", true}};
  case Op::absent:
    break;
  }
  return {{"exists", false}};
}

void add_amounts(Json& json, const ResourceRequest& request) {
  if (request.gpus > Share{})
    json["gpus"] = request.gpus.to_double();
  if (request.memory_bytes > 0)
    json["memory_bytes"] = std::to_string(request.memory_bytes);
  if (request.cpus > Share{})
    json["cpus"] = request.cpus.to_double();
  add_resources(json, request.resources);
  if (!request.accelerator_type.empty())
    json["accelerator_type"] = request.accelerator_type;
  if (!request.node.empty())
    json["node"] = request.node;
  if (request.node_is_soft)
    json["node_soft"] = true;
  for (const auto& [name, condition] : request.labels)
    json["labels"][name] = to_json(condition);
}

std::string with_timeout(const Json& json, const std::optional<Duration>& queue_timeout) {
  auto text = json.dump();
  // Inserts the timeout as exact text, because a double may miss it.
  if (queue_timeout)
    text.insert(text.size() - 1, fmt::format(R"(,"queue_timeout":{})", seconds_of(*queue_timeout)));
  return text;
}

} // namespace

ScenarioWriter::ScenarioWriter(std::ostream& out) : out_(out) {
  out_ << "{\"nodes\":[],\n \"steps\":[";
}

void ScenarioWriter::step(const std::string& action, const std::string& content) {
  out_ << (first_ ? "\n" : ",\n") << fmt::format(R"({{"{}":{}}})", action, content);
  first_ = false;
}

void ScenarioWriter::pass_time(TimePoint now) {
  if (last_ && now > *last_)
    step("advance", fmt::format(R"({{"seconds":{},"late":true}})", seconds_of(now - *last_)));
  last_ = last_ ? std::max(*last_, now) : now;
}

void ScenarioWriter::add_node(const NodeSpec& node, TimePoint now) {
  pass_time(now);
  step("add_node", to_json(node).dump());
}

void ScenarioWriter::remove_node(std::string_view node, TimePoint now) {
  pass_time(now);
  step("remove_node", Json{{"name", node}}.dump());
}

void ScenarioWriter::fail_device(std::string_view node, int index, Holders holders, TimePoint now) {
  pass_time(now);
  Json json{{"node", node}, {"index", index}};
  if (holders == Holders::stay)
    json["holders_stay"] = true;
  step("fail_device", json.dump());
}

void ScenarioWriter::drain_node(std::string_view node, TimePoint now) {
  pass_time(now);
  step("drain_node", Json{{"name", node}}.dump());
}

void ScenarioWriter::undrain_node(std::string_view node, TimePoint now) {
  pass_time(now);
  step("undrain_node", Json{{"name", node}}.dump());
}

void ScenarioWriter::set_types(std::string_view node, const std::optional<std::vector<std::string>>& types,
                               TimePoint now) {
  pass_time(now);
  Json json{{"name", node}};
  if (types)
    json["types"] = *types;
  step("set_types", json.dump());
}

void ScenarioWriter::set_quota(std::string_view owner, std::optional<Share> limit, TimePoint now) {
  pass_time(now);
  Json json{{"owner", owner}};
  if (limit)
    json["gpus"] = limit->to_double();
  step("set_quota", json.dump());
}

void ScenarioWriter::submit_group(GroupId id, const GroupRequest& request, TimePoint now) {
  static constexpr std::array<const char*, 4> strategies = {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"};
  pass_time(now);
  auto name = fmt::format("{}#group{}", request.name, id.value());
  Json json{{"id", name}, {"strategy", strategies.at(static_cast<std::size_t>(request.strategy))}};
  json["bundles"] = Json::array();
  for (const auto& bundle : request.bundles)
    add_amounts(json["bundles"].emplace_back(Json::object()), bundle);
  if (request.priority != 0)
    json["priority"] = request.priority;
  if (request.wait_for_nodes)
    json["wait_for_nodes"] = true;
  if (!request.queue)
    json["queue"] = false;
  if (request.shrinks)
    json["shrinks"] = true;
  if (!request.owner.empty())
    json["owner"] = request.owner;
  step("submit_group", with_timeout(json, request.queue_timeout));
  groups_[id] = std::move(name);
}

void ScenarioWriter::release_group(GroupId id, TimePoint now) {
  pass_time(now);
  if (const auto known = groups_.find(id); known != groups_.end())
    step("release_group", Json{{"id", known->second}}.dump());
}

void ScenarioWriter::submit(RequestId id, const ResourceRequest& request, std::string_view type, RequestId parent,
                            TimePoint now) {
  pass_time(now);
  auto name = fmt::format("{}#{}", request.name, id.value());
  Json json{{"id", name}};
  add_amounts(json, request);
  if (!type.empty())
    json["type"] = type;
  if (request.priority != 0)
    json["priority"] = request.priority;
  if (request.strategy == Strategy::spread)
    json["strategy"] = "SPREAD";
  if (request.wait_for_nodes)
    json["wait_for_nodes"] = true;
  if (!request.queue)
    json["queue"] = false;
  if (!request.owner.empty())
    json["owner"] = request.owner;
  if (const auto known = names_.find(parent); known != names_.end())
    json["parent"] = known->second;
  if (const auto known = groups_.find(request.group); known != groups_.end()) {
    json["group"] = known->second;
    if (request.bundle >= 0)
      json["bundle"] = request.bundle;
  }
  step("submit", with_timeout(json, request.queue_timeout));
  names_[id] = std::move(name);
}

void ScenarioWriter::release(RequestId id, TimePoint now) {
  pass_time(now);
  if (const auto known = names_.find(id); known != names_.end())
    step("release", Json{{"id", known->second}}.dump());
}

void ScenarioWriter::advance(TimePoint now) {
  pass_time(now);
  step("advance", R"({"seconds":0})");
}

void ScenarioWriter::forget(const std::vector<Event>& events) {
  for (const auto& event : events)
    if (event.request && event.kind != Event::Kind::granted && event.kind != Event::Kind::pending)
      names_.erase(event.request);
  for (const auto& event : events)
    if (event.group && event.kind != Event::Kind::granted && event.kind != Event::Kind::pending)
      groups_.erase(event.group);
}

void ScenarioWriter::finish() {
  out_ << "\n]}\n";
  out_.flush();
}

} // namespace gpuactors
