// Catch2 itself, which is compiled here and nowhere else.
#define CATCH_CONFIG_RUNNER
#include <support/catch.hpp>
#include <support/run_tests.hpp>

namespace gpuactors::test {

int run_tests(int argc, char** argv) {
  return Catch::Session().run(argc, argv);
}

} // namespace gpuactors::test
