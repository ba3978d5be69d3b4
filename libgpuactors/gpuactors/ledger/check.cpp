#include <gpuactors/ledger/check.hpp>

#include <cstdio>
#include <cstdlib>

namespace gpuactors::ledger_detail {

void broken(const char* file, int line, const char* condition, const char* what) noexcept {
  std::fprintf(stderr, "ledger: %s (%s is false, %s:%d)\n", what, condition, file, line);
  std::abort();
}

} // namespace gpuactors::ledger_detail
