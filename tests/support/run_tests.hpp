// What the main function of a test program calls.
#pragma once

namespace gpuactors::test {

/// Runs the tests that the arguments choose, as Catch2 reads them. @returns the program's exit code.
int run_tests(int argc, char** argv);

} // namespace gpuactors::test
