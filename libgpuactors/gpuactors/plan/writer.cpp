#include <gpuactors/plan/writer.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <ostream>

namespace gpuactors::plan_detail {

namespace {

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump();
}

template <class Items, class Render>
std::string list(const Items& items, Render render) {
  std::string text = "[";
  for (const auto& item : items) {
    if (text.size() > 1)
      text += ',';
    text += render(item);
  }
  return text + "]";
}

std::string place(const std::string& node, const std::vector<DeviceGrant>& devices) {
  return fmt::format(R"("node":{},"devices":{})", quoted(node), list(devices, [](const DeviceGrant& device) {
                       return fmt::format(R"({{"index":{},"share":{},"memory_bytes":"{}"}})", device.index,
                                          to_string(device.share), device.memory_bytes);
                     }));
}

} // namespace

void write_event(std::ostream& out, std::size_t step, const Event& event, const std::string& id) {
  auto line = fmt::format(R"({{"step":{},"event":"{}","id":{})", step, to_string(event.kind), quoted(id));
  if (event.kind == Event::Kind::granted && event.lease)
    line += "," + place(event.lease->node, event.lease->devices);
  if (!event.bundles.empty())
    line += R"(,"bundles":)" + list(event.bundles, [](const BundleGrant& bundle) {
              return "{" + place(bundle.node, bundle.devices) + "}";
            });
  if (!event.reason.empty())
    line += R"(,"reason":)" + quoted(event.reason);
  out << line << "}\n";
}

void write_final(std::ostream& out, const std::vector<NodeView>& nodes, const std::vector<PendingView>& pending,
                 const Names& names) {
  const auto device_text = [&](const DeviceView& device) {
    std::vector<std::string> ids;
    for (const auto id : device.groups)
      ids.push_back(names.of_group(id));
    for (const auto id : device.leases)
      ids.push_back(names.of_lease(id));
    return fmt::format(R"({{"index":{},"free_share":{},"free_memory_bytes":"{}","leases":{}{}}})", device.index,
                       to_string(device.free_share), device.free_memory_bytes, list(ids, quoted),
                       device.state == DeviceState::ok ? "" : R"(,"state":"failed")");
  };
  out << R"({"final":{"nodes":)" << list(nodes, [&](const NodeView& node) {
    return fmt::format(R"({{"name":{},"devices":{}{}}})", quoted(node.name), list(node.devices, device_text),
                       node.state == NodeState::ok ? "" : R"(,"state":"draining")");
  });
  out << R"(,"pending":)"
      << list(pending, [&](const PendingView& waiting) { return quoted(names.of_pending(waiting)); }) << "}}\n";
}

} // namespace gpuactors::plan_detail
