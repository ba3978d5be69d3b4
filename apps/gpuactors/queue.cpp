// gpuactors queue: lists what waits for resources, and why.
#include "state_view.hpp"
#include "table.hpp"

namespace gpuactors::cli {

namespace {

void print_queue(const v1::ClusterState& state, std::ostream& out) {
  Table table{{">ID", "NAME", ">PRIORITY", "REASON"}};
  for (const auto& waiting : state.queue())
    table.add({waiting.id() != 0 ? std::to_string(waiting.id()) : "group", waiting.name(),
               std::to_string(waiting.priority()), waiting.reason()});
  table.print(out);
}

Json json_queue(const v1::ClusterState& state) {
  auto list = Json::array();
  for (const auto& waiting : state.queue())
    list.push_back({{"id", json_of(waiting.id())},
                    {"name", waiting.name()},
                    {"priority", waiting.priority()},
                    {"reason", waiting.reason()}});
  return list;
}

} // namespace

Command add_queue(CLI::App& program) {
  return add_state_view(program, {"queue", "What waits for resources, and why",
                                  "Print one array with an object for each request that waits",
                                  "In the order in which they are served.\n\n"
                                  "Examples:\n"
                                  "  gpuactors queue --broker 127.0.0.1:7711\n"
                                  "  gpuactors queue --broker 127.0.0.1:7711 --json | jq -r '.[].reason'",
                                  ClusterOptions::Kinds::running, print_queue, json_queue});
}

} // namespace gpuactors::cli
