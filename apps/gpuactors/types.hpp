// The types that the command line can speak for: its own, or those that the nodes of a cluster run.
#pragma once

#include "cluster_options.hpp"

#include <gpuactors/gpuactors.hpp>

#include <optional>

namespace gpuactors::cli {

/// What can be submitted and spawned: with a broker, what the nodes of the cluster run, and `cluster` is the connection
/// that told; else what is built into this program, and nothing is opened.
Result<DescribedTypes> open_types(const ClusterOptions& options, std::optional<Cluster>& cluster);

/// Puts what a type needs where the options name none of it.
void fill_in(Options& options, const v1::TypeNeeds& needs);

} // namespace gpuactors::cli
