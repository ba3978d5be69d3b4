// gpuactors groups: lists the placement groups, and where their bundles are; --remove ends one.
#include "incomplete.hpp"
#include "input.hpp"
#include "state_view.hpp"
#include "table.hpp"
#include "words.hpp"

#include <gpuactors/base/units.hpp>

#include <fmt/format.h>

#include <iostream>
#include <limits>
#include <memory>
#include <optional>

namespace gpuactors::cli {

namespace {

/// The arguments as they were typed.
struct GroupsArguments {
  ClusterOptions cluster;
  std::optional<std::string> remove;
  bool json = false;
};

void print_groups(const v1::ClusterState& state, std::ostream& out) {
  Table table{{">ID", "NAME", "STATE", ">BUNDLE", "PLACE: DEVICES (SHARE, MEMORY)"}};
  for (const auto& group : state.groups())
    for (int number = 0; number < group.bundles_size(); ++number) {
      const bool first = number == 0;
      table.add({first ? std::to_string(group.id()) : "", first ? group.name() : "", first ? group.state() : "",
                 std::to_string(number), bundle_in_words(group.bundles(number))});
    }
  table.print(out);
}

Json json_groups(const v1::ClusterState& state) {
  auto list = Json::array();
  for (const auto& group : state.groups()) {
    auto bundles = Json::array();
    for (const auto& bundle : group.bundles())
      bundles.push_back({{"node", bundle.node()}, {"devices", devices_of(lease_like(bundle))}});
    list.push_back({{"id", json_of(group.id())},
                    {"name", group.name()},
                    {"state", group.state()},
                    {"bundles", std::move(bundles)}});
  }
  return list;
}

Result<void> run_groups(const GroupsArguments& arguments) {
  if (!arguments.remove) {
    GPUACTORS_LET(cluster, arguments.cluster.open());
    GPUACTORS_LET(state, cluster.state());
    say_what_is_incomplete(state);
    if (arguments.json)
      print_json(std::cout, json_groups(state));
    else
      print_groups(state, std::cout);
    return {};
  }
  GPUACTORS_LET(id, parse_integer("--remove", *arguments.remove, 1, std::numeric_limits<std::int64_t>::max()));
  GPUACTORS_LET(cluster, arguments.cluster.open());
  GPUACTORS_TRY(cluster.remove_group(GroupId{static_cast<std::uint64_t>(id)}));
  std::cout << fmt::format("group {} is removed, and what it held is free\n", id);
  return {};
}

} // namespace

Command add_groups(CLI::App& program) {
  auto arguments = std::make_shared<GroupsArguments>();
  auto* parser = program.add_subcommand("groups", "The placement groups, and where their bundles are");
  auto* remove = parser
                     ->add_option("--remove", arguments->remove,
                                  "End the tasks and actors in this group, refuse what waits for it, and give its "
                                  "resources back; returns when all of it is free")
                     ->type_name("ID");
  parser->add_flag("--json", arguments->json, "Print one array with an object for each group")->excludes(remove);
  arguments->cluster.add_to(*parser, ClusterOptions::Kinds::running);
  parser->footer("A group is waiting (a bundle has no place: gpuactors queue says why), placed or ending. Programs "
                 "make groups (Cluster::create_group); those that are not detached go with their program.\n\n"
                 "Examples:\n"
                 "  gpuactors groups --broker 127.0.0.1:7711\n"
                 "  gpuactors groups --json | jq -r '.[] | select(.state == \"waiting\") | .name'\n"
                 "  gpuactors groups --remove 470300680519681");
  return {parser, [arguments] { return run_groups(*arguments); }};
}

} // namespace gpuactors::cli
