// gpuactors status: shows the cluster in a few lines.
#include "state_view.hpp"
#include "table.hpp"
#include "utc.hpp"
#include "words.hpp"

#include <gpuactors/base/host_memory.hpp>
#include <gpuactors/base/units.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace gpuactors::cli {

namespace {

/// The totals of a state that fit in a few lines.
struct Totals {
  std::ptrdiff_t draining = 0;
  std::ptrdiff_t away = 0;
  std::ptrdiff_t used_devices = 0;
  std::ptrdiff_t failed_devices = 0;
  Share free_share;
  std::uint64_t memory = 0;
  std::uint64_t free_memory = 0;
  std::uint64_t host_memory = 0;
  std::uint64_t free_host_memory = 0;
  /// Actors by state.
  std::map<std::string, std::size_t> actors;
};

Totals totals_of(const v1::ClusterState& state) {
  Totals totals;
  for (const auto& node : state.nodes()) {
    totals.draining += is_draining(node) ? 1 : 0;
    totals.away += node.state() == "away" ? 1 : 0;
    totals.host_memory += host_memory_in(node.node().resource_units());
    totals.free_host_memory += node.free_host_memory_bytes();
  }
  for (const auto& device : state.devices()) {
    totals.used_devices += device.leases_size() > 0 ? 1 : 0;
    totals.failed_devices += device.state() == "failed" ? 1 : 0;
    totals.free_share += Share{device.free_units()};
    totals.memory += device.device().memory_bytes();
    totals.free_memory += device.free_memory_bytes();
  }
  for (const auto& actor : state.actors())
    ++totals.actors[actor.state()];
  return totals;
}

/// Returns ", 2 failed"; empty for a count of 0.
std::string and_also(std::ptrdiff_t count, std::string_view what) {
  return count == 0 ? std::string{} : fmt::format(", {} {}", count, what);
}

std::string in_words(const std::map<std::string, std::size_t>& by_state) {
  std::string words;
  for (const auto& [state, count] : by_state)
    words += fmt::format("{}{} {}", words.empty() ? ": " : ", ", count, state);
  return words;
}

/// Returns "release 0.1.0, since 2026-11-22 16:02:11.034 UTC; others run 0.1.1".
std::string broker_in_words(const v1::ClusterState& state) {
  return fmt::format("release {}, since {} UTC{}", state.release(),
                     utc_for_people(from_unix_ns(state.started_unix_ns())), other_releases(state, "; "));
}

/// Returns "10.0.0.2:7711 has a copy, and follows".
std::string standby_in_words(const v1::StandbyState& standby) {
  if (standby.state() == "following")
    return fmt::format("{} has a copy, and follows", standby.address());
  if (standby.state() == "copying")
    return fmt::format("{} has no whole copy yet", standby.address());
  return fmt::format("{} does not follow: silent for {:.0f} s", standby.address(),
                     to_seconds(std::chrono::nanoseconds{standby.silent_ns()}));
}

Json json_standby(const v1::ClusterState& state) {
  if (!state.has_standby())
    return nullptr;
  return {{"address", state.standby().address()},
          {"state", state.standby().state()},
          {"silent_seconds", to_seconds(std::chrono::nanoseconds{state.standby().silent_ns()})}};
}

Json json_clients(const v1::ClusterState& state) {
  auto list = Json::array();
  for (const auto& client : state.clients())
    list.push_back({{"name", client.name()},
                    {"id", json_of(client.id())},
                    {"release", client.release()},
                    {"away", client.away()}});
  return list;
}

void print_status(const v1::ClusterState& state, std::ostream& out) {
  const auto totals = totals_of(state);
  Table table{{"WHAT", "HOW MANY"}};
  table.add({"nodes", fmt::format("{}{}{}", state.nodes_size(), and_also(totals.draining, "draining"),
                                  and_also(totals.away, "away"))});
  table.add({"devices",
             fmt::format("{}, {} in use{}; free: share {}, memory {} of {}", state.devices_size(), totals.used_devices,
                         and_also(totals.failed_devices, "failed"), to_string(totals.free_share),
                         format_bytes(totals.free_memory), format_bytes(totals.memory))});
  table.add({"memory", fmt::format("{} of host memory, {} free", format_bytes(totals.host_memory),
                                   format_bytes(totals.free_host_memory))});
  table.add({"actors", fmt::format("{}{}", state.actors_size(), in_words(totals.actors))});
  table.add({"leases", std::to_string(state.leases_size())});
  table.add({"groups", std::to_string(state.groups_size())});
  table.add({"queue", fmt::format("{}{}{}", state.queue_size(), state.queue().empty() ? "" : ", first: ",
                                  state.queue().empty() ? "" : state.queue(0).reason())});
  const auto away =
      std::count_if(state.clients().begin(), state.clients().end(), [](const auto& client) { return client.away(); });
  table.add({"clients", fmt::format("{}{}", state.clients_size(), and_also(away, "away"))});
  table.add({"broker", broker_in_words(state)});
  if (state.has_standby())
    table.add({"standby", standby_in_words(state.standby())});
  table.print(out);
}

Json json_status(const v1::ClusterState& state) {
  const auto totals = totals_of(state);
  auto by_state = Json::object();
  for (const auto& [name, count] : totals.actors)
    by_state[name] = count;
  return Json::array({{{"nodes", state.nodes_size()},
                       {"nodes_draining", totals.draining},
                       {"nodes_away", totals.away},
                       {"devices", state.devices_size()},
                       {"devices_in_use", totals.used_devices},
                       {"devices_failed", totals.failed_devices},
                       {"free_share", totals.free_share.to_double()},
                       {"memory_bytes", json_of(totals.memory)},
                       {"free_memory_bytes", json_of(totals.free_memory)},
                       {"host_memory_bytes", json_of(totals.host_memory)},
                       {"free_host_memory_bytes", json_of(totals.free_host_memory)},
                       {"actors", state.actors_size()},
                       {"actors_by_state", by_state},
                       {"leases", state.leases_size()},
                       {"groups", state.groups_size()},
                       {"queue", state.queue_size()},
                       {"clients", state.clients_size()},
                       {"client_list", json_clients(state)},
                       {"release", state.release()},
                       {"started", utc_for_programs(from_unix_ns(state.started_unix_ns()))},
                       {"certificate_until", json_of_time(state.certificate().until_unix_s())},
                       {"standby", json_standby(state)},
                       {"takeovers", json_of(state.term())}}});
}

} // namespace

Command add_status(CLI::App& program) {
  return add_state_view(program, {"status",
                                  "The cluster in a few lines: nodes, devices, actors, leases, queue",
                                  "Print one array with one object",
                                  "Programs that are connected are clients, this one and the cluster's own workers "
                                  "among them; those that are away lost their connection and have time to come back "
                                  "(--reconnect-grace).\n\n"
                                  "Examples:\n"
                                  "  gpuactors status --broker 127.0.0.1:7711\n"
                                  "  gpuactors status --broker 127.0.0.1:7711 --json | jq '.[0].queue'",
                                  ClusterOptions::Kinds::any,
                                  print_status,
                                  json_status,
                                  nullptr,
                                  {},
                                  true});
}

} // namespace gpuactors::cli
