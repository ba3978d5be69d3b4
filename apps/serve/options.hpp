// The command line of gpuactors-serve.
#pragma once

#include "fronts.hpp"

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/result.hpp>

#include <apps/serve/models/model_config.hpp>
#include <apps/serve/models/model_table.hpp>

#include <optional>
#include <vector>

namespace serve {

struct ServeOptions {
  std::vector<ModelConfig> models;
  FrontOptions fronts;
  TableOptions table;
};

/// Reads the arguments. Those that name a cluster are checked by name only: `Cluster::open` reads them.
/// @returns nothing after --help or --version, which it prints; `invalid_argument`, saying what would be right.
gpuactors::Result<std::optional<ServeOptions>> parse_options(int argc, const char* const* argv);

} // namespace serve
