// Which cluster a subcommand talks to: --devices, --accelerator-root, --record and --broker.
#pragma once

#include <gpuactors/cluster/cluster.hpp>

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace gpuactors::cli {

/// The options that all client subcommands take.
class ClusterOptions {
public:
  /// Adds them to a subcommand. The object must outlive the parsing.
  void add_to(CLI::App& parser);

  /// Checks what can be checked without a cluster.
  /// @returns `unsupported` for a broker: this version has embedded clusters only; `invalid_argument` for a bad SPEC.
  [[nodiscard]] Result<void> check() const;

  /// The cluster that they name.
  [[nodiscard]] Result<Cluster> open() const;

private:
  std::vector<std::string> devices_;
  std::string accelerator_root_ = "/";
  std::string record_;
  std::string broker_;
};

} // namespace gpuactors::cli
