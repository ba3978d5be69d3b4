#include "words.hpp"

#include "utc.hpp"

#include <gpuactors/base/host_memory.hpp>
#include <gpuactors/base/units.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace gpuactors::cli {

std::string devices_in_words(const v1::Lease& lease) {
  std::string words;
  for (const auto& device : lease.devices())
    words += fmt::format("{}{} ({}, {})", words.empty() ? "" : ", ", device.index(),
                         to_string(Share{device.share_units()}), format_bytes(device.memory_bytes()));
  return words.empty() ? "none" : words;
}

std::string place_in_words(const v1::Lease& lease) {
  if (lease.node().empty())
    return {};
  return lease.devices().empty() ? lease.node() : fmt::format("{}: {}", lease.node(), devices_in_words(lease));
}

std::string bundle_in_words(const v1::BundleInfo& bundle) {
  return bundle.node().empty() ? "no place" : place_in_words(lease_like(bundle));
}

v1::Lease lease_like(const v1::BundleInfo& bundle) {
  v1::Lease lease;
  lease.set_node(bundle.node());
  *lease.mutable_devices() = bundle.devices();
  return lease;
}

std::string amounts_in_words(const google::protobuf::Map<std::string, std::int64_t>& units) {
  std::string words;
  for (const auto& [name, amount] : std::map<std::string, std::int64_t>{units.begin(), units.end()})
    words += fmt::format("{}{}={}", words.empty() ? "" : ", ", name, amount_of_resource(name, Share{amount}));
  return words;
}

std::string labels_in_words(const google::protobuf::Map<std::string, std::string>& labels) {
  std::string words;
  for (const auto& [key, value] : std::map<std::string, std::string>{labels.begin(), labels.end()})
    words += fmt::format("{}{}={}", words.empty() ? "" : ", ", key, value);
  return words;
}

bool is_draining(const v1::NodeState& node) {
  return node.draining() || node.state() == "draining";
}

std::string full_name(const v1::ActorInfo& actor) {
  return actor.name_space().empty() ? actor.name() : actor.name_space() + "/" + actor.name();
}

std::string name_or_number(const v1::ActorInfo& actor) {
  return actor.name().empty() ? fmt::format("{} {}", actor.type(), actor.id()) : full_name(actor);
}

std::int32_t counted_restarts(const v1::ActorInfo& actor) {
  // Brokers of earlier releases forgive a move before the restart that it makes is counted.
  return std::max(0, actor.restarts() - actor.forgiven());
}

std::string counted_in_words(const v1::ActorInfo& actor) {
  const auto counted = counted_restarts(actor);
  return actor.max_restarts() < 0 ? std::to_string(counted) : fmt::format("{} of {}", counted, actor.max_restarts());
}

std::string restarts_in_words(const v1::ActorInfo& actor) {
  if (counted_restarts(actor) == actor.restarts())
    return std::to_string(actor.restarts());
  const auto moves = actor.moves() == 0 ? "" : fmt::format(", {} were moves", actor.moves());
  return fmt::format("{} ({} count{})", actor.restarts(), counted_in_words(actor), moves);
}

std::string needs_in_words(const v1::TypeNeeds& needs, Ownership ownership) {
  std::vector<std::string> parts;
  if (needs.gpus() != 0)
    parts.push_back(fmt::format("gpus {}", needs.gpus()));
  else if (ownership == Ownership::whole)
    parts.emplace_back("a device");
  else if (ownership == Ownership::fraction && needs.memory_bytes() == 0) // memory brings a share with it
    parts.emplace_back("a share");
  if (needs.memory_bytes() != 0)
    parts.push_back("memory " + format_bytes(needs.memory_bytes()));
  if (needs.cpus() != 0)
    parts.push_back(fmt::format("cpus {}", needs.cpus()));
  return parts.empty() ? "nothing" : fmt::format("{}", fmt::join(parts, ", "));
}

std::string other_releases(const v1::ClusterState& state, std::string_view before) {
  std::set<std::string> others;
  for (const auto& node : state.nodes())
    others.insert(node.release());
  for (const auto& client : state.clients())
    others.insert(client.release());
  others.erase(state.release());
  others.erase("");
  return others.empty() ? "" : fmt::format("{}others run {}", before, fmt::join(others, ", "));
}

std::string log_line_in_words(const LogRecord& line) {
  const bool of_worker = !line.actor && !line.source.starts_with("task ");
  return fmt::format("{} {} {}  {}", utc_for_people(line.time), line.node,
                     of_worker ? "[" + line.source + "]" : line.source, line.text);
}

std::uint32_t pid_of(const v1::ActorInfo& actor) {
  return actor.has_lease() && actor.state() != "starting" ? actor.pid() : 0;
}

} // namespace gpuactors::cli
