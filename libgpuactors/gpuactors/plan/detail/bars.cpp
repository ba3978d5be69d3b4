#include <gpuactors/plan/detail/bars.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>

namespace gpuactors::plan_detail {

namespace {

constexpr std::size_t widest_holders = 48;
constexpr std::size_t most_waiting = 10;

// Counts characters, not bytes: continuation bytes of UTF-8 do not count.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string padded(const std::string& text, std::size_t width) {
  const auto has = width_of(text);
  return has < width ? text + std::string(width - has, ' ') : text;
}

std::string bar_of(const Bar& bar, int cells) {
  static const std::vector<std::string> shades = {"█", "▓", "▒"};
  std::string text;
  int drawn = 0;
  double sum = 0;
  for (std::size_t i = 0; i < bar.parts.size(); ++i) {
    sum += bar.parts[i];
    const auto until = std::min(cells, static_cast<int>(std::lround(sum * cells)));
    for (; drawn < until; ++drawn)
      text += shades[i % shades.size()];
  }
  for (; drawn < cells; ++drawn)
    text += bar.failed ? "x" : "·";
  return text;
}

// "a, b, 3 more"
std::string shorten(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0 && text.size() + names[i].size() + 2 > widest_holders)
      return text + fmt::format(", {} more", names.size() - i);
    text += (text.empty() ? "" : ", ") + names[i];
  }
  return text;
}

// The use of some devices, summed up.
struct Use {
  std::size_t devices = 0;
  std::size_t failed = 0;
  std::size_t leases = 0;
  Share share;
  std::uint64_t bytes = 0;
  std::uint64_t all_bytes = 0;
  std::string type;

  void add(const DeviceView& device) {
    const auto& kind = device.spec.accelerator_type;
    type = devices == 0 || type == kind ? kind : "mixed";
    ++devices;
    leases += device.leases.size();
    if (device.state == DeviceState::failed) {
      ++failed;
      return;
    }
    share += Share::whole(1) - device.free_share;
    bytes += device.spec.memory_bytes - device.free_memory_bytes;
    all_bytes += device.spec.memory_bytes;
  }

  [[nodiscard]] Bar bar(std::string name) const {
    const auto working = devices - failed;
    Bar bar{std::move(name),
            type,
            {},
            fmt::format("{} of {}", to_string(share), working),
            fmt::format("{} of {}", format_bytes(bytes), format_bytes(all_bytes)),
            {},
            false};
    if (devices > 0)
      bar.parts = {share.to_double() / static_cast<double>(devices)};
    bar.holders = fmt::format("{} lease{}", leases, leases == 1 ? "" : "s");
    if (failed > 0)
      bar.holders += fmt::format(", {} failed", failed);
    return bar;
  }
};

Bar device_bar(const Ledger& ledger, const Names& names, const NodeView& node, const DeviceView& device) {
  Use use;
  use.add(device);
  auto bar = use.bar(fmt::format("{} {}", node.name, device.index));
  bar.failed = device.state == DeviceState::failed;
  std::vector<std::string> holders;
  std::vector<double> parts;
  const auto add = [&](const std::vector<DeviceGrant>& devices) {
    for (const auto& grant : devices)
      if (grant.index == device.index)
        parts.push_back(grant.share.to_double());
  };
  for (const auto id : device.groups) {
    holders.push_back(names.of_group(id));
    for (const auto& bundle : ledger.bundles_of(id))
      if (bundle.node == node.name)
        add(bundle.devices);
  }
  for (const auto id : device.leases) {
    holders.push_back(names.of_lease(ledger, id));
    // A lease inside a bundle or another lease is counted in that part already.
    if (const auto* lease = ledger.find_lease(id); !lease->parent && !lease->group)
      add(lease->devices);
  }
  // A lease that has ended but still lends is no longer in the list. The parts are used only if they add up to the
  // total.
  double sum = 0;
  for (const auto part : parts)
    sum += part;
  if (std::abs(sum - bar.parts.front()) < 1e-9)
    bar.parts = std::move(parts);
  bar.holders = bar.failed ? "failed" : shorten(holders);
  if (bar.failed)
    bar.amount = bar.memory = "";
  return bar;
}

// Combines nodes that are neighbours by name, so that at most `most_lines` lines are left.
std::vector<Bar> node_bars(const std::vector<NodeView>& nodes) {
  const auto together = (nodes.size() + BarWriter::most_lines - 1) / BarWriter::most_lines;
  std::vector<Bar> bars;
  for (std::size_t first = 0; first < nodes.size(); first += together) {
    const auto end = std::min(nodes.size(), first + together);
    Use use;
    for (auto i = first; i < end; ++i)
      for (const auto& device : nodes[i].devices)
        use.add(device);
    bars.push_back(use.bar(end - first == 1 ? nodes[first].name
                                            : fmt::format("{} ... {}", nodes[first].name, nodes[end - 1].name)));
  }
  return bars;
}

} // namespace

std::string draw_bars(const std::vector<Bar>& bars, int cells) {
  std::size_t name = 0;
  std::size_t type = 0;
  std::size_t amount = 0;
  std::size_t memory = 0;
  for (const auto& bar : bars) {
    name = std::max(name, width_of(bar.name));
    type = std::max(type, width_of(bar.type));
    amount = std::max(amount, width_of(bar.amount));
    memory = std::max(memory, width_of(bar.memory));
  }
  std::string text;
  for (const auto& bar : bars) {
    auto line =
        fmt::format("{}  {}{}[{}]  {}  {}  {}", padded(bar.name, name), padded(bar.type, type), type > 0 ? "  " : "",
                    bar_of(bar, cells), padded(bar.amount, amount), padded(bar.memory, memory), bar.holders);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

void BarWriter::on_end(const Ledger& ledger, const Names& names) {
  const auto nodes = ledger.nodes();
  std::size_t devices = 0;
  for (const auto& node : nodes)
    devices += node.devices.size();
  if (devices <= most_lines) {
    std::vector<Bar> bars;
    for (const auto& node : nodes)
      for (const auto& device : node.devices)
        bars.push_back(device_bar(ledger, names, node, device));
    out_ << draw_bars(bars);
  } else {
    out_ << draw_bars(node_bars(nodes));
  }
  out_ << fmt::format("{} devices on {} nodes", devices, nodes.size());
  const auto waiting = ledger.pending_count();
  out_ << fmt::format("; {} wait{}", waiting, waiting == 1 ? "s" : "");
  // A long queue is not named, because `pending` would copy all of it.
  if (waiting > 0 && waiting <= most_waiting) {
    std::vector<std::string> ids;
    for (const auto& entry : ledger.pending())
      ids.push_back(names.of_pending(entry));
    out_ << ": " << shorten(ids);
  }
  out_ << '\n';
}

} // namespace gpuactors::plan_detail
