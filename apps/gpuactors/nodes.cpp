// gpuactors nodes: lists the nodes of the cluster; gpuactors drain and undrain: keep new work from a node, or allow it.
#include "incomplete.hpp"
#include "input.hpp"
#include "progress.hpp"
#include "state_view.hpp"
#include "table.hpp"
#include "words.hpp"

#include <gpuactors/base/host_memory.hpp>
#include <gpuactors/base/suggest.hpp>
#include <gpuactors/base/units.hpp>

#include <apps/cli/plain_output.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace gpuactors::cli {

namespace {

using Labels = google::protobuf::Map<std::string, std::string>;

std::map<std::string, std::string> sorted(const Labels& labels) {
  return {labels.begin(), labels.end()};
}

/// Returns the node's devices that are out of use, with the reasons.
std::vector<const v1::DeviceState*> failed_devices(const v1::ClusterState& state, const std::string& node) {
  std::vector<const v1::DeviceState*> failed;
  for (const auto& entry : state.devices())
    if (entry.node() == node && entry.state() != "ok")
      failed.push_back(&entry);
  return failed;
}

/// Returns "8, failed: 3 (XID 79 (the GPU has fallen off the bus))".
std::string device_count_in_words(const v1::ClusterState& state, const v1::Node& node) {
  auto words = std::to_string(node.devices_size());
  const char* before = ", failed: ";
  for (const auto* entry : failed_devices(state, node.name()))
    words += fmt::format("{}{} ({})", std::exchange(before, ", "), entry->device().index(), entry->reason());
  return words;
}

void print_nodes(const v1::ClusterState& state, std::ostream& out) {
  Table table{{"NODE", "STATE", ">DEVICES", ">CPUS", "ADDRESS", "LABELS", "RESOURCES"}};
  for (const auto& entry : state.nodes()) {
    const auto& node = entry.node();
    const bool away_too = entry.state() == "away" && is_draining(entry);
    table.add({node.name(), away_too ? "away, draining" : entry.state(), device_count_in_words(state, node),
               to_string(Share{node.cpu_units()}), node.address(), labels_in_words(node.labels()),
               amounts_in_words(node.resource_units())});
  }
  table.print(out);
}

/// A row for each device, with its distance to each; empty if unknown. As scenarios of `plan` have them.
Json distances_of(const v1::Node& node) {
  auto rows = Json::array();
  const auto count = node.devices_size();
  if (node.distances_size() != count * count)
    return rows;
  for (auto row = node.distances().begin(); row != node.distances().end(); row += count)
    rows.push_back(std::vector<int>(row, row + count));
  return rows;
}

Json json_nodes(const v1::ClusterState& state) {
  auto list = Json::array();
  for (const auto& entry : state.nodes()) {
    const auto& node = entry.node();
    auto failed = Json::array();
    for (const auto* device : failed_devices(state, node.name()))
      failed.push_back({{"index", device->device().index()}, {"reason", device->reason()}});
    list.push_back({{"name", node.name()},
                    {"address", node.address()},
                    {"state", entry.state()},
                    {"draining", is_draining(entry)},
                    {"release", entry.release()},
                    {"certificate_until", json_of_time(entry.certificate().until_unix_s())},
                    {"cpus", Share{node.cpu_units()}.to_double()},
                    {"devices", node.devices_size()},
                    {"distances", distances_of(node)},
                    {"failed_devices", std::move(failed)},
                    {"labels", Json(sorted(node.labels()))},
                    {"resources", amounts_of(node.resource_units())},
                    {"host_memory_bytes", json_of(host_memory_in(node.resource_units()))},
                    {"free_host_memory_bytes", json_of(entry.free_host_memory_bytes())}});
  }
  return list;
}

/// For probes: an error unless the node serves.
Result<void> keep_node(v1::ClusterState& state, const std::string& name) {
  auto& nodes = *state.mutable_nodes();
  const auto is_it = [&name](const v1::NodeState& entry) { return entry.node().name() == name; };
  const auto found = std::find_if(nodes.begin(), nodes.end(), is_it);
  if (found == nodes.end()) {
    std::vector<std::string> known;
    for (const auto& entry : nodes)
      known.push_back(entry.node().name());
    return fail(Errc::not_found,
                fmt::format("there is no node \"{}\" in the cluster{}", name, did_you_mean(name, known)));
  }
  if (found->state() != "ok")
    return fail(Errc::unavailable, fmt::format("node {} is {}", name, found->state()));
  nodes.erase(std::remove_if(nodes.begin(), nodes.end(), std::not_fn(is_it)), nodes.end());
  return {};
}

struct DrainArguments {
  ClusterOptions cluster;
  std::string node;
  std::optional<std::string> deadline;
};

/// How much longer than its deadline a node may take to become empty: work that is told to end has a grace period.
constexpr auto ending = 2 * limits::stop_grace;

/// Who still has something of a node.
struct LeftOnNode {
  /// The names of the leases that are known.
  std::vector<std::string> leases;
  Presence presence = Presence::unknown;
};

/// Waits until the node is empty, at most for `wait`.
Result<LeftOnNode> wait_until_empty(Cluster& cluster, const std::string& node, Duration wait) {
  const auto until = deadline_after(Clock::now(), wait);
  StatusLine line;
  for (;;) {
    GPUACTORS_LET(state, cluster.state());
    LeftOnNode left;
    for (const auto& lease : state.leases())
      if (lease.node() == node)
        left.leases.push_back(lease.name());
    left.presence = presence_of(!left.leases.empty(), state, "leases");
    line.show(left.leases.empty() ? ""
                                  : fmt::format("{} left: {}", left.leases.size(), plain_text(left.leases.front())));
    if (left.presence == Presence::absent || Clock::now() >= until)
      return left;
    std::this_thread::sleep_for(std::chrono::milliseconds{100});
  }
}

Result<void> run_drain(const DrainArguments& arguments) {
  std::optional<Duration> deadline;
  if (arguments.deadline) {
    GPUACTORS_LET(seconds, parse_seconds("--deadline", *arguments.deadline));
    deadline = seconds;
  }
  GPUACTORS_LET(cluster, arguments.cluster.open());
  if (!deadline) {
    GPUACTORS_TRY(cluster.drain(arguments.node));
    std::cout << arguments.node << " gets nothing new\n";
    return {};
  }
  GPUACTORS_TRY(cluster.drain(arguments.node, *deadline));
  GPUACTORS_LET(left, wait_until_empty(cluster, arguments.node, *deadline + ending));
  if (left.presence == Presence::there)
    return fail(Errc::deadline_exceeded,
                fmt::format("{} gets nothing new, and still has {}", arguments.node, fmt::join(left.leases, ", ")));
  if (left.presence == Presence::unknown)
    return fail(Errc::deadline_exceeded,
                fmt::format("{} gets nothing new; whether it is empty is not known, since the cluster has more leases "
                            "than one answer has room for (gpuactors events tells: node_empty)",
                            arguments.node));
  std::cout << arguments.node << " is empty and gets nothing new\n";
  return {};
}

struct UndrainArguments {
  ClusterOptions cluster;
  std::string node;
};

Result<void> run_undrain(const UndrainArguments& arguments) {
  GPUACTORS_LET(cluster, arguments.cluster.open());
  GPUACTORS_TRY(cluster.undrain(arguments.node));
  std::cout << arguments.node << " gets new work again\n";
  return {};
}

} // namespace

Command add_nodes(CLI::App& program) {
  return add_state_view(
      program, {"nodes", "The nodes of the cluster, with their labels and resources",
                "Print one array with an object for each node",
                "A node that is draining keeps what runs there and gets nothing new. A device that has "
                "failed is out of use until its node is started again. With a name, it fails unless that "
                "node is there and takes work, for probes.\n\n"
                "Examples:\n"
                "  gpuactors nodes --broker 127.0.0.1:7711\n"
                "  gpuactors nodes gpu-3 --broker 127.0.0.1:7711\n"
                "  gpuactors nodes --broker 127.0.0.1:7711 --json | jq -r '.[].name'",
                ClusterOptions::Kinds::any, print_nodes, json_nodes, keep_node, "One node; left out: all", true});
}

Command add_drain(CLI::App& program) {
  auto arguments = std::make_shared<DrainArguments>();
  auto* parser = program.add_subcommand("drain", "Place nothing new on a node; empty it by a deadline");
  parser->add_option("node", arguments->node, "The node; gpuactors nodes lists them")->required()->type_name("NODE");
  parser
      ->add_option("--deadline", arguments->deadline,
                   "Empty the node: actors with restarts move to other nodes when there is room, all else may run so "
                   "long and is then ended. Left out: what runs there stays")
      ->type_name("SECONDS");
  arguments->cluster.add_to(*parser, ClusterOptions::Kinds::running);
  parser->footer(
      "With a deadline it returns when nothing is left on the node: then stop the node's process. Without one, "
      "gpuactors leases shows what is still there. gpuactors undrain gives the node work again; so does a restart of "
      "its process.\n\n"
      "Examples:\n"
      "  gpuactors drain gpu-3 --broker 127.0.0.1:7711                   nothing new\n"
      "  gpuactors drain gpu-3 --deadline 300 --broker 127.0.0.1:7711    empty within five minutes");
  return {parser, [arguments] { return run_drain(*arguments); }};
}

Command add_undrain(CLI::App& program) {
  auto arguments = std::make_shared<UndrainArguments>();
  auto* parser = program.add_subcommand("undrain", "Give a node that was drained new work again");
  parser->add_option("node", arguments->node, "The node; gpuactors nodes lists them")->required()->type_name("NODE");
  arguments->cluster.add_to(*parser, ClusterOptions::Kinds::running);
  parser->footer("What runs on it stays, also when the node was being emptied by a deadline; what waits for room may "
                 "be placed there at once.\n\n"
                 "Examples:\n"
                 "  gpuactors undrain gpu-3 --broker 127.0.0.1:7711");
  return {parser, [arguments] { return run_undrain(*arguments); }};
}

} // namespace gpuactors::cli
