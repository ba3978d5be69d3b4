// A task is a stateless function: a Protobuf message goes in, another comes out. It is submitted with the resources
// that it needs, here half a device, and runs as soon as they are free. What it allocates on the device is counted
// against its share while it runs, and gone when it returns.
#include "examples.pb.h"

#include <gpuactors/gpuactors.hpp>
#include <gpuactors/kernels/elementwise.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

using examples::Vector;

// The name under which it is submitted, and the function. `ctx` is its part of the device.
GPUACTORS_TASK("square_plus", [](gpuactors::TaskContext& ctx, const Vector& in) -> gpuactors::Result<Vector> {
  auto& stream = ctx.gpu().stream();
  const auto count = static_cast<std::uint64_t>(in.values_size());
  // GPUACTORS_LET declares x, or returns the error to whoever waits for the task.
  GPUACTORS_LET(x, stream.tensor_from(in.values()));
  GPUACTORS_LET(y, stream.tensor(gpuactors::DType::f32, {in.values_size()}));
  // One index a value; the kernel computes x*x + 2x + 1 on whatever device this is.
  GPUACTORS_TRY(stream.launch(gpuactors::kernels::polynomial<float>(), count, x, y));
  GPUACTORS_LET(result, stream.to_host<float>(y));
  Vector out;
  out.mutable_values()->Add(result.begin(), result.end());
  return out;
});

gpuactors::Result<void> run(int argc, char** argv) {
  // Without --devices: CUDA if there is any, else the cores of this machine as one host device.
  GPUACTORS_LET(cluster, gpuactors::Cluster::open(argc, argv));
  Vector in;
  for (const float value : {1.0F, 2.0F, 3.0F})
    in.add_values(value);
  // The future is there at once; get() waits for the answer.
  auto future = cluster.submit<Vector>("square_plus", in, {.gpus = 0.5});
  GPUACTORS_LET(out, future.get());
  fmt::print("result: {}\n", fmt::join(out.values(), " "));

  // What cannot work is an error that says why: no device has a share of 1.5.
  const auto refused = cluster.submit<Vector>("square_plus", in, {.gpus = 1.5}).get();
  fmt::print("refused: {}\n", to_string(refused.error()));
  return {};
}

// Runs the above, and says what went wrong. Where a node of a cluster starts this program as its worker, it works for
// the node instead.
int main(int argc, char** argv) {
  return gpuactors::main(argc, argv, run);
}
