// serve_actor_program: a program of a user whose nodes run it as their worker, with the actor type of the example.
#include <gpuactors/gpuactors.hpp>

#include <cstdlib>

int main(int argc, char** argv) {
  return gpuactors::main(argc, argv, [](int /*argc*/, char** /*argv*/) { return EXIT_SUCCESS; });
}
