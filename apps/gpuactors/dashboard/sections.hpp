// The sections of the dashboard's page, each written from a state. All are pure; any thread.
#pragma once

#include "html.hpp"
#include "view.hpp"
#include "watch.hpp"

#include <gpuactors/gpuactors.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace gpuactors::cli::dashboard {

/// What all sections are about.
struct Scene {
  const v1::ClusterState& state;
  const Watch& watch;
  Moment now;
  /// The broker's address, for people.
  std::string broker;
  /// What command lines need to reach the same broker, as a shell reads it: "--broker 10.0.0.1:7711 --certs DIR".
  std::string connection;
};

// How much is shown at most, so that the page of a large cluster stays usable. Tables say how much more there is.
inline constexpr std::size_t most_problems = 20;
/// Devices with a bar of their own; those of further nodes share one row for each node.
inline constexpr std::size_t most_bars = 128;
/// Devices in such rows.
inline constexpr std::size_t most_cells = 2'048;
inline constexpr std::size_t most_actors = 100;
inline constexpr std::size_t most_rows = 50;

/// Writes the first lines: what there is in words, and what is wrong.
void write_overview(Html& html, const Scene& scene, const std::vector<Problem>& problems);

/// Writes curves over the last fifteen minutes.
void write_plots(Html& html, const Scene& scene);

/// Writes the nodes and their devices with who has which part.
void write_map(Html& html, const Scene& scene);

void write_queue(Html& html, const Scene& scene);
void write_actors(Html& html, const Scene& scene);
void write_calls(Html& html, const Scene& scene);
void write_groups(Html& html, const Scene& scene);
void write_quotas(Html& html, const Scene& scene);
void write_ended(Html& html, const Scene& scene);
void write_events(Html& html, const Scene& scene);

} // namespace gpuactors::cli::dashboard
