// The built-in tasks that show how a cluster behaves: echo, say, sleep, gpu_ids, leak.
#include "support.hpp"

#include <gpuactors/device/accelerators.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

namespace gpuactors::builtin {

namespace {

constexpr double longest_sleep = 86'400;

// How soon a sleeping task notices that it should stop.
constexpr auto sleep_slice = std::chrono::milliseconds{5};

v1::Echo echo(TaskContext&, const v1::Echo& in) {
  return in;
}

Result<v1::Slept> sleep_for(TaskContext& ctx, const v1::Sleep& in) {
  if (!(in.seconds() >= 0 && in.seconds() <= longest_sleep))
    return fail(Errc::invalid_argument,
                fmt::format("seconds is {}: 0 to {} are expected", in.seconds(), longest_sleep));
  const Stopwatch watch;
  const auto end = Clock::now() + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(in.seconds()));
  while (Clock::now() < end && !ctx.stop_requested())
    std::this_thread::sleep_until(std::min(end, Clock::now() + sleep_slice));
  v1::Slept out;
  out.set_interrupted(Clock::now() < end);
  out.set_seconds(watch.seconds());
  return out;
}

v1::GpuIdsResult gpu_ids(TaskContext& ctx, const v1::GpuIds&) {
  v1::GpuIdsResult out;
  out.set_node(ctx.lease().node);
  out.set_pid(static_cast<std::uint32_t>(getpid()));
  describe_all(ctx, out);
  describe_accelerators(ctx, out);
  for (const auto& kind : accelerator_kinds())
    if (const auto* value = std::getenv(std::string{kind.variable}.c_str()); value != nullptr)
      (*out.mutable_environment())[std::string{kind.variable}] = value;
  for (const auto& [name, value] : ctx.lease().environment)
    (*out.mutable_environment())[name] = value;
  return out;
}

Result<v1::Leaked> leak(TaskContext& ctx, const v1::Leak& in) {
  GPUACTORS_LET(bytes, check_count("bytes", in.bytes(), 1));
  GPUACTORS_TRY(check_device("leak", ctx.gpu_count()));
  GPUACTORS_LET(buffer, ctx.gpu().stream().allocate(bytes));
  buffer.release();
  v1::Leaked out;
  out.set_used_bytes(ctx.gpu().memory_used());
  out.set_limit_bytes(ctx.gpu().memory_limit());
  out.set_pid(static_cast<std::uint32_t>(getpid()));
  return out;
}

GPUACTORS_TASK("echo", echo);
GPUACTORS_TASK("say", [](TaskContext&, const v1::Say& in) { return say(in); });
GPUACTORS_TASK("sleep", sleep_for);
GPUACTORS_TASK("gpu_ids", gpu_ids);
GPUACTORS_TASK("leak", leak).needs({.gpus = 1});

} // namespace

} // namespace gpuactors::builtin
