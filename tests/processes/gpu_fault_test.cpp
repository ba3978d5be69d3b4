// A kernel that breaks its context, in a cluster of processes. On a GPU: the driver for tests runs no such kernel.
#include "fixture.hpp"
#include "gpu_only.hpp"

#include <fmt/format.h>
#include <unistd.h>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

constexpr auto start_of_a_driver = 60s;

class Frail : public FractionalGPUActor {
public:
  using FractionalGPUActor::FractionalGPUActor;

  /// Writes where nothing is.
  Result<Number> fall(const google::protobuf::Empty&) {
    GPUACTORS_LET(kernel,
                  gpu().compile({"extern \"C\" __global__ void fall(int* nowhere) { *nowhere = 1; }\n", "fall"}));
    constexpr std::uint64_t nowhere = 16;
    GPUACTORS_TRY(gpu().stream().launch(kernel, {{1, 1, 1}, {1, 1, 1}, 0}, {nowhere}));
    GPUACTORS_TRY(gpu().stream().synchronize());
    return number(0);
  }

  /// The last number of a product.
  Result<Number> product(const google::protobuf::Empty&) {
    auto& stream = gpu().stream();
    GPUACTORS_LET(a, stream.tensor_from(std::vector<float>(64 * 64, 1.0F), {64, 64}));
    GPUACTORS_LET(c, stream.tensor(DType::f32, {64, 64}));
    GPUACTORS_TRY(stream.gemm(a, a, c));
    GPUACTORS_LET(values, stream.to_host<float>(c));
    return number(values.back());
  }

  Number pid(const google::protobuf::Empty&) {
    return number(::getpid());
  }
};

GPUACTORS_ACTOR("frail", Frail)
    .method("fall", &Frail::fall)
    .method("product", &Frail::product)
    .method("pid", &Frail::pid);

ActorRef spawn_frail(Cluster& cluster, Isolation isolation) {
  Options options{.gpus = 0.25, .max_restarts = 1};
  options.isolation = isolation;
  return must(cluster.spawn("frail", google::protobuf::Empty{}, options));
}

bool multiplies(const ActorRef& actor) {
  const auto got = actor.call<Number>("product").get(start_of_a_driver);
  return got && got->value() == 64;
}

} // namespace

TEST_CASE("a kernel that writes where nothing is ends its process, and its actors live again in a new one",
          "[.][chip]") {
  Processes processes;
  auto cluster = processes.up("cuda");
  const auto faulty = spawn_frail(cluster, Isolation::thread);
  const auto mate = spawn_frail(cluster, Isolation::thread);
  const auto apart = spawn_frail(cluster, Isolation::process);
  for (const auto& actor : {faulty, mate, apart})
    REQUIRE(multiplies(actor));
  const auto shared = pid_of(faulty);
  const auto own = pid_of(apart);
  REQUIRE(pid_of(mate) == shared);
  REQUIRE(own != shared);
  const auto begin = Clock::now();
  const auto fallen = faulty.call<Number>("fall").get(start_of_a_driver);
  REQUIRE_FALSE(fallen);
  if (fallen.error().code() == Errc::unsupported && lacks(fallen.error()))
    return;
  CHECK(remedy_of(fallen.error().code()) == Remedy::replace_process);
  CHECK(fallen.error().message().find("700") != std::string::npos);
  // While they come again, the one in a process of its own goes on.
  CHECK(multiplies(apart));
  CHECK(eventually([&] { return multiplies(faulty); }));
  WARN(fmt::format("from the fault to the first product of the new process: {:.0f} ms",
                   1e3 * std::chrono::duration<double>(Clock::now() - begin).count()));
  CHECK(eventually([&] { return multiplies(mate); }));
  CHECK(pid_of(faulty) != shared);
  CHECK(pid_of(apart) == own);
}
