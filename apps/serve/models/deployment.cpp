#include "deployment.hpp"

#include "awaiting.hpp"

#include <gpuactors/base/fingerprint.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <span>
#include <utility>

namespace serve {

using gpuactors::Cluster;
using gpuactors::Errc;
using gpuactors::Result;

namespace {

/// With the longest names of models and the largest numbers, an actor's name is not too long.
constexpr std::size_t longest_deployment = 24;

std::string prefix_of(std::string_view deployment) {
  return fmt::format("serve:{}/", deployment);
}

/// Ends actors, all at once: those that are stuck take as long as one of them.
/// @returns how many there were; the first error of an end.
Result<std::size_t> end_all(Cluster& cluster, const std::vector<std::string>& names,
                            const std::function<bool()>& stopped) {
  std::vector<gpuactors::Future<void>> ends;
  for (const auto& name : names)
    ends.push_back(cluster.kill_async(name));
  Result<void> outcome;
  for (auto& end : ends)
    if (const auto ended = await_unless(stopped, std::move(end));
        !ended && ended.error().code() != Errc::not_found && outcome)
      outcome = gpuactors::fail(ended.error());
  if (!outcome)
    return gpuactors::fail(outcome.error());
  return names.size();
}

} // namespace

Result<void> check_deployment(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  if (!name.empty() && name.size() <= longest_deployment && std::all_of(name.begin(), name.end(), fits))
    return {};
  return gpuactors::fail(
      Errc::invalid_argument,
      fmt::format("the name of a deployment has 1 to {} letters, digits, - and _", longest_deployment));
}

std::string kind_mark(std::string_view type, const wire::ReplicaConfig& config, const gpuactors::Options& resources,
                      std::span<const std::byte> file) {
  gpuactors::Fingerprint mark;
  // Each with its length, so that no two lists have one text.
  const auto add = [&mark](std::string_view text) { mark.add(fmt::format("{}:{},", text.size(), text)); };
  const auto add_pairs = [&add](const std::map<std::string, std::string>& pairs) {
    add(std::to_string(pairs.size()));
    for (const auto& [key, value] : pairs) {
      add(key);
      add(value);
    }
  };
  add(type);
  add(config.model());
  add_pairs({config.settings().begin(), config.settings().end()});
  add(fmt::format("{} {} {}", config.max_rows(), config.max_running(), config.sequence_idle_ms()));
  add(fmt::format("{} {} {}", resources.gpus, resources.memory_bytes, static_cast<int>(resources.isolation)));
  std::map<std::string, std::string> labels;
  for (const auto& [name, condition] : resources.labels)
    labels.emplace(name, to_string(condition));
  add_pairs(labels);
  mark.add(file);
  return mark.to_string();
}

std::string LastingNames::name(std::uint64_t id) const {
  return fmt::format("{}{}/{}/{}", prefix_of(deployment), model, mark, id);
}

bool LastingNames::is_of_model(std::string_view name) const {
  return name.starts_with(fmt::format("{}{}/", prefix_of(deployment), model));
}

bool LastingNames::has_mark(std::string_view name, std::string_view its_mark) const {
  return name.starts_with(fmt::format("{}{}/{}/", prefix_of(deployment), model, its_mark));
}

std::optional<std::uint64_t> LastingNames::id_of(std::string_view name) const {
  const auto prefix = fmt::format("{}{}/{}/", prefix_of(deployment), model, mark);
  if (!name.starts_with(prefix))
    return std::nullopt;
  std::uint64_t id = 0;
  const auto* end = name.data() + name.size();
  const auto [at, error] = std::from_chars(name.data() + prefix.size(), end, id);
  return error == std::errc{} && at == end ? std::optional{id} : std::nullopt;
}

std::vector<std::string> replicas_of(const gpuactors::v1::ClusterState& state, std::string_view deployment) {
  std::vector<std::string> names;
  for (const auto& actor : state.actors())
    if (actor.detached() && actor.name_space().empty() && actor.name().starts_with(prefix_of(deployment)))
      names.push_back(actor.name());
  return names;
}

Result<std::size_t> end_left(Cluster& cluster, std::string_view deployment, std::string_view model,
                             const std::set<std::string>& spared, const std::function<bool()>& stopped) {
  GPUACTORS_LET(state, await_unless(stopped, cluster.state_async()));
  auto names = replicas_of(state, deployment);
  const LastingNames own{std::string{deployment}, std::string{model}, {}};
  std::erase_if(names, [&](const std::string& name) {
    return !own.is_of_model(name)
           || std::any_of(spared.begin(), spared.end(), [&](const auto& mark) { return own.has_mark(name, mark); });
  });
  return end_all(cluster, names, stopped);
}

Result<std::size_t> end_deployment(Cluster& cluster, std::string_view deployment) {
  GPUACTORS_LET(state, cluster.state());
  return end_all(cluster, replicas_of(state, deployment), [] { return false; });
}

} // namespace serve
