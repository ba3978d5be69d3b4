// gpuactors actors: what was spawned, where it is and how it does.
#include "state_view.hpp"
#include "table.hpp"

#include <gpuactors/base/units.hpp>

namespace gpuactors::cli {

namespace {

/// The process that it is in; 0 while it is in none.
std::uint32_t pid_of(const v1::ActorInfo& actor) {
  return actor.has_lease() && actor.state() != "starting" ? actor.pid() : 0;
}

void print_actors(const v1::ClusterState& state, std::ostream& out) {
  Table table{
      {"NAME", ">ID", "TYPE", "STATE", ">RESTARTS", "NODE", ">PID", "DEVICES (SHARE, MEMORY)", ">IN USE", ">CALLS"}};
  for (const auto& actor : state.actors()) {
    const auto& space = actor.name_space();
    const auto pid = pid_of(actor);
    table.add({space.empty() ? actor.name() : space + "/" + actor.name(), std::to_string(actor.id()), actor.type(),
               actor.state(), std::to_string(actor.restarts()), actor.lease().node(),
               pid != 0 ? std::to_string(pid) : "", actor.has_lease() ? devices_in_words(actor.lease()) : "",
               pid != 0 ? format_bytes(actor.memory_used_bytes()) : "", std::to_string(actor.calls())});
  }
  table.print(out);
}

Json json_actors(const v1::ClusterState& state) {
  auto list = Json::array();
  for (const auto& actor : state.actors())
    list.push_back(json_of(actor));
  return list;
}

} // namespace

Json json_of(const v1::ActorInfo& actor) {
  return {{"name", actor.name()},
          {"name_space", actor.name_space()},
          {"id", json_of(actor.id())},
          {"type", actor.type()},
          {"node", actor.lease().node()},
          {"address", actor.address()},
          {"pid", pid_of(actor)},
          {"state", actor.state()},
          {"restarts", actor.restarts()},
          {"max_restarts", actor.max_restarts()},
          {"memory_used_bytes", json_of(actor.memory_used_bytes())},
          {"calls", json_of(actor.calls())},
          {"lease", actor.has_lease() ? json_of(actor.lease().id()) : Json("")},
          {"devices", devices_of(actor.lease())},
          {"detached", actor.detached()},
          {"max_task_retries", actor.max_task_retries()},
          {"max_pending_calls", json_of(actor.max_pending_calls())}};
}

Command add_actors(CLI::App& program) {
  return add_state_view(program,
                        {"actors", "The actors: where they are, their processes and devices",
                         "Print one array with an object for each actor",
                         "An actor is waiting (for its resources: gpuactors queue says for what), starting, alive or "
                         "stopping. What it uses of its memory and how many calls it has served in this life are up to "
                         "a second old.\n\n"
                         "Examples:\n"
                         "  gpuactors actors --broker 127.0.0.1:7711\n"
                         "  gpuactors actors --broker 127.0.0.1:7711 --json | jq '.[] | {name, node, pid, restarts}'",
                         ClusterOptions::Kinds::running, print_actors, json_actors});
}

} // namespace gpuactors::cli
