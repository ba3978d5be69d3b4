// Options for the cluster that a subcommand talks to: --broker with --certs or --insecure, or an embedded one with
// --devices, --accelerator-root and --record.
#pragma once

#include <gpuactors/cluster/cluster.hpp>

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>

namespace gpuactors::cli {

/// The options that all client subcommands take.
class ClusterOptions {
public:
  /// The clusters that a subcommand makes sense with.
  enum class Kinds : std::uint8_t {
    /// A running cluster, or an embedded one that ends with the command.
    any,
    /// Only a cluster that goes on when the command ends.
    running,
  };

  /// Adds the options to a subcommand. The object must outlive the parsing.
  void add_to(CLI::App& parser, Kinds kinds = Kinds::any);

  /// Checks what can be checked without a cluster.
  /// @returns `invalid_argument` for a bad SPEC or address, for options of an embedded cluster beside a broker, and
  ///          without a broker where only a running cluster will do.
  [[nodiscard]] Result<void> check() const;

  /// Opens the cluster that the options name.
  /// @param patience how long a running cluster may take to answer first; zero: it is not waited for, and may come
  ///        later.
  [[nodiscard]] Result<Cluster> open(Duration patience = limits::connect_timeout) const;

  /// Opens a running cluster even if its broker is not there yet, and says so on standard error: what watches a cluster
  /// may start before it.
  [[nodiscard]] Result<Cluster> open_or_wait() const;

  /// Returns the address of the broker, as it was given; empty for an embedded cluster.
  [[nodiscard]] const std::string& broker() const noexcept {
    return options_.connect.broker;
  }

  /// Returns the options by which another command reaches the same running cluster, as a shell reads them.
  [[nodiscard]] std::string as_arguments() const;

  /// Returns whether the options name a cluster that runs elsewhere.
  [[nodiscard]] bool connects() const noexcept {
    return options_.connects();
  }

private:
  void add_embedded(CLI::App& parser);

  Kinds kinds_ = Kinds::any;
  OpenOptions options_ = OpenOptions::from_environment();
};

} // namespace gpuactors::cli
