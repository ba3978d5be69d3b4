// Finds the types that the command line can use: its own, or those that the nodes of a cluster run.
#pragma once

#include "cluster_options.hpp"

#include <gpuactors/gpuactors.hpp>

#include <optional>
#include <string_view>

namespace gpuactors::cli {

/// Returns the types that can be submitted and spawned. With a broker, they are the types that the nodes of the cluster
/// run, and `cluster` is the connection that was opened to get them. Without one, they are the types built into this
/// program, and nothing is opened. `wanted` is the type that is looked for, if it is one.
Result<DescribedTypes> open_types(const ClusterOptions& options, std::optional<Cluster>& cluster,
                                  std::string_view wanted = {});

/// Fills in a type's default resources where the options name none.
void fill_in(Options& options, const v1::TypeNeeds& needs);

} // namespace gpuactors::cli
