// The naive scheduler's nodes: those that come, go, are drained, change their types or lose a device.
#include <property/model.hpp>

#include <utility>

namespace model {

void put_back(Amounts& rest, const Amounts& borrowed) {
  for (const auto& device : borrowed.devices) {
    const auto it = std::find_if(rest.devices.begin(), rest.devices.end(),
                                 [&](const DeviceGrant& mine) { return mine.index == device.index; });
    if (it == rest.devices.end()) {
      rest.devices.push_back(device);
    } else {
      it->share += device.share;
      it->memory_bytes += device.memory_bytes;
    }
  }
  rest.cpus += borrowed.cpus;
  for (const auto& [name, amount] : borrowed.resources)
    rest.resources[name] += amount;
}

Model::Outcomes Model::add_node(const NodeSpec& spec, const std::vector<Event>& events) {
  Outcomes out;
  pass_time(events, out);
  nodes_[spec.name] = Node{spec, false, {}};
  settle(events, out);
  return out;
}

Model::Outcomes Model::remove_node(const std::string& name, const std::vector<Event>& events) {
  Outcomes out;
  pass_time(events, out);
  drop_reservations_on(name);
  nodes_.at(name).draining = true;
  lose_on(name, std::nullopt, out);
  std::erase_if(remains_, [&](const auto& rest) { return rest.second.source.node == name; });
  nodes_.erase(name);
  settle(events, out);
  return out;
}

Model::Outcomes Model::drain_node(const std::string& name, const std::vector<Event>& events) {
  Outcomes out;
  pass_time(events, out);
  drop_reservations_on(name);
  nodes_.at(name).draining = true;
  settle(events, out);
  return out;
}

Model::Outcomes Model::undrain_node(const std::string& name, const std::vector<Event>& events) {
  Outcomes out;
  pass_time(events, out);
  nodes_.at(name).draining = false;
  settle(events, out);
  return out;
}

Model::Outcomes Model::set_types(const std::string& name, const std::optional<std::vector<std::string>>& types,
                                 const std::vector<Event>& events) {
  Outcomes out;
  pass_time(events, out);
  auto& known = nodes_.at(name).spec.types;
  if (known != types)
    drop_reservations_on(name);
  known = types;
  settle(events, out);
  return out;
}

Model::Outcomes Model::fail_device(const std::string& name, int index, bool stay, const std::vector<Event>& events) {
  Outcomes out;
  pass_time(events, out);
  if (nodes_.at(name).failed.insert(index).second) {
    drop_reservations_on(name);
    const auto before = held_;
    Outcomes lost;
    lose_on(name, index, lost);
    if (stay)
      keep_remains(before, lost);
    out.insert(out.end(), lost.begin(), lost.end());
  }
  settle(events, out);
  return out;
}

} // namespace model
