// The main function of every test program that has none of its own.
#include <support/run_tests.hpp>

int main(int argc, char** argv) {
  return gpuactors::test::run_tests(argc, argv);
}
