// On the fake driver: graphs of fractions, what comes of steps that the driver refuses, and what is left at the end.
#include <gpuactors/device/context.hpp>

#include <device/fake_driver.hpp>

#include <string>
#include <vector>

using namespace gpuactors;
using namespace gpuactors::test;

namespace {

std::unique_ptr<Context> open_quarter(const std::shared_ptr<Device>& device) {
  return *Context::open(device, {Share{2500}, std::uint64_t{64} << 20, "test", nullptr});
}

} // namespace

TEST_CASE("a graph of a fraction runs on its own groups, and is gone before they are") {
  {
    const auto device = make_cuda_device();
    auto context = open_quarter(device);
    auto& stream = context->stream();
    auto x = *stream.tensor_from(std::vector<float>(16, 1.0F), {4, 4});
    auto y = *stream.tensor(DType::f32, {4, 4});
    REQUIRE(stream.gemm(x, x, y));
    REQUIRE(stream.synchronize());
    (void)take_work(true);
    (void)take_work(false);
    const auto graph = stream.capture([&]() -> Result<void> {
      GPUACTORS_TRY(stream.zero(y));
      return stream.gemm(x, x, y);
    });
    REQUIRE(graph);
    REQUIRE(stream.launch(*graph));
    CHECK(*stream.to_host<float>(y) == std::vector<float>(16, 4.0F));
    CHECK(take_work(false) == 0);
    CHECK(take_work(true) > 0);
    // The context ends first: the fake driver ends the process if its green context still had graphs.
    context.reset();
    CHECK(graph->operations() > 0);
  }
  CHECK(live() == 0);
}

TEST_CASE("whatever step of a graph the driver refuses, the stream goes on and nothing is left") {
  for (const auto* api :
       {"cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuEventRecord"}) {
    INFO(api);
    const auto device = make_cuda_device();
    auto context = open_quarter(device);
    auto& stream = context->stream();
    auto x = *stream.tensor_from(std::vector<float>(16, 1.0F), {4, 4});
    auto y = *stream.tensor(DType::f32, {4, 4});
    REQUIRE(stream.gemm(x, x, y));
    {
      const Fault fault{api, invalid_handle};
      const auto graph = stream.capture([&] { return stream.gemm(x, x, y); });
      REQUIRE_FALSE(graph);
      CHECK(graph.error().message().find(api) != std::string::npos);
    }
    const auto graph = stream.capture([&] { return stream.gemm(x, x, y); });
    REQUIRE(graph);
    {
      const Fault fault{"cuGraphLaunch", invalid_handle};
      CHECK(stream.launch(*graph).error().code() == Errc::launch_failed);
    }
    REQUIRE(stream.launch(*graph));
    CHECK(*stream.to_host<float>(y) == std::vector<float>(16, 4.0F));
  }
  CHECK(live() == 0);
}
