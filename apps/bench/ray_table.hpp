// Which rows Ray's microbenchmark has, how each is done with this library, and what must hold.
#pragma once

#include "ray_rows.hpp"
#include "remote_cluster.hpp"

#include <gpuactors/gpuactors.hpp>

#include <functional>
#include <string>
#include <vector>

namespace gpuactors::bench {

/// Where a row runs.
struct RayBed {
  Cluster& cluster;
  /// "plain", "tls" or "embedded".
  std::string mode;
};

/// Does it once; gives the number of operations, or gigabytes.
using Once = std::function<double()>;

/// What stands under a row.
enum class RayFloor { none, one_request, many_requests, memcpy_of_put };

/// Bounds of a row in one mode, as rates: of ours to the floor, and of ours to Ray's. 0: none.
struct RayBounds {
  double floor = 0;
  double peer = 0;
};

struct RayRow {
  std::string name;
  std::function<Once(const RayBed&, const RayRun&)> prepare;
  RayFloor floor = RayFloor::none;
  /// In the cluster without TLS, and embedded.
  RayBounds plain = {};
  RayBounds embedded = {};
  /// The row of Ray's that it stands beside; empty: that of the same name.
  std::string peer_name = {};
  /// Makes no sense without processes.
  bool needs_processes = false;
};

[[nodiscard]] std::vector<RayRow> ray_table();

/// Bytes and gigabytes (as Ray counts them) of the row `single_client_put_gigabytes`.
inline constexpr std::size_t put_bytes = 800U << 20;
inline constexpr double put_gigabytes = 0.8;

} // namespace gpuactors::bench
