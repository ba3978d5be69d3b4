// The assertion of the ledger, enabled in every build: a broken invariant would mean a device granted twice.
#pragma once

namespace gpuactors::ledger_detail {

/// Prints the broken invariant and aborts the program.
[[noreturn]] void broken(const char* file, int line, const char* condition, const char* what) noexcept;

} // namespace gpuactors::ledger_detail

/// Aborts the program with a message unless `condition` holds.
#define GPUACTORS_LEDGER_CHECK(condition, what)                                                                        \
  do {                                                                                                                 \
    if (!(condition)) [[unlikely]]                                                                                     \
      ::gpuactors::ledger_detail::broken(__FILE__, __LINE__, #condition, what);                                        \
  } while (false)
