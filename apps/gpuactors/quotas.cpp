// gpuactors quotas: lists what each owner holds and may hold; --set and --remove change the quotas.
#include "input.hpp"
#include "state_view.hpp"
#include "table.hpp"
#include "words.hpp"

#include <gpuactors/base/units.hpp>

#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gpuactors::cli {

namespace {

/// The arguments as they were typed.
struct QuotasArguments {
  ClusterOptions cluster;
  std::vector<std::string> set;
  std::vector<std::string> remove;
  bool json = false;
};

void print_quotas(const v1::ClusterState& state, std::ostream& out) {
  Table table{{"OWNER", ">USED", ">OF"}};
  for (const auto& quota : state.quotas())
    table.add({quota.owner(), quota.owner() == each_client ? "each" : to_string(Share{quota.used_units()}),
               !quota.has_gpu_units() ? "no quota"
                                      : fmt::format("{}{}", to_string(Share{quota.gpu_units()}),
                                                    quota.by_default() ? fmt::format(" ({})", each_client) : "")});
  table.print(out);
}

Json json_quotas(const v1::ClusterState& state) {
  auto list = Json::array();
  for (const auto& quota : state.quotas())
    list.push_back({{"owner", quota.owner()},
                    {"used", quota.owner() == each_client ? Json() : Json(Share{quota.used_units()}.to_double())},
                    {"of", quota.has_gpu_units() ? Json(Share{quota.gpu_units()}.to_double()) : Json()},
                    {"default", quota.by_default()}});
  return list;
}

Result<void> run_quotas(const QuotasArguments& arguments) {
  GPUACTORS_LET(quotas, parse_quotas("--set", arguments.set));
  GPUACTORS_LET(cluster, arguments.cluster.open());
  for (const auto& owner : arguments.remove) {
    GPUACTORS_TRY(cluster.remove_quota(owner));
    std::cout << fmt::format("{} has no quota of its own any more\n", owner);
  }
  for (const auto& [owner, gpus] : quotas) {
    GPUACTORS_TRY(cluster.set_quota(owner, gpus));
    std::cout << fmt::format("the quota of {} is {} device{} in all\n", owner, gpus, gpus == 1 ? "" : "s");
  }
  if (!quotas.empty() || !arguments.remove.empty())
    return {};
  GPUACTORS_LET(state, cluster.state());
  if (arguments.json)
    print_json(std::cout, json_quotas(state));
  else
    print_quotas(state, std::cout);
  return {};
}

} // namespace

Command add_quotas(CLI::App& program) {
  auto arguments = std::make_shared<QuotasArguments>();
  auto* parser = program.add_subcommand("quotas", "What each client's name holds of devices, and may hold");
  auto* set = parser
                  ->add_option("--set", arguments->set,
                               "The devices that all leases of this name may hold together, such as alice=2.5; *=1: of "
                               "each client without a quota of its own; may be repeated")
                  ->type_name("OWNER=F")
                  ->allow_extra_args(false);
  auto* remove = parser->add_option("--remove", arguments->remove, "Remove the quota of this name; may be repeated")
                     ->type_name("OWNER")
                     ->allow_extra_args(false);
  parser->add_flag("--json", arguments->json, "Print one array with an object for each owner")
      ->excludes(set)
      ->excludes(remove);
  arguments->cluster.add_to(*parser, ClusterOptions::Kinds::running);
  parser->footer("The owner is the name in a client's certificate (gpuactors certs issue NAME --client); whoever has a "
                 "node's certificate has no quota, and may change those of others. A lower quota ends nothing: it "
                 "grants nothing more. What waits for a quota says so: gpuactors queue.\n\n"
                 "Examples:\n"
                 "  gpuactors quotas --broker 127.0.0.1:7711\n"
                 "  gpuactors quotas --set alice=4 --set '*=0.5'\n"
                 "  gpuactors quotas --remove alice");
  return {parser, [arguments] { return run_quotas(*arguments); }};
}

} // namespace gpuactors::cli
