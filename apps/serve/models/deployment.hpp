// Names of replicas that outlive their server, by which the next one of the same deployment finds them.
#pragma once

#include "replica.hpp"

#include <gpuactors/gpuactors.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace serve {

/// What a deployment is called.
/// @returns `invalid_argument` for other than 1 to 24 letters, digits, - and _.
gpuactors::Result<void> check_deployment(std::string_view name);

/// What makes replicas alike: their type, configuration and resources, and the bytes of the model's file. Not so the
/// number of the version, which each server counts for itself, nor where the file's bytes are. Pure.
std::string kind_mark(std::string_view type, const wire::ReplicaConfig& config, const gpuactors::Options& resources,
                      std::span<const std::byte> file);

/// The names of replicas: "serve:prod/digits/0123456789abcdef/7". A plain value.
struct LastingNames {
  std::string deployment;
  std::string model;
  std::string mark;

  [[nodiscard]] std::string name(std::uint64_t id) const;

  /// Whether a name is one of the model's replicas in this deployment, of any mark.
  [[nodiscard]] bool is_of_model(std::string_view name) const;

  /// The same, of one mark.
  [[nodiscard]] bool has_mark(std::string_view name, std::string_view its_mark) const;

  /// The number in a name of this mark; none for other names.
  [[nodiscard]] std::optional<std::uint64_t> id_of(std::string_view name) const;
};

/// The names of all replicas of a deployment, among a cluster's actors.
std::vector<std::string> replicas_of(const gpuactors::v1::ClusterState& state, std::string_view deployment);

/// Ends a model's replicas in a deployment, but for those of these marks.
/// @param stopped  whether the server ends: then nothing is waited for.
/// @returns as `end_deployment`; `unavailable` once stopped.
gpuactors::Result<std::size_t> end_left(gpuactors::Cluster& cluster, std::string_view deployment,
                                        std::string_view model, const std::set<std::string>& spared,
                                        const std::function<bool()>& stopped);

/// Ends all replicas of a deployment, all at once. @returns how many there were; the first error of an end.
gpuactors::Result<std::size_t> end_deployment(gpuactors::Cluster& cluster, std::string_view deployment);

} // namespace serve
