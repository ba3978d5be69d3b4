// gpuactors nodes: the machines of the cluster; gpuactors drain: keeps new work from one of them.
#include "state_view.hpp"
#include "table.hpp"

#include <gpuactors/base/units.hpp>

#include <fmt/format.h>

#include <iostream>
#include <map>
#include <memory>

namespace gpuactors::cli {

namespace {

using Labels = google::protobuf::Map<std::string, std::string>;

std::map<std::string, std::string> sorted(const Labels& labels) {
  return {labels.begin(), labels.end()};
}

std::string in_words(const Labels& labels) {
  std::string words;
  for (const auto& [key, value] : sorted(labels))
    words += fmt::format("{}{}={}", words.empty() ? "" : ", ", key, value);
  return words;
}

void print_nodes(const v1::ClusterState& state, std::ostream& out) {
  Table table{{"NODE", "STATE", ">DEVICES", ">CPUS", "ADDRESS", "LABELS", "RESOURCES"}};
  for (const auto& entry : state.nodes()) {
    const auto& node = entry.node();
    table.add({node.name(), entry.state(), std::to_string(node.devices_size()), to_string(Share{node.cpu_units()}),
               node.address(), in_words(node.labels()), amounts_in_words(node.resource_units())});
  }
  table.print(out);
}

Json json_nodes(const v1::ClusterState& state) {
  auto list = Json::array();
  for (const auto& entry : state.nodes()) {
    const auto& node = entry.node();
    list.push_back({{"name", node.name()},
                    {"address", node.address()},
                    {"state", entry.state()},
                    {"cpus", Share{node.cpu_units()}.to_double()},
                    {"devices", node.devices_size()},
                    {"labels", Json(sorted(node.labels()))},
                    {"resources", amounts_of(node.resource_units())}});
  }
  return list;
}

struct DrainArguments {
  ClusterOptions cluster;
  std::string node;
};

Result<void> run_drain(const DrainArguments& arguments) {
  GPUACTORS_LET(cluster, arguments.cluster.open());
  GPUACTORS_TRY(cluster.drain(arguments.node));
  std::cout << arguments.node << " gets nothing new\n";
  return {};
}

} // namespace

Command add_nodes(CLI::App& program) {
  return add_state_view(program, {"nodes", "The nodes of the cluster, with their labels and resources",
                                  "Print one array with an object for each node",
                                  "A node that is draining keeps what runs there and gets nothing new.\n\n"
                                  "Examples:\n"
                                  "  gpuactors nodes --broker 127.0.0.1:7711\n"
                                  "  gpuactors nodes --broker 127.0.0.1:7711 --json | jq -r '.[].name'",
                                  ClusterOptions::Kinds::any, print_nodes, json_nodes});
}

Command add_drain(CLI::App& program) {
  auto arguments = std::make_shared<DrainArguments>();
  auto* parser = program.add_subcommand("drain", "Place nothing new on a node; what runs there goes on");
  parser->add_option("node", arguments->node, "The node; gpuactors nodes lists them")->required()->type_name("NODE");
  arguments->cluster.add_to(*parser, ClusterOptions::Kinds::running);
  parser->footer(
      "Then stop the node's process when nothing is left on it: gpuactors leases shows what there is. A node "
      "that joins anew gets work again.\n\n"
      "Examples:\n"
      "  gpuactors drain gpu-3 --broker 127.0.0.1:7711");
  return {parser, [arguments] { return run_drain(*arguments); }};
}

} // namespace gpuactors::cli
