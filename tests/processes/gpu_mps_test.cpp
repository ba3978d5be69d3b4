// Processes that share a GPU through CUDA MPS: what their leases limit them to. On a GPU, with MPS's daemon running.
#include "fixture.hpp"
#include "gpu_only.hpp"

#include <gpuactors/device/mps.hpp>

#include <cstdlib>
#include <set>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

constexpr auto start_of_a_chip = 60s;
constexpr std::size_t mebi = std::size_t{1} << 20;
constexpr std::size_t lease_bytes = 2048 * mebi;
/// As much as the driver for tests has for a quarter.
constexpr std::size_t small_lease_bytes = 256 * mebi;

/// Finds out what it has of its GPU.
class Measured : public FractionalGPUActor {
public:
  using FractionalGPUActor::FractionalGPUActor;

  Text grant(const google::protobuf::Empty&) {
    return text(std::string{to_string(granted().compute)});
  }

  /// What MPS was told of its process.
  Text limits(const google::protobuf::Empty&) {
    const auto* part = std::getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
    const auto* memory = std::getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
    return text(std::string{part != nullptr ? part : ""} + " " + (memory != nullptr ? memory : ""));
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

  /// Takes all memory that it can get, in small steps at the end, and writes to it. @returns the bytes that are left of
  /// its lease, and why it gets no more.
  Result<Text> fill(const google::protobuf::Empty&) {
    auto& stream = gpu().stream();
    std::string why;
    for (const auto step : {64 * mebi, mebi})
      for (;;) {
        auto more = stream.allocate(step);
        if (!more && more.error().code() != Errc::out_of_memory)
          return fail(more.error());
        if (!more) {
          why = more.error().message();
          break;
        }
        GPUACTORS_TRY(stream.fill_bytes(more->data(), 1, step));
        GPUACTORS_TRY(stream.synchronize());
        held_.push_back(std::move(*more));
      }
    if (held_.empty())
      return fail(Errc::out_of_memory, why);
    const auto left = gpu().memory_limit() - gpu().memory_used();
    // Room for a product.
    held_.pop_back();
    return text(std::to_string(left) + ": " + why);
  }

private:
  std::vector<Buffer> held_;
};

GPUACTORS_ACTOR("measured", Measured)
    .method("grant", &Measured::grant)
    .method("limits", &Measured::limits)
    .method("device_sms", &Measured::device_sms)
    .method("granted_sms", &Measured::granted_sms)
    .method("used_sms", &Measured::used_sms)
    .method("product", &Measured::product)
    .method("fill", &Measured::fill);

double learn(const ActorRef& actor, const char* method) {
  return must(actor.call<Number>(method).get(start_of_a_chip)).value();
}

/// It has all of its lease but less than the last step.
void check_filled(const ActorRef& actor) {
  const auto told = must(actor.call<Text>("fill").get(start_of_a_chip)).text();
  INFO(told);
  CHECK(std::stoull(told) < mebi);
}

} // namespace

TEST_CASE("a process with a part of a GPU has all of its lease's memory", "[gpu]") {
  Processes processes;
  auto cluster = processes.up("cuda");
  Options options{.gpus = 0.25, .memory_bytes = small_lease_bytes};
  options.isolation = Isolation::process;
  const auto actor = must(cluster.spawn("measured", google::protobuf::Empty{}, options));
  CHECK(learn(actor, "product") == 256);
  check_filled(actor);
  CHECK(learn(actor, "product") == 256);
}

TEST_CASE("under MPS a quarter has a quarter of the SMs, and all of its lease's memory", "[.][mps]") {
  REQUIRE(mps_runs(mps_folder()));
  Processes processes;
  auto cluster = processes.up("cuda");
  Options options{.gpus = 0.25, .memory_bytes = lease_bytes};
  options.isolation = Isolation::process;
  const auto first = must(cluster.spawn("measured", google::protobuf::Empty{}, options));
  const auto second = must(cluster.spawn("measured", google::protobuf::Empty{}, options));
  for (const auto& actor : {first, second}) {
    CHECK(must(actor.call<Text>("grant").get(start_of_a_chip)).text() == to_string(ComputeEnforcement::capped));
    CHECK(must(actor.call<Text>("limits").get(start_of_a_chip)).text() == "25 0=2368M");
    const auto used = actor.call<Number>("used_sms").get(start_of_a_chip);
    if (used || used.error().code() != Errc::unsupported || !lacks(used.error())) {
      const auto sms = must(used).value();
      const auto all = learn(actor, "device_sms");
      CHECK(sms <= learn(actor, "granted_sms"));
      CHECK(sms * 4 <= all);
      CHECK(sms * 5 >= all);
    }
    CHECK(learn(actor, "product") == 256);
    check_filled(actor);
    CHECK(learn(actor, "product") == 256);
  }
}
