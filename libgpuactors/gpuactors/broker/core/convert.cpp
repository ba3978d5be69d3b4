#include <gpuactors/broker/core/convert.hpp>
#include <gpuactors/wire/resource_units.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace gpuactors {

Result<ResourceRequest> from_wire(const v1::ResourceRequest& request) {
  if (request.gpu_units() < 0 || request.cpu_units() < 0)
    return fail(Errc::invalid_argument,
                fmt::format("gpus is {} and cpus is {}: they cannot be negative", to_string(Share{request.gpu_units()}),
                            to_string(Share{request.cpu_units()})));
  ResourceRequest result;
  result.name = request.name();
  result.gpus = Share{request.gpu_units()};
  result.memory_bytes = request.memory_bytes();
  result.cpus = Share{request.cpu_units()};
  result.accelerator_type = request.accelerator_type();
  result.resources = from_wire(request.resource_units());
  result.node = request.node();
  result.node_is_soft = request.node_soft();
  for (const auto& [key, value] : request.labels())
    result.labels.emplace(key, value);
  for (const auto& [key, condition] : request.label_conditions()) {
    if (!v1::LabelCondition::Op_IsValid(condition.op()))
      return fail(Errc::invalid_argument,
                  fmt::format("label {}: {} is no operator that this version knows", key, int{condition.op()}));
    // Both enumerations use the same numbers.
    result.labels[key] = {static_cast<LabelCondition::Op>(condition.op()),
                          {condition.values().begin(), condition.values().end()}};
  }
  result.priority = request.priority();
  result.strategy = request.spread() ? Strategy::spread : Strategy::pack;
  if (request.queue_timeout_ms() != 0)
    result.queue_timeout = from_milliseconds(request.queue_timeout_ms());
  result.wait_for_nodes = request.wait_for_nodes();
  result.parent = LeaseId{request.parent_lease()};
  result.group = GroupId{request.group()};
  result.bundle = request.bundle();
  result.owner = request.quota_owner();
  return result;
}

void set_labels(const LabelConditions& labels, v1::ResourceRequest& request) {
  for (const auto& [key, condition] : labels) {
    if (condition.is_exact()) {
      (*request.mutable_labels())[key] = condition.values.front();
      continue;
    }
    auto& to = (*request.mutable_label_conditions())[key];
    to.set_op(static_cast<v1::LabelCondition::Op>(condition.op));
    for (const auto& value : condition.values)
      to.add_values(value);
  }
}

Result<GroupRequest> from_wire(const v1::SubmitGroup& group) {
  GroupRequest result;
  result.name = group.name();
  // Both enumerations use the same numbers.
  if (!v1::SubmitGroup::Strategy_IsValid(group.strategy()))
    return fail(Errc::invalid_argument,
                fmt::format("{} is no strategy of a placement group", static_cast<int>(group.strategy())));
  result.strategy = static_cast<GroupStrategy>(group.strategy());
  for (int i = 0; i < group.bundles_size(); ++i) {
    auto bundle = from_wire(group.bundles(i));
    if (!bundle)
      return fail(bundle.error().code(), fmt::format("bundle {}: {}", i, bundle.error().message()));
    result.bundles.push_back(std::move(*bundle));
  }
  result.priority = group.priority();
  if (group.queue_timeout_ms() != 0)
    result.queue_timeout = from_milliseconds(group.queue_timeout_ms());
  result.wait_for_nodes = group.wait_for_nodes();
  result.shrinks = group.shrinks();
  result.owner = group.quota_owner();
  return result;
}

NodeSpec from_wire(const v1::Node& node) {
  NodeSpec result;
  result.name = node.name();
  result.cpus = Share{node.cpu_units()};
  result.labels.insert(node.labels().begin(), node.labels().end());
  result.resources = from_wire(node.resource_units());
  for (const auto& device : node.devices()) {
    DeviceSpec spec;
    spec.accelerator_type = device.accelerator_type();
    spec.memory_bytes = device.memory_bytes();
    spec.uuid = device.uuid();
    spec.numa_node = device.numa() - 1;
    result.devices.push_back(std::move(spec));
  }
  // If the number of distances does not fill all rows, the last row is short, and the ledger refuses the node.
  const auto count = std::max<std::ptrdiff_t>(1, node.devices_size());
  for (auto at = node.distances().begin(); at != node.distances().end();) {
    const auto end = at + std::min(count, node.distances().end() - at);
    result.distances.emplace_back(at, end);
    at = end;
  }
  return result;
}

std::vector<std::string> type_names(const v1::TypeCatalog& types) {
  std::vector<std::string> names;
  names.reserve(static_cast<std::size_t>(types.tasks_size()) + static_cast<std::size_t>(types.actors_size()));
  for (const auto& task : types.tasks())
    names.push_back(std::string{task_kind} + task.name());
  for (const auto& actor : types.actors())
    names.push_back(std::string{actor_kind} + actor.name());
  return names;
}

int position_of(const v1::Node& node, int index) {
  const auto at = std::find_if(node.devices().begin(), node.devices().end(),
                               [&](const v1::Device& device) { return device.index() == index; });
  return static_cast<int>(at - node.devices().begin());
}

v1::Lease to_wire(const BundleGrant& bundle, const v1::Node& node) {
  v1::Lease result;
  result.set_node(bundle.node);
  for (const auto& device : bundle.devices) {
    auto* granted = result.add_devices();
    granted->set_index(node.devices(device.index).index());
    granted->set_share_units(device.share.units());
    granted->set_memory_bytes(device.memory_bytes);
  }
  result.set_cpu_units(bundle.cpus.units());
  *result.mutable_resource_units() = to_wire(bundle.resources);
  result.set_bundle(bundle.bundle);
  return result;
}

BundleGrant bundle_from_wire(const v1::Lease& bundle, const v1::Node& node) {
  BundleGrant result;
  result.bundle = bundle.bundle();
  result.node = bundle.node();
  for (const auto& device : bundle.devices())
    result.devices.push_back({position_of(node, device.index()), Share{device.share_units()}, device.memory_bytes()});
  result.cpus = Share{bundle.cpu_units()};
  result.resources = from_wire(bundle.resource_units());
  return result;
}

v1::Lease to_wire(const Lease& lease, const v1::Node& node) {
  auto result = to_wire(BundleGrant{lease.bundle, lease.node, lease.devices, lease.cpus, lease.resources}, node);
  result.set_id(lease.id.value());
  result.set_epoch(lease.epoch);
  result.set_parent(lease.parent.value());
  result.set_name(lease.name);
  result.set_request(lease.request.value());
  result.set_group(lease.group.value());
  result.set_quota_owner(lease.owner);
  result.set_asked_by(lease.asked_by.value());
  return result;
}

Lease from_wire(const v1::Lease& lease, const v1::Node& node) {
  auto place = bundle_from_wire(lease, node);
  Lease result;
  result.id = LeaseId{lease.id()};
  result.epoch = lease.epoch();
  result.request = RequestId{lease.request()};
  result.name = lease.name();
  result.node = std::move(place.node);
  result.devices = std::move(place.devices);
  result.cpus = place.cpus;
  result.resources = std::move(place.resources);
  result.parent = LeaseId{lease.parent()};
  result.group = GroupId{lease.group()};
  result.bundle = place.bundle;
  result.owner = lease.quota_owner();
  result.asked_by = LeaseId{lease.asked_by()};
  return result;
}

} // namespace gpuactors
