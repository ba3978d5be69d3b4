// The command line of gpuactors-bench.
#pragma once

#include "ray_rows.hpp"

#include <optional>
#include <string>
#include <vector>

namespace gpuactors::bench {

/// What the command line asks for.
struct Wanted {
  bool list = false;
  std::string filter;
  /// The filter is the name of a row, and means that one only.
  bool exact = false;
  int repeat = 5;
  bool as_ray = false;
  RayRun ray;
  std::string device = "cuda";
  bool smoke = false;
  std::string growth;
  bool quick = false;
  std::string operation;
  int count = 10'000;
  std::string from;
  std::vector<std::string> peers;
  std::string json;
  std::string svg;
};

/// Reads it. @returns the exit code when that was all: help was asked for, or something was wrong and has been said.
std::optional<int> read_options(int argc, char** argv, Wanted& wanted);

} // namespace gpuactors::bench
