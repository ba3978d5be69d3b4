// Many tasks at once: submit them all, go on with the first results, withdraw the rest. Tasks of one shape share
// leases, so that a stream of them costs no trip to the broker each.
#include "examples.pb.h"

#include <gpuactors/gpuactors.hpp>

#include <fmt/format.h>

#include <thread>

using examples::Number;
using namespace std::chrono_literals;

// Searches for as long as it is told, or until nobody wants the answer any more.
GPUACTORS_TASK("search", [](gpuactors::TaskContext& ctx, const Number& seconds) -> gpuactors::Result<Number> {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds.value());
  while (std::chrono::steady_clock::now() < end) {
    if (ctx.stop_requested())
      return gpuactors::fail(gpuactors::Errc::cancelled, "nobody waits for this search any more");
    std::this_thread::sleep_for(1ms);
  }
  return seconds;
});

gpuactors::Result<void> run(int argc, char** argv) {
  GPUACTORS_LET(cluster, gpuactors::Cluster::open(argc, argv));
  // Eight searches on one device, an eighth each; three of them are short.
  std::vector<gpuactors::Future<Number>> futures;
  for (int i = 0; i < 8; ++i) {
    Number seconds;
    seconds.set_value(i % 3 == 1 ? 0.01 : 600);
    futures.push_back(cluster.submit<Number>("search", seconds, {.gpus = 0.125}));
  }
  // Waits until three are ready, whichever they are; the futures stay valid.
  const auto ready = gpuactors::wait(futures, 3, 60s);
  for (const auto i : ready) {
    GPUACTORS_LET(answer, futures[i].get());
    fmt::print("search {} was ready after {} s\n", i, answer.value());
  }
  // The others end early: their futures are ready with `cancelled`.
  int cancelled = 0;
  for (auto& future : futures) {
    if (!future.valid())
      continue;
    future.cancel();
    const auto answer = future.get(10s);
    cancelled += !answer && answer.error().code() == gpuactors::Errc::cancelled ? 1 : 0;
  }
  fmt::print("{} were withdrawn\n", cancelled);
  return {};
}

int main(int argc, char** argv) {
  return gpuactors::main(argc, argv, run);
}
