// The CUDA module on a fake driver: handles, errors and notifications, without a chip.
#include <gpuactors/device/context.hpp>
#include <gpuactors/device/discovery.hpp>

#include <device/fake_driver.hpp>

#include <atomic>
#include <cstdlib>
#include <future>
#include <thread>

using namespace gpuactors;
using namespace gpuactors::test;

namespace {

void set_broken(int result) {
  from_fake<void(int)>("fake_cuda_break")(result);
}

} // namespace

TEST_CASE("what cannot start says so in one line", "[.][start]") {
  const char* expected = std::getenv("EXPECTED_ERROR");
  REQUIRE(expected != nullptr);
  const auto module = load_cuda_module();
  REQUIRE_FALSE(module);
  CHECK(module.error().message() == expected);
  const char* gpus = std::getenv("EXPECTED_GPUS");
  REQUIRE(gpus != nullptr);
  const auto devices = make_devices({}, discovery_options("test"));
  CHECK(devices.has_value() == (gpus == std::string{"none"}));
  if (devices)
    CHECK(devices->at(0)->info().kind == DeviceKind::host);
  else
    CHECK(devices.error().message() == std::string{expected} + "; name the devices to go on without GPUs, as host:1");
}

TEST_CASE("a device that lets nobody compute is lost, and no context of it", "[.][prohibited]") {
  const auto context = Context::open(make_cuda_device(), {Share::whole(1), std::uint64_t{64} << 20, "test", nullptr});
  REQUIRE_FALSE(context);
  CHECK(context.error().code() == Errc::device_lost);
  CHECK(context.error().message()
        == "device 0 lets nobody compute: its compute mode is \"prohibited\" (nvidia-smi --compute-mode=0 lets all)");
}

TEST_CASE("a device is described without a context") {
  const auto device = make_cuda_device();
  CHECK(live() == 0);
  CHECK(device->info().name == "NVIDIA Fake");
  CHECK(device->info().uuid == "GPU-00112233-4455-6677-8899-aabbccddeeff");
  CHECK(device->info().units == 132);
  // Leases do not get what contexts and libraries take for themselves.
  CHECK(device->info().memory_bytes == (std::uint64_t{2} << 30) - (std::uint64_t{512} << 20));
}

TEST_CASE("libraries of others get the stream, and its context on their thread as long as they need it") {
  const auto context = *Context::open(make_cuda_device(), {Share{5000}, std::uint64_t{64} << 20, "test", nullptr});
  const auto current = [] { return from_fake<bool()>("fake_cuda_has_current")(); };
  CHECK_FALSE(current());
  {
    const auto native = context->stream().native();
    REQUIRE(native);
    CHECK(native->handle() != nullptr);
    CHECK(current());
  }
  CHECK_FALSE(current());
}

TEST_CASE("a handle for libraries of others that replaces another one keeps the context on its thread") {
  const auto context = *Context::open(make_cuda_device(), {Share{5000}, std::uint64_t{64} << 20, "test", nullptr});
  const auto current = [] { return from_fake<bool()>("fake_cuda_has_current")(); };
  {
    auto native = *context->stream().native();
    native = *context->stream().native();
    CHECK(current());
  }
  CHECK_FALSE(current());
}

TEST_CASE("of handles for libraries of others on several devices, the one that was had last is current",
          "[.][two_devices]") {
  const auto module = load_cuda_module();
  REQUIRE(module);
  const auto infos = (*module)->devices();
  REQUIRE(infos);
  std::vector<std::unique_ptr<Context>> contexts;
  for (const auto& info : *infos)
    contexts.push_back(
        *Context::open(*(*module)->device(info), {Share{5000}, std::uint64_t{64} << 20, "test", nullptr}));
  REQUIRE(contexts.size() == 2);
  const auto current = from_fake<int()>("fake_cuda_current_device");
  {
    auto native = *contexts[0]->stream().native();
    CHECK(current() == 0);
    native = *contexts[1]->stream().native();
    CHECK(current() == 1);
    auto first = std::make_unique<NativeStream>(*contexts[0]->stream().native());
    const auto second = *contexts[1]->stream().native();
    first.reset();
    CHECK(current() == 1);
    // The first device twice: the first of the two goes.
    first = std::make_unique<NativeStream>(*contexts[0]->stream().native());
    const auto third = *contexts[1]->stream().native();
    *first = *contexts[0]->stream().native();
    CHECK(current() == 0);
  }
  CHECK(current() == -1);
}

TEST_CASE("memory whose last owner is a callback of its own context ends with it, after the context") {
  {
    const auto device = make_cuda_device();
    auto context = *Context::open(device, {Share{5000}, std::uint64_t{64} << 20, "test", nullptr});
    const auto quota = context->quota();
    std::promise<void> ended;
    {
      const auto tensor = context->stream().tensor_from(std::vector<float>{1, 2, 3}, {3});
      REQUIRE(tensor);
      auto pinned = std::make_shared<Tensor>(tensor->pinned());
      REQUIRE(context->stream().notify(
          [pinned = std::move(pinned), over = ended.get_future().share()](const Result<void>&) { over.wait(); }));
    }
    context.reset();
    CHECK(quota->used() > 0);
    ended.set_value();
    while (quota->used() > 0)
      std::this_thread::yield();
    // Other notifications of the device come all the same.
    context = *Context::open(device, {Share{5000}, std::uint64_t{64} << 20, "test", nullptr});
    std::promise<void> called;
    REQUIRE(context->stream().notify([&](const Result<void>&) { called.set_value(); }));
    called.get_future().wait();
  }
  while (live() != 0)
    std::this_thread::yield();
}

TEST_CASE("every handle is given back, also when the program forgets") {
  {
    const auto device = make_cuda_device();
    for (int i = 0; i < 3; ++i) {
      auto context = Context::open(device, {Share{5000}, std::uint64_t{64} << 20, "test", nullptr});
      REQUIRE(context);
      auto& stream = (*context)->stream();
      auto side = (*context)->make_stream();
      REQUIRE(side);
      auto a = stream.tensor_from(std::vector<float>(100, 2.0F), {10, 10});
      auto b = stream.tensor(DType::f32, {10, 10});
      REQUIRE(stream.gemm(*a, *a, *b));
      REQUIRE(side->wait(stream));
      REQUIRE(side->gemm(*a, *b, *a));
      REQUIRE(stream.wait(*side));
      CHECK((*stream.to_host<float>(*a))[0] == 800.0F);
      // The workspace is the lease's, and counted.
      CHECK((*context)->memory_used() == (std::uint64_t{8} << 20) + 2 * 512);
      stream.allocate(1000)->release();
      REQUIRE(stream.notify([](Result<void>) {}));
      CHECK((*context)->granted().compute == ComputeEnforcement::sm_groups);
    }
    // The primary context and the events of notifications stay with the device.
    CHECK(live() <= 2 + 3);
  }
  CHECK(live() == 0);
}

TEST_CASE("the pool is the second line behind the ledger, and says what was asked where") {
  const auto device = make_cuda_device();
  auto backend = device->open({Share{5000}, std::uint64_t{32} << 20, nullptr});
  REQUIRE(backend);
  auto stream = (*backend)->make_stream();
  // A chunk more than the lease, for pieces that do not fit together.
  const auto refused = (*backend)->allocate(std::size_t{65} << 20, *stream);
  REQUIRE_FALSE(refused);
  CHECK(refused.error()
        == Error{Errc::out_of_memory,
                 "cuMemAllocFromPoolAsync: CUDA_ERROR_OUT_OF_MEMORY (2) on device 0, asked 68157440 B"});
  (*backend)->destroy_stream(*stream);
}

TEST_CASE("memory that was freed behind work is had by who waits for that work") {
  const auto keep = [](bool frees) { from_fake<void(bool)>("fake_cuda_keep_frees")(frees); };
  const auto context = *Context::open(make_cuda_device(), {Share{5000}, std::uint64_t{64} << 20, "test", nullptr});
  constexpr auto most_of_it = std::size_t{50} << 20;
  const auto trims = from_fake<int()>("fake_cuda_trims")();
  keep(true);
  // On the stream itself, as there is no other one yet: the next one has to wait for it.
  (void)*context->stream().allocate(most_of_it);
  auto side = context->make_stream();
  {
    const auto buffer = side->allocate(most_of_it);
    CHECK(buffer);
    CHECK(from_fake<int()>("fake_cuda_trims")() == trims + 1);
  }
  // Behind all work, as there are two.
  CHECK(context->stream().allocate(most_of_it));
  keep(false);
}

TEST_CASE("the workspace of products is had although memory is being freed behind work") {
  const auto keep = [](bool frees) { from_fake<void(bool)>("fake_cuda_keep_frees")(frees); };
  const auto context = *Context::open(make_cuda_device(), {Share{5000}, std::uint64_t{64} << 20, "test", nullptr});
  auto& stream = context->stream();
  keep(true);
  // Together, and with a workspace, more than the pool has.
  for (int i = 0; i < 2; ++i)
    (void)*stream.allocate(std::size_t{45} << 20);
  auto a = *stream.tensor_from(std::vector<float>(64, 1.0F), {8, 8});
  auto b = *stream.tensor(DType::f32, {8, 8});
  CHECK(stream.gemm(a, a, b));
  CHECK((*stream.to_host<float>(b))[0] == 8.0F);
  keep(false);
}

TEST_CASE("handles of cuBLAS are made for products that start at once, and end with the device") {
  const auto created = from_fake<int()>("fake_cublas_created");
  const auto destroyed = from_fake<int()>("fake_cublas_destroyed");
  const auto before = created();
  const auto gone = destroyed();
  {
    const auto device = make_cuda_device();
    const auto multiply = [&](Share share) {
      const auto context = *Context::open(device, {share, std::uint64_t{64} << 20, "test", nullptr});
      auto a = *context->stream().tensor_from(std::vector<float>(64, 1.0F), {8, 8});
      auto b = *context->stream().tensor(DType::f32, {8, 8});
      for (int i = 0; i < 50; ++i)
        if (!context->stream().gemm(a, a, b) || (*context->stream().to_host<float>(b))[0] != 8.0F)
          return false;
      return true;
    };
    CHECK(multiply(Share{5000}));
    CHECK(multiply(Share::whole(1)));
    CHECK(created() == before + 1);
    std::atomic<int> right{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] { right += multiply(Share{2500}) ? 1 : 0; });
    for (auto& thread : threads)
      thread.join();
    CHECK(right == 4);
    CHECK(created() <= before + 4);
    // To end one waits for the whole device: nobody who leaves does that to the others.
    CHECK(destroyed() == gone);
  }
  CHECK(destroyed() - gone == created() - before);
}

TEST_CASE("the driver is started with all hardware queues that a context can have") {
  (void)make_cuda_device();
  CHECK(from_fake<const char*()>("fake_cuda_queues")() == std::string{"32"});
}

TEST_CASE("a number of hardware queues that somebody has set stays", "[.][queues_own]") {
  (void)make_cuda_device();
  CHECK(from_fake<const char*()>("fake_cuda_queues")() == std::string{"4"});
}

TEST_CASE("under MPS hardware queues are not asked for", "[.][queues_mps]") {
  (void)make_cuda_device();
  CHECK(from_fake<const char*()>("fake_cuda_queues")() == std::string{});
}

TEST_CASE("a product that fails because the context is lost says so") {
  {
    const auto device = make_cuda_device();
    auto context = Context::open(device, {Share{5000}, std::uint64_t{64} << 20, "test", nullptr});
    REQUIRE(context);
    auto& stream = (*context)->stream();
    auto a = stream.tensor_from(std::vector<float>(64, 1.0F), {8, 8});
    auto b = stream.tensor(DType::f32, {8, 8});
    REQUIRE(stream.gemm(*a, *a, *b));
    set_broken(700);
    const auto failed = stream.gemm(*a, *a, *b);
    REQUIRE_FALSE(failed);
    CHECK(failed.error().code() == Errc::context_lost);
    CHECK((*context)->lost());
  }
  set_broken(0);
  CHECK(live() == 0);
}

TEST_CASE("after a sticky error every call fails with context_lost, and pending notifications come once") {
  {
    const auto device = make_cuda_device();
    auto context = Context::open(device, {Share{5000}, std::uint64_t{64} << 20, "test", nullptr});
    REQUIRE(context);
    auto& stream = (*context)->stream();
    auto buffer = stream.allocate(1000);
    REQUIRE(buffer);
    std::promise<void> go;
    auto until = go.get_future().share();
    std::promise<Result<void>> told;
    std::atomic<int> times{0};
    // Held up on the poller's thread until the context is lost; nothing can be told before.
    REQUIRE(stream.notify([until](Result<void>) { until.wait(); }));
    REQUIRE(stream.notify([&](Result<void> result) {
      if (++times == 1)
        told.set_value(std::move(result));
    }));
    REQUIRE(stream.fill_bytes(buffer->data(), 1, 1000));
    std::promise<Result<void>> last;
    REQUIRE(stream.notify([&](Result<void> result) { last.set_value(std::move(result)); }));
    set_broken(700);
    const auto failed = stream.synchronize();
    REQUIRE_FALSE(failed);
    CHECK(failed.error()
          == Error{Errc::context_lost, "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700) on device 0"});
    go.set_value();
    (void)told.get_future().get();
    (void)last.get_future().get();
    CHECK(times == 1);
    CHECK(stream.fill_bytes(buffer->data(), 1, 1000).error().code() == Errc::context_lost);
    CHECK(stream.allocate(1000).error().code() == Errc::context_lost);
    CHECK(stream.notify([](Result<void>) {}).error().code() == Errc::context_lost);
    CHECK((*context)->make_stream().error().code() == Errc::context_lost);
    CHECK(device->open({}).error().code() == Errc::context_lost);
    CHECK((*context)->reclaim().error().code() == Errc::context_lost);
    CHECK((*context)->memory_used() == 0);
  }
  set_broken(0);
  CHECK(live() == 0);
}

TEST_CASE("once a context is lost nobody asks the driver any more, whatever it would say") {
  {
    const auto device = make_cuda_device();
    const auto backend = *device->open({Share{5000}, std::uint64_t{64} << 20, nullptr});
    const auto stream = *backend->make_stream();
    const auto event = *backend->make_event();
    auto* const memory = *backend->allocate(512, stream);
    set_broken(700);
    CHECK(backend->synchronize(stream).error().code() == Errc::context_lost);
    set_broken(0);
    const auto is_lost = [](const auto& result) { return !result && result.error().code() == Errc::context_lost; };
    CHECK(is_lost(backend->allocate(512, stream)));
    CHECK(is_lost(backend->copy(memory, memory, 0, CopyKind::device_to_device, stream)));
    CHECK(is_lost(backend->copy_from(*device, memory, memory, 0, stream)));
    CHECK(is_lost(backend->fill(memory, 0, 512, stream)));
    CHECK(is_lost(backend->record(event, stream)));
    CHECK(is_lost(backend->wait(stream, event)));
    CHECK(is_lost(backend->notify(stream, [](const Result<void>&) {})));
    CHECK(is_lost(backend->make_stream()));
    CHECK(is_lost(backend->make_event()));
    backend->free(memory, stream);
    backend->destroy_event(event);
    backend->destroy_stream(stream);
  }
  CHECK(live() == 0);
}
