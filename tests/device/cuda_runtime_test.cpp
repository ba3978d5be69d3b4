// Kernels from source, and pinned memory, on the fake driver: the compiler is real, the chip is not.
#include <gpuactors/device/context.hpp>

#include <support/eventually.hpp>
#include <support/temporary_folder.hpp>

#include <device/fake_cuda/driver.hpp>
#include <device/fake_driver.hpp>

#include <cstdlib>
#include <future>
#include <iostream>
#include <thread>

using namespace gpuactors;
using namespace gpuactors::test;

namespace {

std::unique_ptr<Context> open(const std::shared_ptr<Device>& device) {
  auto context = Context::open(device, {Share{5000}, std::uint64_t{64} << 20, "test", nullptr});
  if (!context)
    FAIL(context.error().message());
  return std::move(*context);
}

constexpr auto source = "extern \"C\" __global__ void scale_by(float* x, float by, unsigned n) {\n"
                        "  for (unsigned i = threadIdx.x; i < n; i += blockDim.x) x[i] *= by;\n"
                        "}\n";

/// What the chip would do.
void scale_by(std::uint64_t, std::uint64_t, const void* pack) {
  const auto* words = static_cast<const std::uint64_t*>(pack);
  auto* x = reinterpret_cast<float*>(words[0]); // NOLINT(performance-no-int-to-ptr): as the driver passes it
  float by = 0;
  std::memcpy(&by, &words[1], sizeof(by));
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(words[2]); ++i)
    x[i] *= by;
}

fake::FakeKernel& fake_scale() {
  static fake::FakeKernel kernel{"scale_by", &scale_by, 3 * sizeof(std::uint64_t), {8, 4, 4}};
  return kernel;
}

const fake::FakeKernel* find(const char* entry) {
  return fake_scale().entry == entry ? &fake_scale() : nullptr;
}

/// As the compiler and the driver would have made it.
std::shared_ptr<const RuntimeKernel::Loaded> scale_loaded() {
  RuntimeKernel::Loaded loaded{handle_of(fake_scale()), "scale_by", std::nullopt};
  return std::make_shared<const RuntimeKernel::Loaded>(std::move(loaded));
}

/// Files of this program's compiler go here.
const test::TemporaryFolder& cache() {
  static const test::TemporaryFolder folder;
  ::setenv("GPUACTORS_KERNEL_CACHE", folder.path().c_str(), 1);
  return folder;
}

/// Whether there is a compiler; printed once if not.
bool can_compile(const Result<RuntimeKernel>& kernel) {
  if (kernel || kernel.error().code() != Errc::unsupported)
    return true;
  std::cerr << "skipped: " << kernel.error().message() << '\n';
  return false;
}

} // namespace

TEST_CASE("a kernel from source is compiled, launched with its arguments, and kept for the next") {
  (void)cache();
  const auto device = make_cuda_device();
  from_fake<void(fake::KernelFinder)>("fake_cuda_set_kernels")(&find);
  const auto context = open(device);
  const auto kernel = context->compile({source, "scale_by"});
  if (!can_compile(kernel))
    return;
  if (!kernel)
    FAIL(kernel.error().message());
  auto& stream = context->stream();
  auto x = stream.tensor_from(std::vector<float>{1, 2, 3}, {3});
  REQUIRE(x);
  REQUIRE(stream.launch(*kernel, {{1, 1, 1}, {32, 1, 1}, 0}, {*x, 2.0F, std::uint32_t{3}}));
  CHECK(*stream.to_host<float>(*x) == std::vector<float>{2, 4, 6});
  const auto other = open(device);
  const auto again = other->compile({source, "scale_by"});
  REQUIRE(again);
  CHECK(again->loaded().native == kernel->loaded().native);
}

TEST_CASE("a kernel is kept until the stream that it was started on is waited for, and no longer") {
  const auto context = open(make_cuda_device());
  auto& stream = context->stream();
  auto side = context->make_stream();
  REQUIRE(side);
  auto x = stream.tensor_from(std::vector<float>{1}, {1});
  REQUIRE(x);
  auto loaded = scale_loaded();
  const std::weak_ptr<const RuntimeKernel::Loaded> watch = loaded;
  RuntimeKernel kernel{std::move(loaded)};
  REQUIRE(stream.launch(kernel, {}, {x->data<float>(), 2.0F, std::uint32_t{1}}));
  REQUIRE(side->launch(kernel, {}, {x->data<float>(), 1.0F, std::uint32_t{0}}));
  kernel = RuntimeKernel{};
  CHECK(side->synchronize());
  CHECK_FALSE(watch.expired());
  CHECK(stream.synchronize());
  CHECK(watch.expired());
}

TEST_CASE("a kernel is kept until a notification behind it has come, and no longer") {
  const auto context = open(make_cuda_device());
  auto& stream = context->stream();
  auto x = stream.tensor_from(std::vector<float>{1}, {1});
  REQUIRE(x);
  auto loaded = scale_loaded();
  const std::weak_ptr<const RuntimeKernel::Loaded> watch = loaded;
  RuntimeKernel kernel{std::move(loaded)};
  const auto launch = [&] { return stream.launch(kernel, {}, {x->data<float>(), 2.0F, std::uint32_t{1}}); };
  REQUIRE(launch());
  {
    // One that is refused has told nothing.
    const Fault fault{"cuEventRecord", invalid_handle};
    CHECK_FALSE(stream.notify([](const Result<void>&) {}));
  }
  std::promise<bool> was_gone;
  REQUIRE(launch());
  kernel = RuntimeKernel{};
  CHECK_FALSE(watch.expired());
  REQUIRE(stream.notify([&](const Result<void>&) { was_gone.set_value(watch.expired()); }));
  CHECK(was_gone.get_future().get());
}

TEST_CASE("blocks have more than 48 KiB of shared memory where they ask for it, up to what the chip has") {
  const auto context = open(make_cuda_device());
  auto& stream = context->stream();
  auto x = stream.tensor_from(std::vector<float>{1}, {1});
  REQUIRE(x);
  const RuntimeKernel kernel{scale_loaded()};
  const auto launch = [&](unsigned shared_bytes) {
    return stream.launch(kernel, {{1, 1, 1}, {32, 1, 1}, shared_bytes}, {x->data<float>(), 2.0F, std::uint32_t{1}});
  };
  CHECK(launch(48U << 10));
  CHECK(launch((48U << 10) + 1));
  CHECK(launch(226U << 10));
  CHECK(launch((226U << 10) + 1).error()
        == Error{Errc::invalid_argument,
                 "kernel scale_by was started with 231425 B of dynamic shared memory for each block; beside the 1024 B "
                 "that it declares itself the device has 231424 B"});
  CHECK(*stream.to_host<float>(*x) == std::vector<float>{8});
}

TEST_CASE("source that is wrong is an error with the compiler's lines, and the context goes on") {
  (void)cache();
  const auto context = open(make_cuda_device());
  const auto wrong = context->compile({"extern \"C\" __global__ void broken() {\n  nonsense;\n}\n", "broken"});
  if (!can_compile(wrong))
    return;
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().code() == Errc::invalid_argument);
  CHECK(wrong.error().message().find("kernel.cu(2): error") != std::string::npos);
  CHECK(context->compile({"", "x"}).error().code() == Errc::invalid_argument);
  CHECK(context->stream().synchronize());
}

TEST_CASE("launches that cannot be meant are refused") {
  const auto context = open(make_cuda_device());
  CHECK(context->stream().launch(RuntimeKernel{}, {}, {}).error().code() == Errc::invalid_argument);
  int something = 0;
  const RuntimeKernel kernel{std::make_shared<const RuntimeKernel::Loaded>(
      RuntimeKernel::Loaded{&something, "name", std::vector<std::size_t>{8, 4}})};
  CHECK(context->stream().launch(kernel, {{1, 0, 1}, {1, 1, 1}, 0}, {}).error()
        == Error{Errc::invalid_argument,
                 "kernel name was started with grid [1, 0, 1] and blocks [1, 1, 1]; each dimension is at least 1"});
  auto reclaimed = context->stream().tensor(DType::f32, {1});
  REQUIRE(reclaimed);
  REQUIRE(context->reclaim());
  CHECK(context->stream().launch(kernel, {}, {*reclaimed, 1.0F}).error()
        == Error{Errc::invalid_argument,
                 "argument 1 of kernel name is a tensor without memory: it is empty, or was reclaimed"});
  float* pointer = nullptr;
  CHECK(context->stream().launch(kernel, {}, {pointer}).error()
        == Error{Errc::invalid_argument, "kernel name declares 2 arguments of [8, 4] B and was given 1 of [8] B"});
  CHECK(context->stream().launch(kernel, {}, {pointer, 1.0}).error()
        == Error{Errc::invalid_argument, "kernel name declares 2 arguments of [8, 4] B and was given 2 of [8, 8] B"});
}

TEST_CASE("a process that wants no kernels from source compiles none") {
  const auto context = open(make_cuda_device());
  ::setenv("GPUACTORS_JIT", "off", 1);
  const auto refused = context->compile({source, "scale_by"});
  ::unsetenv("GPUACTORS_JIT");
  REQUIRE_FALSE(refused);
  CHECK(refused.error()
        == Error{Errc::unsupported, "kernel scale_by is not compiled: GPUACTORS_JIT=off is set in this process"});
}

TEST_CASE("pinned memory is kept for the next who needs it, and goes with the device") {
  {
    const auto device = make_cuda_device();
    const auto context = open(device);
    auto first = context->host_buffer(100'000);
    REQUIRE(first);
    auto* const address = first->data();
    CHECK(first->bytes() == 100'000);
    first->data<char>()[99'999] = 1;
    auto second = context->host_buffer(100'000);
    CHECK(second->data() != address);
    const auto before = live();
    std::thread{[moved = std::move(*first)]() mutable { moved = HostBuffer{}; }}.join();
    CHECK(first->data() == nullptr);
    CHECK(first->bytes() == 0);
    CHECK(live() == before);
    CHECK(context->host_buffer(130'000)->data() == address);
    // Too large to be kept.
    CHECK(context->host_buffer(std::size_t{257} << 20));
    CHECK(test::eventually([&] { return live() == before; }));
  }
  CHECK(live() == 0);
}
