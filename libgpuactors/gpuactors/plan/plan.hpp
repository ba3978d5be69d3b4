// Places without running: reads a scenario in JSON, writes what the ledger answers as JSON lines.
#pragma once

#include <gpuactors/base/result.hpp>

#include <iosfwd>

namespace gpuactors {

/// Runs the scenario that `in` holds and writes one line for each event, then one line with the final state.
///
/// Lines are written as the steps run, so that `out` may hold the events before the step that is in error. One thread.
/// @returns `invalid_argument` for what is not valid JSON, names an unknown field or id, or breaks a rule of the
///          format; the text says where and what would be right.
Result<void> run_plan(std::istream& in, std::ostream& out);

} // namespace gpuactors
