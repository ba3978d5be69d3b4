#include <gpuactors/plan/detail/writer.hpp>

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

void LineWriter::on_event(const Ledger&, std::size_t step, const Event& event, const std::string& id) {
  auto line = fmt::format(R"({{"step":{},"event":"{}","id":{})", step, to_string(event.kind), quoted(id));
  if (event.kind == Event::Kind::granted && event.lease)
    line += "," + place(event.lease->node, event.lease->devices);
  if (!event.bundles.empty())
    line += R"(,"bundles":)" + list(event.bundles, [](const BundleGrant& bundle) {
              return "{" + place(bundle.node, bundle.devices) + "}";
            });
  if (!event.reason.empty())
    line += R"(,"reason":)" + quoted(event.reason);
  out_ << line << "}\n";
}

void LineWriter::on_end(const Ledger& ledger, const Names& names) {
  const auto device_text = [&](const DeviceView& device) {
    std::vector<std::string> ids;
    for (const auto id : device.groups)
      ids.push_back(names.of_group(id));
    for (const auto id : device.leases)
      ids.push_back(names.of_lease(ledger, id));
    return fmt::format(R"({{"index":{},"free_share":{},"free_memory_bytes":"{}","leases":{}{}}})", device.index,
                       to_string(device.free_share), device.free_memory_bytes, list(ids, quoted),
                       device.state == DeviceState::ok ? "" : R"(,"state":"failed")");
  };
  // Writes node by node, because the line is long on a large cluster.
  out_ << R"({"final":{"nodes":[)";
  const char* comma = "";
  for (const auto& node : ledger.nodes()) {
    out_ << comma
         << fmt::format(R"({{"name":{},"devices":{}{}}})", quoted(node.name), list(node.devices, device_text),
                        node.state == NodeState::ok ? "" : R"(,"state":"draining")");
    comma = ",";
  }
  out_ << R"(],"pending":[)";
  comma = "";
  for (const auto& waiting : ledger.pending()) {
    out_ << comma << quoted(names.of_pending(waiting));
    comma = ",";
  }
  out_ << "]}}\n";
}

} // namespace gpuactors::plan_detail
