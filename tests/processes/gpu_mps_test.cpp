// Processes that share a GPU through CUDA MPS: what their leases limit them to. On a GPU, with MPS's daemon running.
#include "fixture.hpp"

#include <gpuactors/device/mps.hpp>

#include <set>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

constexpr auto patience = 60s;
constexpr std::size_t mebi = std::size_t{1} << 20;
constexpr std::size_t lease_bytes = 2048 * mebi;

/// Finds out what it has of its GPU.
class Measured : public FractionalGPUActor {
public:
  using FractionalGPUActor::FractionalGPUActor;

  Text grant(const google::protobuf::Empty&) {
    return text(std::string{to_string(granted().compute)});
  }

  Number device_sms(const google::protobuf::Empty&) {
    return number(gpu().device().units);
  }

  Number granted_sms(const google::protobuf::Empty&) {
    return number(granted().units);
  }

  /// On how many SMs its kernels run: many blocks at once that stay for a while, each of which says where it is.
  Result<Number> used_sms(const google::protobuf::Empty&) {
    GPUACTORS_LET(kernel, gpu().compile({"extern \"C\" __global__ void where_am_i(int* out) {\n"
                                         "  const long long start = clock64();\n"
                                         "  while (clock64() - start < 2000000) {}\n"
                                         "  unsigned sm;\n"
                                         "  asm volatile(\"mov.u32 %0, %smid;\" : \"=r\"(sm));\n"
                                         "  if (threadIdx.x == 0) out[blockIdx.x] = (int)sm;\n"
                                         "}\n",
                                         "where_am_i"}));
    constexpr unsigned blocks = 4096;
    auto& stream = gpu().stream();
    GPUACTORS_LET(out, stream.tensor(DType::i32, {blocks}));
    GPUACTORS_TRY(stream.launch(kernel, {{blocks, 1, 1}, {32, 1, 1}, 0}, {out}));
    GPUACTORS_LET(places, stream.to_host<std::int32_t>(out));
    return number(static_cast<double>(std::set<std::int32_t>(places.begin(), places.end()).size()));
  }

  /// The last number of a product, which takes memory of cuBLAS's own.
  Result<Number> product(const google::protobuf::Empty&) {
    auto& stream = gpu().stream();
    GPUACTORS_LET(a, stream.tensor_from(std::vector<float>(256 * 256, 1.0F), {256, 256}));
    GPUACTORS_LET(c, stream.tensor(DType::f32, {256, 256}));
    GPUACTORS_TRY(stream.gemm(a, a, c));
    GPUACTORS_LET(values, stream.to_host<float>(c));
    return number(values.back());
  }

  /// Takes all memory that it can get, in small steps at the end, and writes to it. @returns what is left of its lease.
  Result<Number> fill(const google::protobuf::Empty&) {
    auto& stream = gpu().stream();
    for (const auto step : {64 * mebi, mebi})
      for (;;) {
        auto more = stream.allocate(step);
        if (!more && more.error().code() == Errc::out_of_memory)
          break;
        GPUACTORS_TRY(more);
        GPUACTORS_TRY(stream.fill(more->data(), 1, step));
        GPUACTORS_TRY(stream.synchronize());
        held_.push_back(std::move(*more));
      }
    const auto left = gpu().memory_limit() - gpu().memory_used();
    // Room for a product.
    held_.pop_back();
    return number(static_cast<double>(left));
  }

private:
  std::vector<Buffer> held_;
};

GPUACTORS_ACTOR("measured", Measured)
    .method("grant", &Measured::grant)
    .method("device_sms", &Measured::device_sms)
    .method("granted_sms", &Measured::granted_sms)
    .method("used_sms", &Measured::used_sms)
    .method("product", &Measured::product)
    .method("fill", &Measured::fill);

double ask(const ActorRef& actor, const char* method) {
  return must(actor.call<Number>(method).get(patience)).value();
}

} // namespace

TEST_CASE("under MPS a quarter has a quarter of the SMs, and memory to its lease's last byte", "[.][mps]") {
  REQUIRE(mps_runs(mps_folder()));
  Processes processes;
  auto cluster = processes.up("cuda");
  Options options{.gpus = 0.25, .memory_bytes = lease_bytes};
  options.isolation = Isolation::process;
  const auto first = must(cluster.spawn("measured", google::protobuf::Empty{}, options));
  const auto second = must(cluster.spawn("measured", google::protobuf::Empty{}, options));
  for (const auto& actor : {first, second}) {
    CHECK(must(actor.call<Text>("grant").get(patience)).text() == to_string(ComputeEnforcement::capped));
    const auto used = ask(actor, "used_sms");
    CHECK(used > 0);
    CHECK(used <= ask(actor, "granted_sms"));
    CHECK(used * 4 <= ask(actor, "device_sms"));
    CHECK(ask(actor, "product") == 256);
    CHECK(ask(actor, "fill") < static_cast<double>(mebi));
    CHECK(ask(actor, "product") == 256);
  }
}
