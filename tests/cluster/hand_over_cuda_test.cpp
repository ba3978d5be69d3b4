// A tensor that goes from one actor to another on one GPU before it is made: on the fake driver.
#include <gpuactors/gpuactors.hpp>
#include <gpuactors/test/messages.pb.h>

#include <support/catch.hpp>
#include <support/gate.hpp>
#include <support/results.hpp>

#include <device/fake_cuda/show_kernels.hpp>

#include <optional>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

/// What the first kernel waits for.
Gate& slow_work() {
  static Gate gate;
  return gate;
}

struct SlowTenfold {
  void operator()(std::uint64_t i, float* x) const {
    if (i == 0)
      slow_work().pass();
    x[i] *= 10;
  }
};

struct AddOne {
  void operator()(std::uint64_t i, const float* x, float* y) const {
    y[i] = x[i] + 1;
  }
};

// The fake driver asks for something to load.
constexpr unsigned char code[] = {1, 0, 0, 0};
constexpr KernelImage some_image{code, code + 4};
const Kernel<float*> slow_tenfold{{"slow_tenfold", &gpuactors::detail::run_on_host<SlowTenfold>, &some_image}};
const Kernel<const float*, float*> add_one{{"add_one", &gpuactors::detail::run_on_host<AddOne>, &some_image}};

const fake::FakeKernel* find_kernel(const char* entry) {
  static const fake::FakeKernel all[] = {fake::fake_kernel(slow_tenfold), fake::fake_kernel(add_one)};
  for (const auto& kernel : all)
    if (kernel.entry == entry)
      return &kernel;
  return nullptr;
}

/// Puts a tensor whose work has only begun.
class Maker : public FractionalGPUActor {
public:
  using FractionalGPUActor::FractionalGPUActor;

  Result<TensorMessage> make(const google::protobuf::Empty&) {
    // The driver is there by now.
    fake::show_kernels(&find_kernel);
    auto& stream = gpu().stream();
    GPUACTORS_LET(x, stream.tensor_from(std::vector<float>{1, 2}, {2}));
    GPUACTORS_TRY(stream.launch(slow_tenfold, 2, x.data<float>()));
    GPUACTORS_LET(shared, tensors().put_queued(std::move(x), stream));
    TensorMessage message;
    *message.mutable_tensor() = std::move(shared).hand_over();
    return message;
  }
};

/// Puts a tensor that is there, and has other memory of that size afterwards.
class Owner : public FractionalGPUActor {
public:
  using FractionalGPUActor::FractionalGPUActor;

  Result<TensorMessage> make(const google::protobuf::Empty&) {
    fake::show_kernels(&find_kernel);
    auto& stream = gpu().stream();
    GPUACTORS_LET(x, stream.tensor_from(std::vector<float>{1, 2}, {2}));
    GPUACTORS_LET(shared, tensors().put(std::move(x), stream));
    TensorMessage message;
    *message.mutable_tensor() = std::move(shared).hand_over();
    return message;
  }

  Result<void> overwrite(const google::protobuf::Empty&) {
    GPUACTORS_LET(next, gpu().stream().tensor_from(std::vector<float>{90, 90}, {2}));
    next_ = std::move(next);
    return {};
  }

private:
  Tensor next_;
};

/// Reads a tensor in work that is queued behind something slow, and keeps no handle to it.
class Reader : public FractionalGPUActor {
public:
  using FractionalGPUActor::FractionalGPUActor;

  Result<void> begin(const TensorMessage& in) {
    auto& stream = gpu().stream();
    GPUACTORS_LET(slow, stream.tensor_from(std::vector<float>{0}, {1}));
    GPUACTORS_LET(y, stream.tensor(DType::f32, {2}));
    GPUACTORS_LET(shared, tensors().get(in.tensor()));
    GPUACTORS_LET(x, shared.on(stream));
    GPUACTORS_TRY(stream.launch(slow_tenfold, 1, slow.data<float>()));
    GPUACTORS_TRY(stream.launch(add_one, 2, x.data<const float>(), y.data<float>()));
    y_ = std::move(y);
    return {};
  }

  Result<Vector> end(const google::protobuf::Empty&) {
    GPUACTORS_LET(values, gpu().stream().to_host<float>(y_));
    Vector result;
    result.mutable_values()->Add(values.begin(), values.end());
    return result;
  }

private:
  Tensor y_;
};

class Taker : public FractionalGPUActor {
public:
  using FractionalGPUActor::FractionalGPUActor;

  /// Queues work on the tensor, and returns.
  Result<void> begin(const TensorMessage& in) {
    auto& stream = gpu().stream();
    GPUACTORS_LET(shared, tensors().get(in.tensor()));
    GPUACTORS_LET(x, shared.on(stream));
    GPUACTORS_LET(y, stream.tensor(DType::f32, {2}));
    GPUACTORS_TRY(stream.launch(add_one, 2, x.data<const float>(), y.data<float>()));
    x_ = std::move(x);
    y_ = std::move(y);
    return {};
  }

  Result<Vector> end(const google::protobuf::Empty&) {
    GPUACTORS_LET(values, gpu().stream().to_host<float>(y_));
    Vector result;
    result.mutable_values()->Add(values.begin(), values.end());
    return result;
  }

private:
  Tensor x_;
  Tensor y_;
};

} // namespace

TEST_CASE("a tensor that queued work of another actor reads stays, although nobody has a handle to it any more") {
  slow_work().close();
  TypeRegistry registry;
  define_actor<Owner>("owner", registry).method("make", &Owner::make).method("overwrite", &Owner::overwrite);
  define_actor<Reader>("reader", registry).method("begin", &Reader::begin).method("end", &Reader::end);
  EmbedOptions options;
  options.devices = "cuda:GPU-00";
  options.registry = std::shared_ptr<const TypeRegistry>{std::shared_ptr<void>{}, &registry};
  auto cluster = must(Cluster::embed(std::move(options)));
  auto owner = must(cluster.spawn("owner", {}, {.gpus = 0.5}));
  auto reader = must(cluster.spawn("reader", {}, {.gpus = 0.5}));
  must(reader.call("begin", must(owner.call<TensorMessage>("make").get(20s))).get(20s));
  must(owner.call("overwrite").get(20s));
  auto end = reader.call<Vector>("end");
  slow_work().open();
  const auto values = must(end.get(20s));
  REQUIRE(values.values_size() == 2);
  CHECK(values.values(0) == 2);
  CHECK(values.values(1) == 3);
}

TEST_CASE("work of another actor on the GPU waits for a tensor that is being made; the actor does not") {
  slow_work().close();
  TypeRegistry registry;
  define_actor<Maker>("maker", registry).method("make", &Maker::make);
  define_actor<Taker>("taker", registry).method("begin", &Taker::begin).method("end", &Taker::end);
  EmbedOptions options;
  options.devices = "cuda:GPU-00";
  options.registry = std::shared_ptr<const TypeRegistry>{std::shared_ptr<void>{}, &registry};
  auto cluster = must(Cluster::embed(std::move(options)));
  auto maker = must(cluster.spawn("maker", {}, {.gpus = 0.5}));
  auto taker = must(cluster.spawn("taker", {}, {.gpus = 0.5}));
  const auto message = must(maker.call<TensorMessage>("make").get(20s));
  slow_work().await(1);
  // Both come back although the first kernel still waits.
  must(taker.call("begin", message).get(20s));
  auto end = taker.call<Vector>("end");
  slow_work().open();
  const auto values = must(end.get(20s));
  REQUIRE(values.values_size() == 2);
  CHECK(values.values(0) == 11);
  CHECK(values.values(1) == 21);
}
