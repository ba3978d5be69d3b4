// The main function of the tests of whole clusters: the program is its own worker, so that its types are known there.
#include "client.hpp"

#include <gpuactors/cluster/daemon.hpp>

#include <support/run_tests.hpp>

#include <cstdlib>
#include <string>

int main(int argc, char** argv) {
  if (const auto* how = std::getenv("GPUACTORS_TEST_MISUSE"); how != nullptr)
    return gpuactors::test::run_misuse(how, argc);
  if (const auto code = gpuactors::run_if_worker(argc, argv))
    return *code;
  if (argc > 1 && std::string{argv[1]} == "client")
    return gpuactors::test::run_client(argc, argv);
  if (argc > 1 && std::string{argv[1]} == "guest")
    return gpuactors::test::run_guest(argc, argv);
  if (argc > 1 && std::string{argv[1]} == "reader")
    return gpuactors::test::run_reader(argc, argv);
  if (argc > 1 && std::string{argv[1]} == "local")
    return gpuactors::test::run_local();
  return gpuactors::test::run_tests(argc, argv);
}
