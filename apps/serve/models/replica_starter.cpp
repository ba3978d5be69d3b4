#include "replica_starter.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>
#include <vector>

namespace serve {

using gpuactors::ActorRef;
using gpuactors::Duration;
using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;

namespace {

/// How long the end of a replica is waited for.
constexpr auto longest_kill = std::chrono::seconds{10};

/// A method that each replica must have.
struct WantedMethod {
  std::string_view name;
  std::string_view input;
  std::string_view output;
};

const std::array<WantedMethod, 2>& wanted_methods() {
  static const std::array<WantedMethod, 2> wanted{{
      {describe_method, google::protobuf::Empty::descriptor()->full_name(),
       wire::ReplicaDescription::descriptor()->full_name()},
      {infer_method, wire::ReplicaBatch::descriptor()->full_name(), wire::ReplicaReply::descriptor()->full_name()},
  }};
  return wanted;
}

Result<void> check_method(const gpuactors::v1::ActorDescription& actor, const WantedMethod& wanted) {
  const auto form = fmt::format("a method {}: {} -> {}", wanted.name, wanted.input, wanted.output);
  for (const auto& method : actor.methods()) {
    if (method.name() != wanted.name)
      continue;
    if (method.input() == wanted.input && method.output() == wanted.output && !method.streamed())
      return {};
    return fail(Errc::invalid_argument,
                fmt::format("actor type {} cannot be served: {} is needed, and its method is {} -> {}{}", actor.name(),
                            form, method.input(), method.streamed() ? "stream of " : "", method.output()));
  }
  std::vector<std::string_view> names;
  for (const auto& method : actor.methods())
    names.push_back(method.name());
  return fail(Errc::invalid_argument,
              fmt::format("actor type {} cannot be served: {} is needed, and it has {}", actor.name(), form,
                          names.empty() ? "no methods" : fmt::format("only {}", fmt::join(names, ", "))));
}

} // namespace

ReplicaStarter::ReplicaStarter(gpuactors::Cluster& cluster, std::shared_ptr<KeeperBell> bell, ReplicaKind kind)
  : cluster_(cluster), bell_(std::move(bell)), kind_(std::move(kind)) {
  // nop
}

Result<void> ReplicaStarter::check_type() {
  GPUACTORS_LET(types, cluster_.described_types());
  const auto found = types.find_actor(kind_.type);
  if (!found)
    return {}; // its node may not be there yet
  const auto& actor = **found;
  if (const auto& config = wire::ReplicaConfig::descriptor()->full_name(); actor.config() != config)
    return fail(Errc::invalid_argument, fmt::format("actor type {} cannot be served: it is configured with a {}, not "
                                                    "with a {}",
                                                    actor.name(), actor.config(), config));
  for (const auto& wanted : wanted_methods())
    GPUACTORS_TRY(check_method(actor, wanted));
  return {};
}

Result<Started> ReplicaStarter::spawn(Duration queue_timeout) {
  auto resources = kind_.resources;
  resources.queue_timeout = queue_timeout;
  // Another server of this cluster may have a model of this name.
  constexpr int most_names = 1'000;
  for (int i = 0;; ++i) {
    resources.name = fmt::format("{}/{}/{}", kind_.config.model(), kind_.config.version(), ++last_id_);
    auto actor = await(cluster_.spawn_async(kind_.type, kind_.config, resources));
    if (actor)
      return Started{last_id_, std::move(*actor)};
    if (actor.error().code() != Errc::already_exists || i == most_names)
      return fail(actor.error());
  }
}

Result<ModelFacts> ReplicaStarter::describe_first(const ActorRef& actor) const {
  const auto description = describe(actor);
  if (!description)
    return fail(description.error().code(), fmt::format("actor type {} does not describe its model: {}", kind_.type,
                                                        description.error().message()));
  auto facts = read_facts(*description);
  if (!facts)
    return fail(facts.error().code(), fmt::format("actor type {} describes a model that cannot be served: {}",
                                                  kind_.type, facts.error().message()));
  return facts;
}

Result<wire::ReplicaDescription> ReplicaStarter::describe(const ActorRef& actor) const {
  return await(actor.call<wire::ReplicaDescription>(describe_method));
}

void ReplicaStarter::kill(const ActorRef& actor) {
  // Whether it had ended by itself does not matter; one that is stuck, or whose broker is away, goes on ending.
  gpuactors::KillOptions options;
  options.timeout = longest_kill;
  (void)cluster_.kill(actor, options);
}

} // namespace serve
