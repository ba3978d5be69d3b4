#include "state_view.hpp"

#include "incomplete.hpp"

#include <gpuactors/base/host_memory.hpp>
#include <gpuactors/base/units.hpp>

#include <iostream>
#include <map>
#include <memory>

namespace gpuactors::cli {

namespace {

struct ViewArguments {
  ClusterOptions cluster;
  std::string one;
  bool json = false;
};

} // namespace

Command add_state_view(CLI::App& program, const StateView& view) {
  auto arguments = std::make_shared<ViewArguments>();
  auto* parser = program.add_subcommand(view.name, view.description);
  const CLI::Option* one = nullptr;
  if (view.keep_one != nullptr)
    one = parser->add_option("name", arguments->one, view.one_help)->type_name("NAME");
  parser->add_flag("--json", arguments->json, view.json_help);
  arguments->cluster.add_to(*parser, view.kinds);
  parser->footer(view.footer);
  const bool tells_embedded = view.tells_embedded;
  return {parser,
          [arguments, one, print = view.print, json = view.json, keep_one = view.keep_one,
           tells_embedded]() -> Result<void> {
            GPUACTORS_LET(cluster, arguments->cluster.open());
            GPUACTORS_LET(state, cluster.state());
            say_what_is_incomplete(state);
            // An empty name is one too: a probe whose variable is not set must not hold for all nodes.
            if (one != nullptr && one->count() > 0)
              GPUACTORS_TRY(keep_one(state, arguments->one));
            if (arguments->json) {
              print_json(std::cout, json(state));
              return {};
            }
            print(state, std::cout);
            if (tells_embedded && !arguments->cluster.connects())
              std::cerr << "this is what this machine offers by itself; --broker or GPUACTORS_BROKER names a running "
                           "cluster\n";
            return {};
          }};
}

Json devices_of(const v1::Lease& lease) {
  auto list = Json::array();
  for (const auto& device : lease.devices())
    list.push_back({{"index", device.index()},
                    {"share", Share{device.share_units()}.to_double()},
                    {"memory_bytes", json_of(device.memory_bytes())}});
  return list;
}

Json amounts_of(const google::protobuf::Map<std::string, std::int64_t>& units) {
  auto amounts = Json::object();
  for (const auto& [name, amount] : std::map<std::string, std::int64_t>{units.begin(), units.end()})
    if (name != host_memory_resource)
      amounts[name] = Share{amount}.to_double();
  return amounts;
}

} // namespace gpuactors::cli
