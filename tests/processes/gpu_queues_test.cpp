// Hardware queues of the processes of a node with GPUs, also with the driver for tests.
#include "fixture.hpp"

#include <gpuactors/base/limits.hpp>

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

constexpr const char* variable = "CUDA_DEVICE_MAX_CONNECTIONS";

/// The environment of all processes that are started meanwhile, as if the library, or somebody, had chosen the number,
/// on a machine without MPS. Made before any thread, and gone after them.
class Environment {
public:
  Environment(const std::string& queues, bool chosen) {
    set(variable, queues);
    set("GPUACTORS_QUEUES", chosen ? queues : "");
    set("CUDA_MPS_PIPE_DIRECTORY", "/nonexistent");
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  ~Environment() {
    for (const auto& [name, value] : before_)
      if (value)
        ::setenv(name.c_str(), value->c_str(), 1);
      else
        ::unsetenv(name.c_str());
  }

private:
  void set(const std::string& name, const std::string& value) {
    const char* was = std::getenv(name.c_str());
    before_.emplace(name, was == nullptr ? std::nullopt : std::optional<std::string>{was});
    ::setenv(name.c_str(), value.c_str(), 1);
  }

  std::map<std::string, std::optional<std::string>> before_;
};

std::string queues(Cluster& cluster, const Options& options) {
  constexpr auto start_of_a_driver = 60s;
  return must(cluster.submit<Text>("variable", text(variable), options).get(start_of_a_driver)).text();
}

} // namespace

TEST_CASE("a process of its own has fewer hardware queues than one for many, or as many as its request says", "[gpu]") {
  const Environment environment{"32", true};
  Processes processes;
  auto cluster = processes.up("cuda");
  CHECK(queues(cluster, {.gpus = 0.25}) == "32");
  Options alone{.gpus = 0.25};
  alone.isolation = Isolation::process;
  CHECK(queues(cluster, alone) == std::to_string(limits::lease_queues));
  alone.environment = {{variable, "4"}};
  CHECK(queues(cluster, alone) == "4");
}

TEST_CASE("a number of hardware queues that a node was started with is that of all its processes", "[gpu]") {
  const Environment environment{"16", false};
  Processes processes;
  auto cluster = processes.up("cuda");
  Options alone{.gpus = 0.25};
  alone.isolation = Isolation::process;
  CHECK(queues(cluster, alone) == "16");
  CHECK(queues(cluster, {.gpus = 0.25}) == "16");
}
