// The command line of gpuactors-train.
#pragma once

#include "group.hpp"

#include <gpuactors/base/result.hpp>
#include <gpuactors/cluster/open_options.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace train {

/// One number that is tried with several values.
struct Sweep {
  std::string name;
  std::vector<double> values;
};

struct TrainOptions {
  std::string data;
  bool header = false;
  /// Empty: inputs, 128, classes.
  std::vector<std::int64_t> layers;
  std::string activation = "relu";
  std::uint64_t epochs = 30;
  std::int64_t batch = 64;
  std::string optimizer = "sgd";
  double rate = 0.1;
  double momentum = 0.9;
  double weight_decay = 0;
  bool wide = false;
  std::uint64_t seed = 1;
  double test_part = 0.2;
  std::size_t splits = 5;

  gpuactors::OpenOptions cluster = gpuactors::OpenOptions::from_environment();
  double gpus = 1;
  int max_restarts = 3;
  std::size_t workers = 1;
  OnLoss on_loss = OnLoss::stop;
  /// Workers may sum by NCCL, in plaintext.
  bool nccl = false;
  std::optional<Sweep> sweep;

  std::string checkpoint;
  std::uint64_t checkpoint_epochs = 1;
  bool resume = false;
  /// Whether a checkpoint that is there may be replaced by one of a new training.
  bool overwrite = false;
  std::string curve;
  bool plot = false;
};

/// "rate=0.1,0.01". Pure.
/// @returns `invalid_argument` with what can be swept, or the value that is no number.
gpuactors::Result<Sweep> parse_sweep(const std::string& text);

/// Sets the swept number of a plan.
void apply(const Sweep& sweep, double value, Plan& plan);

/// Reads the command line; prints help, or one line about what is wrong.
/// @returns the exit code of the process in the place of options.
std::optional<TrainOptions> parse_options(int argc, char** argv, int& exit_code);

} // namespace train
