// Rows as a table for people, as JSON for programs, and back; and the peer's numbers beside them.
#pragma once

#include "harness.hpp"
#include "machine.hpp"

#include <gpuactors/base/result.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace gpuactors::bench {

/// What one run of this program found.
struct Report {
  Machine machine;
  /// Who the peers of all rows are, "Ray 2.60.0"; empty without.
  std::string peer;
  /// Which rows were left out, and why; empty when none were.
  std::string left_out;
  std::vector<Row> rows;
};

void print_header(const Machine& machine);

/// A line for each row; the columns of the peer only where there is one.
void print_table(const Report& report);

/// {"machine": {...}, "peer": NAME, "left_out": WHY, "rows": [{"name", "mode", "value", "unit", "floor", "floor_kind",
/// "floor_ratio", "least", "most", "bound", "at_most", "peer", "peer_by", "peer_ratio", "peer_name", "peer_bound",
/// "holds"}]}; null is for what there is not.
[[nodiscard]] std::string to_json(const Report& report);

/// Reads what `to_json` wrote. @returns `not_found`, or `invalid_argument` saying what is wrong with the file.
Result<Report> read_report(const std::filesystem::path& path);

/// Puts a peer's values beside the rows of the same names: a file {"peer": NAME, "device": MODE, "rows": [{"name",
/// "value", "unit"}]}, as the programs in apps/bench/ray write it. A row that has a peer already gets the new one.
/// @returns as `read_report`; `invalid_argument` too when a row has another unit there, or "device" is another than the
/// row's mode. The report is then as it was.
Result<void> attach_peers(Report& report, const std::filesystem::path& path);

} // namespace gpuactors::bench
