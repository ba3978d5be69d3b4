#include <gpuactors/base/units.hpp>
#include <gpuactors/cluster/detail/spawn_notice.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace gpuactors::detail {

namespace {

std::string place_of(const v1::Lease& lease) {
  std::string devices;
  for (const auto& device : lease.devices())
    devices += fmt::format("{}{}", devices.empty() ? ", device " : " and ", device.index());
  return fmt::format("node {}{}", lease.node(), devices);
}

/// Why its request is in the queue.
std::string reason_of(const v1::ClusterState& state, const v1::ActorInfo& actor) {
  // As the broker names the requests of actors.
  const auto request = actor.name().empty() ? fmt::format("{}-{}", actor.type(), actor.id()) : actor.name();
  const auto found = std::find_if(state.queue().begin(), state.queue().end(),
                                  [&](const v1::PendingRequest& waiting) { return waiting.name() == request; });
  return found == state.queue().end() || found->reason().empty() ? "" : ": " + found->reason();
}

std::string what_of(const v1::ClusterState& state, const v1::ActorInfo& actor) {
  if (actor.state() == "starting")
    return fmt::format("its constructor has not returned, on {}", place_of(actor.lease()));
  if (actor.state() == "waiting")
    return "it waits for a place" + reason_of(state, actor);
  return fmt::format("it is {}", actor.state());
}

std::string what(const v1::ClusterState& state, std::uint64_t origin, const SpawnedName& name) {
  const auto& actors = state.actors();
  const auto own =
      std::find_if(actors.begin(), actors.end(), [&](const v1::ActorInfo& actor) { return actor.origin() == origin; });
  if (own != actors.end())
    return what_of(state, *own);
  // Its name is another one's, for whose end or start it waits.
  const auto other = std::find_if(actors.begin(), actors.end(), [&](const v1::ActorInfo& actor) {
    return !name.name.empty() && actor.name() == name.name && actor.name_space() == name.name_space;
  });
  if (other != actors.end())
    return "there is one of that name: " + what_of(state, *other);
  if (std::find(state.incomplete().begin(), state.incomplete().end(), "actors") != state.incomplete().end())
    return "the state of the cluster is too large to say why";
  return "the broker does not know of it yet";
}

} // namespace

std::string spawn_notice(const Result<v1::ClusterState>& state, std::uint64_t origin, const SpawnedName& name,
                         Duration waited) {
  return fmt::format(
      "the spawn of {} has taken {:.0f} s: {}", name.name.empty() ? name.type : name.name, to_seconds(waited),
      state ? what(*state, origin, name) : fmt::format("the broker does not answer ({})", state.error().message()));
}

} // namespace gpuactors::detail
