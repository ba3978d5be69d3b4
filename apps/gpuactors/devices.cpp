// gpuactors devices: what there is, and what of it is free.
#include "cluster_options.hpp"
#include "command.hpp"
#include "table.hpp"

#include <gpuactors/base/units.hpp>
#include <gpuactors/gpuactors.hpp>

#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>

namespace gpuactors::cli {

namespace {

using Json = nlohmann::ordered_json;

void print_table(const v1::ClusterState& state) {
  Table table{{"NODE", ">INDEX", "KIND", "TYPE", ">MEMORY", ">FREE SHARE", ">FREE MEMORY", "STATE", "UUID", "NAME"}};
  for (const auto& entry : state.devices()) {
    const auto& device = entry.device();
    table.add({entry.node(), std::to_string(device.index()), device.kind(), device.accelerator_type(),
               format_bytes(device.memory_bytes()), to_string(Share{entry.free_units()}),
               format_bytes(entry.free_memory_bytes()), entry.state(), device.uuid(), device.name()});
  }
  table.print(std::cout);
}

void print_json(const v1::ClusterState& state) {
  auto list = Json::array();
  for (const auto& entry : state.devices()) {
    const auto& device = entry.device();
    // Bytes as strings, as in every message of the program: 64-bit integers do not survive all readers of JSON.
    list.push_back({{"node", entry.node()},
                    {"index", device.index()},
                    {"kind", device.kind()},
                    {"accelerator_type", device.accelerator_type()},
                    {"uuid", device.uuid()},
                    {"name", device.name()},
                    {"memory_bytes", std::to_string(device.memory_bytes())},
                    {"free_share", Share{entry.free_units()}.to_double()},
                    {"free_memory_bytes", std::to_string(entry.free_memory_bytes())},
                    {"state", entry.state()}});
  }
  std::cout << list.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

struct Arguments {
  ClusterOptions cluster;
  bool json = false;
};

Result<void> run_devices(const Arguments& arguments) {
  GPUACTORS_LET(cluster, arguments.cluster.open());
  GPUACTORS_LET(state, cluster.state());
  if (arguments.json)
    print_json(state);
  else
    print_table(state);
  return {};
}

} // namespace

Command add_devices(CLI::App& program) {
  auto arguments = std::make_shared<Arguments>();
  auto* parser = program.add_subcommand("devices", "The devices, and how much of each is free");
  parser->add_flag("--json", arguments->json, "Print one array with an object for each device");
  arguments->cluster.add_to(*parser);
  parser->footer("CUDA_VISIBLE_DEVICES limits what there is.\n\n"
                 "Examples:\n"
                 "  gpuactors devices\n"
                 "  gpuactors devices --devices host:4x1GiB@V100\n"
                 "  gpuactors devices --json | jq -r '.[].uuid'");
  return {parser, [arguments] { return run_devices(*arguments); }};
}

} // namespace gpuactors::cli
