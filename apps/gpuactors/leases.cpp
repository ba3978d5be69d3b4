// gpuactors leases: lists who holds what.
#include "state_view.hpp"
#include "table.hpp"
#include "words.hpp"

#include <gpuactors/base/host_memory.hpp>
#include <gpuactors/base/units.hpp>

namespace gpuactors::cli {

namespace {

void print_leases(const v1::ClusterState& state, std::ostream& out) {
  Table table{{">ID", "HOLDER", "NODE", "DEVICES (SHARE, MEMORY)", ">CPUS", "RESOURCES"}};
  for (const auto& lease : state.leases())
    table.add({std::to_string(lease.id()), lease.name(), lease.node(), devices_in_words(lease),
               to_string(Share{lease.cpu_units()}), amounts_in_words(lease.resource_units())});
  table.print(out);
}

/// Returns an id as JSON; an empty string for 0, which is no id.
Json id_or_empty(std::uint64_t id) {
  return id != 0 ? json_of(id) : Json("");
}

Json json_leases(const v1::ClusterState& state) {
  auto list = Json::array();
  for (const auto& lease : state.leases())
    list.push_back({{"id", json_of(lease.id())},
                    {"holder", lease.name()},
                    {"node", lease.node()},
                    {"devices", devices_of(lease)},
                    {"cpus", Share{lease.cpu_units()}.to_double()},
                    {"resources", amounts_of(lease.resource_units())},
                    {"host_memory_bytes", json_of(host_memory_in(lease.resource_units()))},
                    {"parent", id_or_empty(lease.parent())},
                    {"group", id_or_empty(lease.group())},
                    {"bundle", lease.bundle()}});
  return list;
}

} // namespace

Command add_leases(CLI::App& program) {
  return add_state_view(program, {"leases", "The leases: who holds which share of which devices",
                                  "Print one array with an object for each lease",
                                  "The holder is an actor's name, or a task type.\n\n"
                                  "Examples:\n"
                                  "  gpuactors leases --broker 127.0.0.1:7711\n"
                                  "  gpuactors leases --broker 127.0.0.1:7711 --json | jq -r '.[].holder'",
                                  ClusterOptions::Kinds::running, print_leases, json_leases});
}

} // namespace gpuactors::cli
