#include <gpuactors/base/report_exception.hpp>

#include <cstdio>
#include <exception>

namespace gpuactors::detail {

void report_exception(const char* where) noexcept {
  const auto say = [where](const char* what) {
    std::fprintf(stderr, "gpuactors: a function given to %s threw an exception, which nobody catches: %s\n", where,
                 what);
  };
  try {
    throw;
  } catch (const std::exception& exception) {
    say(exception.what());
  } catch (...) {
    say("it is of no standard type");
  }
}

} // namespace gpuactors::detail
