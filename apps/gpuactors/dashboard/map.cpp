// The map of devices: a bar for each device, with a segment for each part that somebody has.
#include "sections.hpp"
#include "table.hpp"

#include <gpuactors/base/units.hpp>

#include <apps/gpuactors/words.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace gpuactors::cli::dashboard {

namespace {

/// How many colours there are for parts.
constexpr std::uint32_t colours = 6;

/// Returns a length as a part of a whole, for an attribute.
std::string percent(double part, double whole) {
  constexpr double hundred = 100;
  return fmt::format("{:.4g}%", whole > 0 ? hundred * part / whole : 0);
}

std::string share_percent(std::int64_t units) {
  return percent(static_cast<double>(units), static_cast<double>(Share::one));
}

std::string memory_percent(std::uint64_t bytes, const v1::DeviceState& device) {
  return percent(static_cast<double>(bytes), static_cast<double>(device.device().memory_bytes()));
}

/// Returns the class of a part: the same name has the same colour everywhere.
std::string look_of(const Part& part) {
  if (part.kind == Part::Kind::others)
    return "rest";
  std::uint32_t hash = 2'166'136'261U;
  for (const char c : part.name)
    hash = (hash ^ static_cast<unsigned char>(c)) * 16'777'619U;
  return fmt::format("{}{}", part.kind == Part::Kind::bundle ? "group p" : "p", hash % colours);
}

/// Returns the symbol and the word of a state that is not well.
std::string in_words(const std::string& state) {
  return state == "ok" ? "" : "⚠ " + state;
}

std::string use_in_words(const v1::DeviceState& device) {
  if (!device.has_use())
    return {};
  const auto busy = device.use().percent() >= 0 ? fmt::format(", busy {} %", device.use().percent()) : "";
  return fmt::format("{}, {} in use", busy, format_bytes(device.use().memory_bytes()));
}

/// Returns "0.75 of 1, 768 MiB of 1 GiB, busy 40 %, 300 MiB in use".
std::string numbers_of(const v1::DeviceState& device) {
  const auto memory = device.device().memory_bytes();
  return fmt::format("{} of 1, {} of {}{}", to_string(Share{Share::one - device.free_units()}),
                     format_bytes(memory - std::min(device.free_memory_bytes(), memory)), format_bytes(memory),
                     use_in_words(device));
}

void write_part(Html& html, const Part& part, std::int64_t from) {
  const auto segment = html.element(
      "svg",
      {{"class", look_of(part)}, {"x", share_percent(from)}, {"width", share_percent(part.units)}, {"height", "18"}});
  html.leaf("title", {},
            fmt::format("{}: {} of the device, {}{}{}", part.name, to_string(Share{part.units}),
                        format_bytes(part.memory_bytes), part.about.empty() ? "" : "; ", part.about));
  html.empty("rect", {{"width", "100%"}, {"height", "100%"}});
  // What would show three letters or less is left out.
  constexpr std::int64_t narrow = Share::one / 20;
  if (part.units >= narrow)
    html.leaf("text", {{"x", "5"}, {"y", "13"}}, part.name);
}

/// Writes the bar: the parts in a row, the free rest, and the memory of the parts below as a thin bar.
void write_bar(Html& html, const DeviceView& device) {
  const auto& state = *device.state;
  const auto label = fmt::format("Device {} of {}: {}", state.device().index(), state.node(), numbers_of(state));
  const auto bar = html.element("svg", {{"class", "bar"}, {"role", "img"}, {"aria-label", label}});
  html.empty("rect", {{"class", "free"}, {"width", "100%"}, {"height", "18"}});
  html.empty("rect", {{"class", "free"}, {"y", "20"}, {"width", "100%"}, {"height", "5"}});
  std::int64_t units = 0;
  std::uint64_t bytes = 0;
  for (const auto& part : device.parts) {
    write_part(html, part, units);
    html.empty("rect", {{"class", look_of(part)},
                        {"x", memory_percent(bytes, state)},
                        {"y", "20"},
                        {"width", memory_percent(part.memory_bytes, state)},
                        {"height", "5"}});
    units += part.units;
    bytes += part.memory_bytes;
  }
  constexpr std::int64_t narrow = Share::one / 8;
  if (state.free_units() >= narrow)
    html.leaf("text", {{"class", "soft"}, {"x", "99.5%"}, {"y", "13"}, {"text-anchor", "end"}},
              fmt::format("{} free", to_string(Share{state.free_units()})));
}

void write_device(Html& html, const DeviceView& device) {
  const auto& state = *device.state;
  const auto& about = state.device();
  const auto& type = about.accelerator_type().empty() ? about.kind() : about.accelerator_type();
  const auto row = html.element("div", {{"class", state.state() == "ok" ? "device" : "device failed"}});
  {
    const auto name =
        html.element("span", {{"class", "device-name"}, {"title", fmt::format("{} {}", about.name(), about.uuid())}});
    html.text(fmt::format("{} {}", about.index(), type));
    if (state.state() != "ok")
      html.leaf("strong", {{"class", "bad"}}, fmt::format(" ⚠ {} {}", state.state(), state.reason()));
  }
  write_bar(html, device);
  html.leaf("span", {{"class", "numbers"}}, numbers_of(state));
}

/// Returns "ok, 10.0.0.1:7000, 64 CPUs, zone=a".
std::string node_in_words(const v1::NodeState& state) {
  const auto& node = state.node();
  std::string words = fmt::format("{}, {} CPUs", node.address(), to_string(Share{node.cpu_units()}));
  for (const auto& more : {amounts_in_words(node.resource_units()), labels_in_words(node.labels())})
    if (!more.empty())
      words += ", " + more;
  return words;
}

void write_node_name(Html& html, const NodeView& node) {
  html.leaf("strong", {}, node.state->node().name());
  if (node.state->state() != "ok")
    html.leaf("strong", {{"class", "bad"}}, " " + in_words(node.state->state()));
}

void write_node(Html& html, const NodeView& node) {
  const auto box = html.element("article", {{"class", "node"}});
  {
    const auto heading = html.element("h3");
    write_node_name(html, node);
    html.leaf("span", {{"class", "soft"}}, " " + node_in_words(*node.state));
  }
  for (const auto& device : node.devices)
    write_device(html, device);
  if (node.devices.empty())
    html.leaf("p", {{"class", "soft"}}, "No devices.");
}

/// Writes one row for all devices of a node: a cell for each, filled as far as it is granted.
void write_cells(Html& html, const NodeView& node) {
  const auto box = html.element("article", {{"class", "node small"}});
  {
    const auto name = html.element("span", {{"class", "device-name"}});
    write_node_name(html, node);
  }
  std::int64_t granted = 0;
  std::string bad;
  {
    const auto bar = html.element("svg", {{"class", "cells"}, {"aria-hidden", "true"}});
    html.empty("rect", {{"class", "free"}, {"width", "100%"}, {"height", "100%"}});
    const auto whole = static_cast<double>(node.devices.size());
    for (std::size_t i = 0; i < node.devices.size(); ++i) {
      const auto& device = *node.devices[i].state;
      const auto units = Share::one - device.free_units();
      granted += units;
      if (device.state() != "ok")
        bad += fmt::format(", ⚠ device {} {}", device.device().index(), device.state());
      html.empty("rect", {{"class", "taken"},
                          {"x", percent(static_cast<double>(i), whole)},
                          {"width", percent(Share{units}.to_double(), whole)},
                          {"height", "100%"}});
      html.empty(
          "rect",
          {{"class", "edge"}, {"x", percent(static_cast<double>(i), whole)}, {"width", "1"}, {"height", "100%"}});
    }
  }
  html.leaf("span", {{"class", "numbers"}},
            fmt::format("{} of {}{}", to_string(Share{granted}), node.devices.size(), bad));
}

} // namespace

void write_map(Html& html, const Scene& scene) {
  const auto nodes = nodes_of(scene.state);
  const auto summary =
      fmt::format("{} on {} node{}", scene.state.devices_size(), nodes.size(), nodes.size() == 1 ? "" : "s");
  write_section(html, {"devices", "Devices", summary, "devices"}, scene.connection, [&] {
    html.leaf("p", {{"class", "soft"}},
              "A bar is a device: who has which share of it, and what is free; below, thin, the same of its memory.");
    std::size_t bars = 0;
    std::size_t cells = 0;
    std::size_t left = 0;
    for (const auto& node : nodes) {
      const auto size = std::max<std::size_t>(node.devices.size(), 1);
      if (cells == 0 && bars + size <= most_bars) {
        bars += size;
        write_node(html, node);
      } else if (left == 0 && cells + size <= most_cells) {
        cells += size;
        write_cells(html, node);
      } else {
        ++left;
      }
    }
    if (left == 0)
      return;
    const auto more = html.element("p", {{"class", "more"}});
    html.text(fmt::format("{} more node{}: ", left, left == 1 ? "" : "s"));
    write_command(html, "devices", scene.connection);
  });
}

} // namespace gpuactors::cli::dashboard
