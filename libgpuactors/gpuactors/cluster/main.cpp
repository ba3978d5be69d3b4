// The main function of programs that are their own workers.
#include <gpuactors/cluster/daemon.hpp>

#include <cstdio>

namespace gpuactors {

int main(int argc, char** argv, const std::function<int(int, char**)>& program) {
  if (const auto code = run_if_worker(argc, argv))
    return *code;
  return program(argc, argv);
}

int main(int argc, char** argv, const std::function<Result<void>(int, char**)>& program) {
  if (const auto code = run_if_worker(argc, argv))
    return *code;
  const auto done = program(argc, argv);
  if (done)
    return 0;
  std::fprintf(stderr, "%s\n", to_string(done.error()).c_str());
  return 1;
}

} // namespace gpuactors
