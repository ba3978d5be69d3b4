// Device memory that processes share, on the fake driver: who counts it, who keeps it, and when it goes.
#include <gpuactors/device/context.hpp>

#include <support/gate.hpp>

#include <device/fake_cuda/show_kernels.hpp>
#include <device/fake_driver.hpp>

#include <atomic>
#include <future>
#include <thread>

using namespace gpuactors;
using namespace gpuactors::test;

namespace {

constexpr std::uint64_t unit = std::uint64_t{2} << 20;

Gate& slow_work() {
  static Gate gate;
  return gate;
}

struct AddOneLate {
  void operator()(std::uint64_t i, const float* x, float* y) const {
    if (i == 0)
      slow_work().pass();
    y[i] = x[i] + 1;
  }
};

constexpr unsigned char code[] = {1, 0, 0, 0};
constexpr KernelImage some_image{code, code + 4};
const Kernel<const float*, float*> add_one_late{
    {"add_one_late", &gpuactors::detail::run_on_host<AddOneLate>, &some_image}};

const fake::FakeKernel* find_kernel(const char* entry) {
  static const auto kernel = fake::fake_kernel(add_one_late);
  return kernel.entry == entry ? &kernel : nullptr;
}

std::unique_ptr<Context> open_context(const std::shared_ptr<Device>& device, std::uint64_t memory = 16 * unit) {
  auto context = Context::open(device, {Share{5000}, memory, "test", nullptr});
  REQUIRE(context);
  return std::move(*context);
}

/// A tensor in memory that others can open.
Tensor make_shareable(Context& context, const std::vector<float>& values, std::function<void()> on_end = {}) {
  auto& stream = context.stream();
  auto tensor = stream.tensor_from(values, {static_cast<std::int64_t>(values.size())});
  REQUIRE(tensor);
  auto result = tensor->shareable(stream, std::move(on_end));
  REQUIRE(result);
  REQUIRE(*result);
  return std::move(*result);
}

/// As another process does it: by the descriptor alone.
std::shared_ptr<SharedMemory> open_memory(Device& device, const Tensor& tensor) {
  const auto memory = tensor.shared_memory();
  REQUIRE(memory != nullptr);
  auto opened = device.open_shared_memory(memory->descriptor(), tensor.bytes());
  REQUIRE(opened);
  return *opened;
}

} // namespace

TEST_CASE("shared memory is one block under two addresses, and counts where it is used") {
  {
    const auto owner = open_context(make_cuda_device());
    const auto reader_device = make_cuda_device();
    const auto reader = open_context(reader_device);
    {
      auto shared = make_shareable(*owner, {1, 2, 3});
      // The tensor that it was copied from has gone.
      CHECK(owner->memory_used() == unit);
      const auto opened = open_memory(*reader_device, shared);
      CHECK(opened->descriptor() == -1);
      CHECK(opened->data() != shared.raw());
      CHECK(reader->memory_used() == 0);
      const auto read = reader->stream().attach(opened, DType::f32, {3});
      REQUIRE(read);
      CHECK(reader->memory_used() == unit);
      CHECK(*reader->stream().to_host<float>(*read) == std::vector<float>{1, 2, 3});
      // One block: what its owner writes is seen.
      REQUIRE(owner->stream().zero(shared));
      REQUIRE(owner->stream().synchronize());
      CHECK(*reader->stream().to_host<float>(*read) == std::vector<float>{0, 0, 0});
    }
  }
  CHECK(live() == 0);
}

TEST_CASE("what is unmapped is no longer counted, at the end of the context at the latest") {
  const auto device = make_cuda_device();
  auto context = open_context(device);
  const auto quota = context->quota();
  std::promise<void> ended;
  {
    const auto shared = make_shareable(*context, {1, 2}, [&] { ended.set_value(); });
    CHECK(quota->used() == unit);
  }
  ended.get_future().wait();
  CHECK(quota->used() == 0);
  auto kept = make_shareable(*context, {1, 2});
  context.reset();
  CHECK(quota->used() == 0);
  CHECK_FALSE(kept);
  CHECK(kept.shared_memory() == nullptr);
}

TEST_CASE("what was let go of makes room for the next, in whatever order it went") {
  const auto device = make_cuda_device();
  const auto owner = open_context(device);
  const auto shared = make_shareable(*owner, {1});
  // Room for two.
  const auto reader = open_context(device, 2 * unit);
  auto& stream = reader->stream();
  const auto attach = [&] {
    auto tensor = stream.attach(open_memory(*device, shared), DType::f32, {1});
    REQUIRE(tensor);
    return std::move(*tensor);
  };
  auto kept = attach();
  for (int i = 0; i < 100; ++i)
    kept = attach();
  std::vector<Tensor> both;
  kept = Tensor{};
  for (int i = 0; i < 100; ++i) {
    both.push_back(attach());
    both.push_back(attach());
    both.erase(both.begin());
    both.erase(both.begin());
  }
  REQUIRE(stream.allocate(2 * unit));
}

TEST_CASE("what is read stays when its owner ends, and is the reader's then") {
  const auto device = make_cuda_device();
  const auto reader = open_context(device);
  auto owner = open_context(make_cuda_device());
  auto shared = make_shareable(*owner, {4, 5});
  auto opened = open_memory(*device, shared);
  const auto read = reader->stream().attach(std::move(opened), DType::f32, {2});
  REQUIRE(read);
  owner.reset();
  CHECK_FALSE(shared);
  CHECK(*reader->stream().to_host<float>(*read) == std::vector<float>{4, 5});
  CHECK(reader->memory_used() == unit);
}

TEST_CASE("shared memory is not unmapped under work that reads it, and nobody waits for that") {
  const auto device = make_cuda_device();
  const auto owner = open_context(device);
  const auto reader = open_context(device);
  const auto shared = make_shareable(*owner, {1, 2});
  fake::show_kernels(&find_kernel);
  auto& stream = reader->stream();
  auto sum = stream.tensor(DType::f32, {2});
  REQUIRE(sum);
  slow_work().close();
  {
    auto read = stream.attach(open_memory(*device, shared), DType::f32, {2});
    REQUIRE(read);
    REQUIRE(stream.launch(add_one_late, 2, read->data<const float>(), sum->data<float>()));
  }
  CHECK(reader->memory_used() == unit + 512);
  slow_work().open();
  CHECK(*stream.to_host<float>(*sum) == std::vector<float>{2, 3});
}

TEST_CASE("a context may end while another thread lets go of the last that it had attached") {
  {
    const auto device = make_cuda_device();
    const auto owner = open_context(device);
    const auto shared = make_shareable(*owner, {1, 2});
    for (int i = 0; i < 300; ++i) {
      auto reader = open_context(device);
      const auto quota = reader->quota();
      auto read = reader->stream().attach(open_memory(*device, shared), DType::f32, {2});
      REQUIRE(read);
      auto kept = read->pinned();
      std::thread other{[&kept] { kept = Tensor{}; }};
      reader.reset();
      other.join();
      // By now nobody has it: its last holder has waited for what was on its way out.
      CHECK(quota->used() == 0);
    }
  }
  CHECK(live() == 0);
}

TEST_CASE("shared memory that does not fit, is too small or cannot be reached is refused, and nothing stays") {
  const auto device = make_cuda_device();
  const auto owner = open_context(device);
  const auto code_of = [](const auto& result) {
    REQUIRE_FALSE(result);
    return result.error().code();
  };
  SECTION("an owner without room for a second copy") {
    const auto small = open_context(device, unit);
    auto tensor = small->stream().tensor_from(std::vector<float>{1}, {1});
    REQUIRE(tensor);
    CHECK(code_of(tensor->shareable(small->stream(), {})) == Errc::out_of_memory);
    CHECK(small->memory_used() == 512);
  }
  SECTION("a reader without room") {
    const auto small = open_context(device, unit / 2);
    const auto shared = make_shareable(*owner, {1});
    CHECK(code_of(small->stream().attach(open_memory(*device, shared), DType::f32, {1})) == Errc::out_of_memory);
    CHECK(small->memory_used() == 0);
  }
  SECTION("more than there is") {
    const auto shared = make_shareable(*owner, {1});
    const auto values = static_cast<std::int64_t>(unit / sizeof(float));
    CHECK(code_of(owner->stream().attach(open_memory(*device, shared), DType::f32, {values + 1}))
          == Errc::invalid_argument);
    CHECK(code_of(device->open_shared_memory(shared.shared_memory()->descriptor(), unit + 1)) == Errc::unsupported);
  }
  SECTION("a device that cannot reach it") {
    const auto shared = make_shareable(*owner, {1});
    from_fake<void(const char*, int)>("fake_cuda_fail")("cuMemImportFromShareableHandle", 101);
    CHECK(code_of(device->open_shared_memory(shared.shared_memory()->descriptor(), 4)) == Errc::unsupported);
    from_fake<void(const char*, int)>("fake_cuda_fail")("cuMemImportFromShareableHandle", 0);
  }
  SECTION("a device with no more memory") {
    auto tensor = owner->stream().tensor_from(std::vector<float>{1}, {1});
    from_fake<void(const char*, int)>("fake_cuda_fail")("cuMemCreate", 2);
    CHECK(code_of(tensor->shareable(owner->stream(), {})) == Errc::out_of_memory);
    from_fake<void(const char*, int)>("fake_cuda_fail")("cuMemCreate", 0);
    CHECK(owner->memory_used() == 512);
  }
}

TEST_CASE("devices of one process copy to each other without the host") {
  const auto there = make_cuda_device();
  const auto source_context = open_context(there);
  const auto target_context = open_context(make_cuda_device());
  const auto source = source_context->stream().tensor_from(std::vector<float>{7, 8}, {2});
  auto target = target_context->stream().tensor(DType::f32, {2});
  REQUIRE(target_context->stream().copy_from(*there, target->raw(), source->raw(), source->bytes()));
  CHECK(*target_context->stream().to_host<float>(*target) == std::vector<float>{7, 8});
  const auto refused = target_context->stream().copy_from(*there, target->raw(), nullptr, 8);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == Errc::invalid_argument);
}
