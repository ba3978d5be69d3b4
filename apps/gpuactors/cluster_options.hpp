// Options for the cluster that a subcommand talks to: --broker with --certs or --insecure, or an embedded one with
// --devices, --accelerator-root and --record.
#pragma once

#include <gpuactors/cluster/cluster.hpp>

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <vector>

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

  /// Returns whether the options name a cluster that runs elsewhere.
  [[nodiscard]] bool connects() const;

private:
  [[nodiscard]] std::string broker() const;
  void add_embedded(CLI::App& parser);

  Kinds kinds_ = Kinds::any;
  std::vector<std::string> devices_;
  std::string accelerator_root_ = "/";
  std::string record_;
  std::string broker_;
  std::string certificates_;
  bool insecure_ = false;
  double heartbeat_ = std::chrono::duration<double>{limits::heartbeat}.count();
  double reconnect_grace_ = 0;
  double link_timeout_ = std::chrono::duration<double>{limits::link_timeout}.count();
};

} // namespace gpuactors::cli
