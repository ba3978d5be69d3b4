// Places requests without running anything: reads a scenario in JSON and writes the ledger's answers as JSON lines, and
// explanations, bars and a picture for people.
#pragma once

#include <gpuactors/base/result.hpp>

#include <iosfwd>
#include <string>

namespace gpuactors {

/// The output of a scenario.
struct PlanOptions {
  /// Write a line of JSON for each event, and one with the final state.
  bool events = true;
  /// The id of a request or placement group for which to explain how every node answered; empty for none.
  std::string explain{};
  /// Write the explanation as one JSON object instead of text.
  bool json = false;
  /// Write the final use of the devices as bars for a terminal.
  bool table = false;
  /// Draw the leases of the devices over the steps as SVG; null: none. The caller checks the stream for errors.
  std::ostream* svg = nullptr;
};

/// Runs the scenario in `in` and writes the requested output.
///
/// Writes lines as the steps run, so `out` may contain the events before a wrong step. Memory grows with the nodes,
/// leases and waiting requests, and by 8 to 16 bytes for each finished id. One thread.
/// @returns `invalid_argument` for invalid JSON, an unknown field or id, or a violation of the format; the text says
///          where and what would be right.
Result<void> run_plan(std::istream& in, std::ostream& out, const PlanOptions& options = {});

} // namespace gpuactors
