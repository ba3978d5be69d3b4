#include "actor_argument.hpp"

#include "incomplete.hpp"

#include <gpuactors/base/limits.hpp>

#include <algorithm>
#include <cstdlib>

namespace gpuactors::cli {

namespace {

bool has_name(const v1::ActorInfo& actor, const ActorArgument& argument) {
  return !actor.name().empty() && actor.name() == argument.name && actor.name_space() == argument.name_space;
}

bool has_number(const v1::ActorInfo& actor, const ActorArgument& argument) {
  return is_number(argument) && std::to_string(actor.id()) == argument.name;
}

} // namespace

CLI::Option* ActorArgument::add_to(CLI::App& parser) {
  auto* option =
      parser.add_option("name", name, "The actor, or the ID of one without a name; gpuactors actors lists them")
          ->type_name("NAME");
  parser.add_option("--name-space", name_space, "The one that its name is in")->type_name("S");
  return option;
}

bool is_number(const ActorArgument& argument) {
  return argument.name_space.empty() && !argument.name.empty()
         && argument.name.find_first_not_of("0123456789") == std::string::npos;
}

bool is_meant(const v1::ActorInfo& actor, const ActorArgument& argument) {
  return actor.name().empty() ? has_number(actor, argument) : has_name(actor, argument);
}

const v1::EndedActor* find_ended(const v1::ClusterState& state, const ActorArgument& argument) {
  for (const auto is_it : {has_name, has_number}) {
    const auto lives = [&](const v1::ActorInfo& actor) { return is_it(actor, argument); };
    if (std::any_of(state.actors().begin(), state.actors().end(), lives))
      return nullptr;
    for (const auto& ended : state.ended()) // the latest first
      if (is_it(ended.actor(), argument))
        return &ended;
  }
  return nullptr;
}

Result<ActorKey> key_of(Cluster& cluster, const ActorArgument& argument) {
  const ActorKey by_name{argument.name, argument.name_space};
  if (!is_number(argument))
    return by_name;
  StateOptions options;
  options.ended = limits::ended_actors;
  GPUACTORS_LET(state, cluster.state(options));
  const bool is_name = std::any_of(state.actors().begin(), state.actors().end(),
                                   [&](const v1::ActorInfo& actor) { return has_name(actor, argument); })
                       || std::any_of(state.ended().begin(), state.ended().end(),
                                      [&](const v1::EndedActor& ended) { return has_name(ended.actor(), argument); });
  if (is_name)
    return by_name;
  // An actor that is not shown may have that number as its name.
  if (!is_whole(state, "actors") || !is_whole(state, "ended"))
    say_what_is_incomplete(state);
  return ActorKey{ActorId{std::strtoull(argument.name.c_str(), nullptr, 10)}};
}

Result<ActorKey> key_of_living(Cluster& cluster, const ActorArgument& argument) {
  const ActorKey by_name{argument.name, argument.name_space};
  if (!is_number(argument))
    return by_name;
  GPUACTORS_LET(state, cluster.state());
  for (const auto& actor : state.actors())
    if (actor.name().empty() && is_meant(actor, argument)) {
      v1::ActorHandle reference;
      reference.set_id(actor.id());
      reference.set_type(actor.type());
      reference.set_origin(actor.origin());
      return ActorKey{std::move(reference)};
    }
  if (!is_whole(state, "actors"))
    say_what_is_incomplete(state);
  return by_name;
}

} // namespace gpuactors::cli
