// gpuactors devices: lists the devices, and how much of each is free.
#include "state_view.hpp"
#include "table.hpp"

#include <gpuactors/base/units.hpp>

#include <algorithm>

namespace gpuactors::cli {

namespace {

void print_devices(const v1::ClusterState& state, std::ostream& out) {
  const auto& devices = state.devices();
  const bool told =
      std::any_of(devices.begin(), devices.end(), [](const v1::DeviceState& entry) { return entry.has_use(); });
  std::vector<std::string> titles{"NODE", ">INDEX", "KIND", "TYPE", ">MEMORY", ">FREE SHARE", ">FREE MEMORY"};
  if (told)
    titles.insert(titles.end(), {">BUSY", ">IN USE"});
  titles.insert(titles.end(), {"STATE", "UUID", "NAME"});
  Table table{std::move(titles)};
  for (const auto& entry : devices) {
    const auto& device = entry.device();
    std::vector<std::string> row{entry.node(),
                                 std::to_string(device.index()),
                                 device.kind(),
                                 device.accelerator_type(),
                                 format_bytes(device.memory_bytes()),
                                 to_string(Share{entry.free_units()}),
                                 format_bytes(entry.free_memory_bytes())};
    if (told) {
      row.push_back(entry.has_use() && entry.use().percent() >= 0 ? std::to_string(entry.use().percent()) + " %" : "");
      row.push_back(entry.has_use() ? format_bytes(entry.use().memory_bytes()) : "");
    }
    row.push_back(entry.reason().empty() ? entry.state() : entry.state() + ": " + entry.reason());
    row.push_back(device.uuid());
    row.push_back(device.name());
    table.add(std::move(row));
  }
  table.print(out);
}

Json json_devices(const v1::ClusterState& state) {
  auto list = Json::array();
  for (const auto& entry : state.devices()) {
    const auto& device = entry.device();
    list.push_back({{"node", entry.node()},
                    {"index", device.index()},
                    {"kind", device.kind()},
                    {"accelerator_type", device.accelerator_type()},
                    {"uuid", device.uuid()},
                    {"name", device.name()},
                    {"memory_bytes", json_of(device.memory_bytes())},
                    {"numa_node", device.numa() > 0 ? Json(device.numa() - 1) : Json()},
                    {"free_share", Share{entry.free_units()}.to_double()},
                    {"free_memory_bytes", json_of(entry.free_memory_bytes())},
                    {"state", entry.state()}});
    if (entry.has_use()) {
      list.back()["memory_in_use_bytes"] = json_of(entry.use().memory_bytes());
      if (entry.use().percent() >= 0)
        list.back()["busy_percent"] = entry.use().percent();
    }
    if (!entry.reason().empty())
      list.back()["reason"] = entry.reason();
  }
  return list;
}

} // namespace

Command add_devices(CLI::App& program) {
  return add_state_view(program,
                        {"devices", "The devices, and how much of each is free",
                         "Print one array with an object for each device",
                         "CUDA_VISIBLE_DEVICES limits what there is. A device that has failed is out of use until "
                         "its node is started again. BUSY and IN USE are what the management library says of a GPU, of "
                         "all processes on it, every 2 s.\n\n"
                         "Examples:\n"
                         "  gpuactors devices\n"
                         "  gpuactors devices --devices host:4x1GiB@V100\n"
                         "  gpuactors devices --broker 127.0.0.1:7711\n"
                         "  gpuactors devices --json | jq -r '.[].uuid'",
                         ClusterOptions::Kinds::any, print_devices, json_devices});
}

} // namespace gpuactors::cli
