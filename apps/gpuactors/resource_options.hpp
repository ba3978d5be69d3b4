// The resources that a task or actor asks for, as options of a subcommand.
#pragma once

#include <gpuactors/cluster/options.hpp>

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <vector>

namespace gpuactors::cli {

/// Options for amounts, kind of device, place, priority, wait, isolation and environment.
class ResourceOptions {
public:
  /// Adds the options to a subcommand. The object must outlive the parsing.
  void add_to(CLI::App& parser);

  /// Converts what was typed, so that a wrong amount is refused before anything starts.
  /// @returns `invalid_argument`, naming the option and what is allowed.
  [[nodiscard]] Result<Options> read() const;

private:
  [[nodiscard]] Result<void> read_amounts(Options& options) const;

  std::optional<std::string> gpus_;
  std::optional<std::string> memory_;
  std::optional<std::string> cpus_;
  std::string accelerator_type_;
  std::string node_;
  std::vector<std::string> labels_;
  std::vector<std::string> resources_;
  std::optional<std::string> host_memory_;
  std::optional<std::string> priority_;
  std::optional<std::string> queue_timeout_;
  std::string isolation_ = "thread";
  std::vector<std::string> environment_;
  bool wait_for_nodes_ = false;
};

} // namespace gpuactors::cli
