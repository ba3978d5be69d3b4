// The command line of gpuactors-serve.
#pragma once

#include "fronts.hpp"

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/result.hpp>
#include <gpuactors/cluster/open_options.hpp>

#include <apps/serve/models/model_config.hpp>
#include <apps/serve/models/model_table.hpp>
#include <apps/serve/models/models_file.hpp>
#include <apps/serve/protocol/renewal.hpp>

#include <optional>
#include <string>
#include <vector>

namespace serve {

struct ServeOptions {
  /// Where replicas run.
  gpuactors::OpenOptions cluster;
  /// Libraries with actor types, for an embedded cluster.
  std::vector<std::string> plugins;
  /// Those of the command line.
  std::vector<ModelConfig> models;
  /// Where others come from, what it said, and how it is told whether it has changed since.
  std::optional<ModelsFile> models_file;
  std::vector<ModelEntry> models_of_file;
  Renewal::Stamps models_file_stamps;
  FrontOptions fronts;
  TableOptions table;
  /// How long it serves on after a signal, while it says that it is not ready.
  gpuactors::Duration leave{};
  /// Instead of serving, ends the replicas of the deployment.
  bool ends_deployment = false;
  /// A model that cannot be loaded does not keep the others from being served.
  bool keeps_going = false;
};

/// Reads the arguments.
/// @returns nothing after --help or --version, which it prints; `invalid_argument`, saying what would be right.
gpuactors::Result<std::optional<ServeOptions>> parse_options(int argc, const char* const* argv);

} // namespace serve
