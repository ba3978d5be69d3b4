// States of clusters for tests of the dashboard, and a reader that knows whether a page is well-formed.
#pragma once

#include <gpuactors/base/units.hpp>
#include <gpuactors/gpuactors.hpp>

#include <apps/gpuactors/dashboard/watch.hpp>

#include <google/protobuf/message.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace dashboard_test {

using namespace gpuactors;

/// What a user could choose as a name to break out of text, a value or a page.
inline const std::string evil = R"("><script>alert(1)</script><img src=x onerror='alert(2)'>&lt;)";

inline cli::dashboard::Moment moment_at(std::chrono::seconds seconds) {
  return {TimePoint{} + seconds, std::chrono::system_clock::time_point{} + seconds};
}

inline constexpr std::uint64_t gib = std::uint64_t{1} << 30U;

inline v1::NodeState& add_node(v1::ClusterState& state, const std::string& name) {
  auto& node = *state.add_nodes();
  node.mutable_node()->set_name(name);
  node.set_state("ok");
  return node;
}

/// A device of which nothing is granted.
inline v1::DeviceState& add_device(v1::ClusterState& state, const std::string& node, int index) {
  auto& device = *state.add_devices();
  device.set_node(node);
  device.mutable_device()->set_index(index);
  device.mutable_device()->set_kind("host");
  device.mutable_device()->set_memory_bytes(gib);
  device.set_free_units(Share::one);
  device.set_free_memory_bytes(gib);
  device.set_state("ok");
  return device;
}

/// A lease on one device, which it does not take from it.
inline v1::Lease& add_lease(v1::ClusterState& state, std::uint64_t id, const std::string& name, v1::DeviceState& device,
                            std::int64_t units) {
  auto& lease = *state.add_leases();
  lease.set_id(id);
  lease.set_name(name);
  lease.set_node(device.node());
  auto& grant = *lease.add_devices();
  grant.set_index(device.device().index());
  grant.set_share_units(units);
  grant.set_memory_bytes(memory_for_share(gib, Share{units}));
  device.add_leases(id);
  return lease;
}

/// Takes a share from a device, and the memory that goes with it.
inline void take(v1::DeviceState& device, std::int64_t units) {
  device.set_free_units(device.free_units() - units);
  device.set_free_memory_bytes(device.free_memory_bytes() - memory_for_share(gib, Share{units}));
}

inline v1::ActorInfo& add_actor(v1::ClusterState& state, std::uint64_t id, const std::string& name) {
  auto& actor = *state.add_actors();
  actor.set_id(id);
  actor.set_name(name);
  actor.set_type("counter");
  actor.set_state("alive");
  actor.mutable_lease()->set_node("n0");
  actor.mutable_lease()->set_id(id);
  return actor;
}

/// How often a method was called, and how often it failed.
inline void count(v1::CallStats& stats, std::uint64_t ran, std::uint64_t failed) {
  stats.set_name("add");
  stats.clear_ran();
  for (std::size_t i = 0; i <= limits::call_seconds.size(); ++i) {
    stats.add_ran(i == 0 ? ran : 0);
    stats.add_waited(0);
  }
  stats.set_failed(failed);
}

/// Sets every text of a message, and of all messages in it, two of each that may be many.
inline void fill(google::protobuf::Message& message, const std::string& text) {
  using Field = google::protobuf::FieldDescriptor;
  const auto& reflection = *message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const Field* field = message.GetDescriptor()->field(i);
    if (field->cpp_type() == Field::CPPTYPE_MESSAGE) {
      // The values of a map are told apart by their keys, which would be the same.
      const int many = field->is_map() ? 1 : 2;
      for (int k = 0; field->is_repeated() && k < many; ++k)
        fill(*reflection.AddMessage(&message, field), text);
      if (!field->is_repeated())
        fill(*reflection.MutableMessage(&message, field), text);
    } else if (field->cpp_type() == Field::CPPTYPE_STRING) {
      if (field->is_repeated())
        reflection.AddString(&message, field, text);
      else
        reflection.SetString(&message, field, text);
    } else if (field->cpp_type() == Field::CPPTYPE_UINT64 && !field->is_repeated()) {
      reflection.SetUInt64(&message, field, 7);
    }
  }
}

/// A page as a reader sees it.
struct Reading {
  /// Why it is not well-formed; empty if it is.
  std::string problem;
  std::vector<std::string> elements;
  std::vector<std::string> attributes;
};

/// Reads a page as Html writes it: each element is closed, or closes itself; each value is in double quotes.
inline Reading read(std::string_view page) {
  Reading result;
  std::vector<std::string> open;
  const auto word = [](std::string_view text) { return std::string{text.substr(0, text.find_first_of(" =/>\""))}; };
  for (auto at = page.find('<'); at != std::string_view::npos; at = page.find('<', at)) {
    if (page.substr(at).starts_with("<!DOCTYPE html>")) {
      at += 1;
      continue;
    }
    const bool closes = page.substr(at).starts_with("</");
    const auto name = word(page.substr(at + (closes ? 2 : 1)));
    at += name.size() + (closes ? 2 : 1);
    if (closes) {
      if (open.empty() || open.back() != name)
        return {"</" + name + "> closes " + (open.empty() ? "nothing" : open.back()), {}, {}};
      open.pop_back();
      continue;
    }
    result.elements.push_back(name);
    while (at < page.size() && page[at] == ' ') {
      const auto attribute = word(page.substr(at + 1));
      result.attributes.push_back(attribute);
      at += attribute.size() + 1;
      if (!page.substr(at).starts_with("=\""))
        return {"the attribute " + attribute + " has no value", {}, {}};
      at = page.find('"', at + 2) + 1;
    }
    if (!page.substr(at).starts_with("/>"))
      open.push_back(name);
    if (page.substr(at).find_first_of("<>") == std::string_view::npos || (page[at] != '>' && page[at] != '/'))
      return {"<" + name + " does not end", {}, {}};
  }
  if (!open.empty())
    result.problem = open.back() + " is not closed";
  return result;
}

} // namespace dashboard_test
