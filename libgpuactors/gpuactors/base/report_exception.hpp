// Reports exceptions of a program's functions for whose result nobody waits.
#pragma once

namespace gpuactors::detail {

/// Writes the exception that is being handled to standard error: a function given to `where` has thrown it.
void report_exception(const char* where) noexcept;

} // namespace gpuactors::detail
