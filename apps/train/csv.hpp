// Tables of numbers in CSV files, gzipped or plain, whose last column is the label.
#pragma once

#include <gpuactors/base/result.hpp>

#include <cstdint>
#include <filesystem>
#include <vector>

namespace train {

/// What there is to learn from. A plain value.
struct Table {
  std::int64_t rows = 0;
  /// Numbers of a row, without the label.
  std::int64_t inputs = 0;
  /// rows x inputs.
  std::vector<float> features;
  /// One a row, 0 to `classes` - 1.
  std::vector<std::int32_t> labels;
  /// The largest label and one.
  std::int64_t classes = 0;
};

/// The largest label.
constexpr std::int32_t most_label = 65'535;

/// Reads a file of numbers that commas divide, all rows of one length; with `header` the first line is passed over.
/// @returns `not_found` or `unavailable` with the system's words; `invalid_argument` naming the file, the line and the
///          column: a row of another length, something that is no finite number, a label that is no whole number from 0
///          to `most_label`, a file without rows, and gzip data that are damaged.
gpuactors::Result<Table> read_csv(const std::filesystem::path& path, bool header = false);

} // namespace train
