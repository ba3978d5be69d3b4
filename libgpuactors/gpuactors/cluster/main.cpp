// What programs with types of their own begin with: the worker's part of their main function, and plugins.
#include <gpuactors/cluster/daemon.hpp>
#include <gpuactors/cluster/detail/plugins.hpp>

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

Result<void> load_plugins(const std::vector<std::string>& files) {
  return detail::load_plugins(files, [](const std::string& /*line*/) {});
}

} // namespace gpuactors
