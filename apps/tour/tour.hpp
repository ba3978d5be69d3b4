// The tour: programs, and what each of them is given to run with.
#pragma once

#include "report.hpp"
#include "tour.pb.h"

#include <gpuactors/cluster/local_cluster.hpp>
#include <gpuactors/gpuactors.hpp>

#include <string>
#include <vector>

namespace tour {

/// The devices that the tour has, and how to ask for some of them.
class Machine {
public:
  /// Looks at the devices of `spec`; empty means CUDA if there is any, else one host device.
  static gpuactors::Result<Machine> look(const std::string& spec);

  /// A device specification of all devices.
  [[nodiscard]] const std::string& all() const noexcept {
    return spec_;
  }

  /// A device specification of exactly `count` devices: the first ones, or host devices where there are too few.
  [[nodiscard]] std::string exactly(std::size_t count) const;

  [[nodiscard]] bool has_cuda() const noexcept;

  /// Number of its CUDA devices.
  [[nodiscard]] std::size_t cuda_count() const noexcept;

  /// The accelerator type of its first CUDA device; empty without any.
  [[nodiscard]] std::string cuda_type() const;

private:
  std::string spec_;
  std::vector<gpuactors::v1::Device> devices_;
};

/// One program while it runs: where its rows go and what it may use.
class Tour {
public:
  Tour(std::string program, const Machine& machine, bool full, Rows& rows)
    : program_(std::move(program)), machine_(machine), full_(full), rows_(rows), first_(rows.size()) {
    // nop
  }

  /// Starts a row; the one before it ends.
  Row& row(std::string title);

  /// The row that was started last; starts one when there is none.
  Row& last_row();

  /// Ends the last row.
  void close();

  [[nodiscard]] const Machine& machine() const noexcept {
    return machine_;
  }

  /// Whether large sizes are wanted too.
  [[nodiscard]] bool full() const noexcept {
    return full_;
  }

private:
  std::string program_;
  const Machine& machine_;
  bool full_;
  Rows& rows_;
  std::size_t first_;
};

/// A program of the tour. It returns an error when it could not go on; results that are wrong are failed checks.
struct Program {
  const char* id;
  const char* title;
  gpuactors::Result<void> (*run)(Tour& tour);
};

/// All programs in their order.
[[nodiscard]] const std::vector<Program>& programs();

// -- helpers that many programs use ---------------------------------------------------------------

/// Has `open` connect to a running cluster from now on.
void use_cluster(gpuactors::ConnectOptions connection);

/// A cluster with these devices: embeds one of one node "local", or connects to the one that is used.
/// @returns `infeasible` when that has fewer devices, or smaller ones.
gpuactors::Result<gpuactors::Cluster> open(const std::string& devices);

/// The same, embedded in any case: for what is about this process, or about devices that no other cluster has.
gpuactors::Result<gpuactors::Cluster> embed(const std::string& devices);

/// A cluster of processes of this program with one node, for the programs that look at processes.
gpuactors::Result<gpuactors::LocalCluster> start_processes(gpuactors::LocalNode node);

/// A cluster of which the program uses one whole device, set aside: a running one may have more of them.
struct OneDevice {
  gpuactors::Cluster cluster;
  gpuactors::PlacementGroup group;

  /// `options`, on that device.
  [[nodiscard]] gpuactors::Options here(gpuactors::Options options) const {
    options.group = group.id;
    return options;
  }
};

/// Opens such a cluster; one that is embedded has this device, which is one of the tour's own when left out.
gpuactors::Result<OneDevice> open_one(const Tour& tour, const std::string& device = {});

/// Waits until nothing holds a lease any more; false after ten seconds.
[[nodiscard]] bool wait_until_free(gpuactors::Cluster& cluster);

/// Renders "host 0, share 0.5".
[[nodiscard]] std::string to_string(const Place& place);

/// What a task or actor holds and where.
[[nodiscard]] Place place_of(gpuactors::HolderContext& holder);

/// When something began; ends when it is asked.
class SpanTimer {
public:
  [[nodiscard]] Span end() const;

private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// Most spans that hold one common instant.
[[nodiscard]] int most_at_once(const std::vector<Span>& spans);

// -- what the broker's log of decisions shows -----------------------------------------------------

/// How a cluster's devices were used over time.
struct Usage {
  /// Most leases on one device at one instant.
  int most_leases = 0;
  /// Largest share of one device granted at one instant, in 1/10000.
  std::int64_t most_units = 0;
  /// Grants of leases that had had to wait.
  int grants_after_waiting = 0;
  /// Leases given back before the last grant.
  int releases_before_last_grant = 0;
};

/// Replays the log of `cluster` from its first decision after `open` on.
gpuactors::Result<Usage> usage_of(gpuactors::Cluster& cluster);

} // namespace tour
