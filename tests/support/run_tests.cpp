// Catch2 itself, which is compiled here and nowhere else.
#define CATCH_CONFIG_RUNNER
#include <support/catch.hpp>
#include <support/run_tests.hpp>

#ifdef __SANITIZE_ADDRESS__
// CAF 0.17.6 never frees its broker, and what that has, if a connection is open when the process ends that its peer
// does not read from.
extern "C" const char* __lsan_default_suppressions() { // NOLINT(bugprone-reserved-identifier)
  return "leak:make_actor<caf::io::basp_broker\n";
}

extern "C" const char* __lsan_default_options() { // NOLINT(bugprone-reserved-identifier)
  return "print_suppressions=0";
}
#endif

namespace gpuactors::test {

int run_tests(int argc, char** argv) {
  return Catch::Session().run(argc, argv);
}

} // namespace gpuactors::test
