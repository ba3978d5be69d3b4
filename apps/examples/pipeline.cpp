// A pipeline of actors on one device that hand buffers on without a copy: put() shares a tensor where it lies, the
// message carries only a reference, and view() reads the very same memory. Shared tensors are immutable; each stage
// writes a tensor of its own.
#include "examples.pb.h"

#include <gpuactors/gpuactors.hpp>
#include <gpuactors/kernels/elementwise.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

using examples::Parcel;
using examples::Vector;

class Stage : public gpuactors::FractionalGPUActor {
public:
  using FractionalGPUActor::FractionalGPUActor;

  // The first stage brings the values to the device.
  gpuactors::Result<Parcel> load(const Vector& in) {
    GPUACTORS_LET(x, gpu().stream().tensor_from(in.values()));
    return pass_on(std::move(x));
  }

  // A middle stage reads what it was given in place.
  gpuactors::Result<Parcel> square_plus(const Parcel& in) {
    GPUACTORS_LET(shared, tensors().get(in.tensor()));
    GPUACTORS_LET(x, shared.view());
    if (reinterpret_cast<std::uintptr_t>(x.raw()) != in.address())
      return gpuactors::fail(gpuactors::Errc::task_failed, "the buffer was copied on its way");
    GPUACTORS_LET(y, gpu().stream().tensor(x.dtype(), x.shape()));
    const auto count = static_cast<std::uint64_t>(x.size());
    GPUACTORS_TRY(gpu().stream().launch(gpuactors::kernels::polynomial<float>(), count, x, y));
    return pass_on(std::move(y));
  }

private:
  // hand_over() keeps the tensor until the next stage takes it; its memory is this actor's until then.
  gpuactors::Result<Parcel> pass_on(gpuactors::Tensor tensor) {
    Parcel out;
    out.set_address(reinterpret_cast<std::uintptr_t>(tensor.raw()));
    GPUACTORS_LET(shared, tensors().put(std::move(tensor), gpu().stream()));
    *out.mutable_tensor() = std::move(shared).hand_over();
    return out;
  }
};

GPUACTORS_ACTOR("stage", Stage).method("load", &Stage::load).method("square_plus", &Stage::square_plus);

gpuactors::Result<void> run(int argc, char** argv) {
  GPUACTORS_LET(cluster, gpuactors::Cluster::open(argc, argv));
  std::vector<gpuactors::ActorRef> stages;
  for (int i = 0; i < 3; ++i) {
    GPUACTORS_LET(stage, cluster.spawn("stage", {}, {.gpus = 0.25}));
    stages.push_back(stage);
  }
  Vector in;
  for (const float value : {0.0F, 1.0F, 2.0F})
    in.add_values(value);
  GPUACTORS_LET(loaded, stages[0].call<Parcel>("load", in).get());
  GPUACTORS_LET(once, stages[1].call<Parcel>("square_plus", loaded).get());
  GPUACTORS_LET(twice, stages[2].call<Parcel>("square_plus", once).get());
  GPUACTORS_LET(result, cluster.get(twice.tensor()));
  GPUACTORS_LET(values, result.to_host<float>());
  fmt::print("after two stages, without a copy between them: {}\n", fmt::join(values, " "));
  return {};
}

int main(int argc, char** argv) {
  return gpuactors::main(argc, argv, run);
}
