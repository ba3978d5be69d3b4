// Places without running: reads a scenario in JSON, writes what the ledger answers as JSON lines, and what people look
// at: explanations, bars, a picture.
#pragma once

#include <gpuactors/base/result.hpp>

#include <iosfwd>
#include <string>

namespace gpuactors {

/// What is made of a scenario.
struct PlanOptions {
  /// A line of JSON for each event, and one with the final state.
  bool events = true;
  /// Explain this request or placement group: what every node said to it. Empty: none.
  std::string explain{};
  /// The explanation as one JSON object instead of text.
  bool json = false;
  /// How full the devices are at the end, as bars for a terminal.
  bool table = false;
  /// Leases on devices over the steps, as an SVG picture; null: none. The caller checks whether it was written.
  std::ostream* svg = nullptr;
};

/// Runs the scenario that `in` holds and writes what the options ask for.
///
/// Lines are written as the steps run, so that `out` may hold the events before the step that is in error. Memory grows
/// with the nodes, the leases and what waits, and by 8 to 16 bytes for each id that is over. One thread.
/// @returns `invalid_argument` for what is not valid JSON, names an unknown field or id, or breaks a rule of the
///          format; the text says where and what would be right.
Result<void> run_plan(std::istream& in, std::ostream& out, const PlanOptions& options = {});

} // namespace gpuactors
