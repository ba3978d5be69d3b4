// What becomes of an exception of a program's function that nobody waits for.
#pragma once

namespace gpuactors::detail {

/// Writes the exception that is being handled to standard error: a function given to `where` has thrown it.
void report_exception(const char* where) noexcept;

} // namespace gpuactors::detail
