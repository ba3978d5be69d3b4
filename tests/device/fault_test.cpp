// Faults at every point: whatever call fails, nothing is left behind and the quota is whole again.
#include <gpuactors/device/context.hpp>
#include <gpuactors/device/faulty.hpp>
#include <gpuactors/device/host/device.hpp>
#include <gpuactors/kernels/elementwise.hpp>

#include <support/catch.hpp>

#include <atomic>
#include <future>

using namespace gpuactors;
using faulty::Call;

namespace {

struct Bench {
  std::shared_ptr<faulty::Plan> plan = std::make_shared<faulty::Plan>();
  std::shared_ptr<host::HostDevice> host;
  std::shared_ptr<faulty::FaultyDevice> device;
  std::shared_ptr<Quota> lease = std::make_shared<Quota>("lease", 1 << 20);

  Bench() {
    DeviceInfo info;
    info.units = 2;
    info.memory_bytes = 16 << 20;
    host = std::make_shared<host::HostDevice>(std::move(info));
    device = std::make_shared<faulty::FaultyDevice>(host, plan);
  }

  [[nodiscard]] std::uint64_t host_used() const {
    const auto memory = host->memory();
    return memory->total_bytes - memory->free_bytes;
  }
};

/// Memory that no host device has.
struct NoMemory final : SharedMemory {
  [[nodiscard]] void* data() const noexcept override {
    return nullptr;
  }

  [[nodiscard]] std::size_t footprint() const noexcept override {
    return 256;
  }

  [[nodiscard]] int descriptor() const noexcept override {
    return -1;
  }
};

template <class T>
Result<void> unless_unsupported(const Result<T>& result) {
  if (result || result.error().code() == Errc::unsupported)
    return {};
  return fail(result.error());
}

/// Makes the calls that host devices answer with `unsupported`: a plan can make them fail all the same.
Result<void> ask_for_too_much(Bench& bench, Context& context, Tensor& tensor) {
  auto& stream = context.stream();
  GPUACTORS_TRY(unless_unsupported(stream.copy_from(*bench.host, tensor.raw(), tensor.raw(), tensor.bytes())));
  GPUACTORS_TRY(unless_unsupported(stream.native()));
  GPUACTORS_TRY(unless_unsupported(context.compile({"source", "name"})));
  GPUACTORS_TRY(unless_unsupported(stream.attach(std::make_shared<NoMemory>(), DType::u8, {1})));
  GPUACTORS_TRY(unless_unsupported(bench.device->shared_footprint(1)));
  GPUACTORS_TRY(unless_unsupported(bench.device->make_shared_memory(1)));
  return unless_unsupported(bench.device->open_shared_memory(-1, 1));
}

/// A small program that uses every kind of call, and holds things while it goes on.
Result<float> program(Bench& bench, Tensor& pinned) {
  GPUACTORS_LET(context, Context::open(bench.device, {Share::whole(1), 1 << 20, "program", bench.lease}));
  auto& stream = context->stream();
  GPUACTORS_LET(side, context->make_stream());
  GPUACTORS_LET(a, stream.tensor_from(std::vector<float>{1, 2, 3, 4}, {2, 2}));
  GPUACTORS_LET(b, stream.tensor(DType::f32, {2, 2}));
  GPUACTORS_TRY(stream.zero(b));
  GPUACTORS_TRY(stream.gemm(a, a, b));
  GPUACTORS_TRY(side.wait(stream));
  GPUACTORS_TRY(side.launch(kernels::polynomial_f32, 4, b.data<float>(), a.data<float>()));
  GPUACTORS_TRY(stream.wait(side));
  GPUACTORS_LET(graph, stream.capture([&] { return stream.copy(b, b); }));
  GPUACTORS_TRY(stream.launch(graph));
  GPUACTORS_TRY(context->host_buffer(100));
  GPUACTORS_TRY(ask_for_too_much(bench, *context, b));
  pinned = b.pinned();
  GPUACTORS_LET(forgotten, stream.allocate(1000));
  forgotten.release();
  GPUACTORS_TRY(stream.notify([](Result<void>) {}));
  GPUACTORS_LET(values, stream.to_host<float>(a));
  GPUACTORS_TRY(context->reclaim());
  GPUACTORS_LET(again, stream.tensor_from(std::vector<float>{values[0]}, {1}));
  GPUACTORS_LET(last, stream.to_host<float>(again));
  return last[0];
}

} // namespace

TEST_CASE("whichever call fails, nothing leaks and the error is the one that was injected") {
  Bench bench;
  Tensor pinned;
  REQUIRE(*program(bench, pinned) == 64);
  const auto points = bench.plan->calls();
  REQUIRE(points > 20);
  // One point more than there are calls: the program succeeds then, so all points were tried.
  for (std::uint64_t point = 1; point <= points + 1; ++point) {
    INFO("the call that fails is number " << point << " of " << points);
    pinned = {};
    bench.plan->reset();
    bench.plan->fail_at_point(point, Error{Errc::copy_failed, "injected"});
    const auto result = program(bench, pinned);
    if (!result)
      CHECK(result.error() == Error{Errc::copy_failed, "injected"});
    else
      CHECK(*result == 64);
    // At the end the program waits for its two streams, twice; by then it has its result.
    CHECK(result.has_value() == (point > points - 4));
    pinned = {};
    CHECK(bench.plan->held() == faulty::Held{});
    CHECK(bench.lease->used() == 0);
    CHECK(bench.host_used() == 0);
  }
}

TEST_CASE("whichever call loses the context, all later calls fail and nothing leaks") {
  Bench bench;
  for (std::size_t kind = 0; kind < faulty::call_kinds; ++kind) {
    const auto call = static_cast<Call>(kind);
    INFO(to_string(call));
    bench.plan->reset();
    bench.plan->lose_context_at(call, 1);
    Tensor pinned;
    const auto result = program(bench, pinned);
    // The program asks neither for the device's memory nor for an event's state.
    CHECK(result.has_value() == (call == Call::memory || call == Call::query));
    if (!result)
      CHECK(result.error().code() == Errc::context_lost);
    pinned = {};
    CHECK(bench.plan->held() == faulty::Held{});
    CHECK(bench.lease->used() == 0);
  }
}

TEST_CASE("a failed allocation gives its reservation back") {
  Bench bench;
  auto context = Context::open(bench.device, {Share::whole(1), 1 << 20, "program", bench.lease});
  REQUIRE(context);
  bench.plan->fail_from(Call::allocate, 1, Error{Errc::out_of_memory, "the device has none"});
  for (int i = 0; i < 3; ++i)
    CHECK((*context)->stream().allocate(1 << 19).error().message() == "the device has none");
  CHECK((*context)->memory_used() == 0);
  bench.plan->reset();
  CHECK((*context)->stream().allocate(1 << 20));
}

TEST_CASE("reclaim reports the error of outstanding work and frees all the same") {
  Bench bench;
  auto context = Context::open(bench.device, {Share::whole(1), 1 << 20, "program", bench.lease});
  REQUIRE(context);
  auto kept = (*context)->stream().allocate(1000);
  bench.plan->fail_at(Call::synchronize, 1, Error{Errc::launch_failed, "the work failed"});
  const auto reclaimed = (*context)->reclaim();
  REQUIRE_FALSE(reclaimed);
  CHECK(reclaimed.error().message() == "the work failed");
  CHECK((*context)->memory_used() == 0);
  CHECK(kept->data() == nullptr);
}

TEST_CASE("a notification that is pending when the context is lost comes once, with context_lost") {
  Bench bench;
  auto context = Context::open(bench.device, {Share::whole(1), 1 << 20, "program", nullptr});
  REQUIRE(context);
  std::promise<Result<void>> told;
  std::atomic<int> times{0};
  bench.plan->lose_context_at(Call::fill, 1);
  auto buffer = (*context)->stream().allocate(100);
  REQUIRE(buffer);
  REQUIRE_FALSE((*context)->stream().fill_bytes(buffer->data(), 1, 100));
  CHECK((*context)->stream().notify([](Result<void>) {}).error().code() == Errc::context_lost);
  bench.plan->reset();
  std::promise<void> go;
  auto gone = go.get_future().share();
  // The work is held up until the context is lost.
  REQUIRE((*context)->stream().notify([gone](Result<void>) { gone.wait(); }));
  REQUIRE((*context)->stream().notify([&](Result<void> result) {
    ++times;
    told.set_value(std::move(result));
  }));
  bench.plan->lose_context_at(Call::memory, 1);
  CHECK_FALSE(bench.device->memory());
  go.set_value();
  CHECK(told.get_future().get().error().code() == Errc::context_lost);
  context->reset();
  CHECK(times == 1);
}

TEST_CASE("a delayed call waits for what the test says") {
  Bench bench;
  auto context = Context::open(bench.device, {Share::whole(1), 1 << 20, "program", nullptr});
  REQUIRE(context);
  bool ran = false;
  bench.plan->delay(Call::allocate, 2, [&] { ran = true; });
  auto first = (*context)->stream().allocate(1);
  CHECK_FALSE(ran);
  auto second = (*context)->stream().allocate(1);
  CHECK(ran);
  CHECK(bench.plan->calls(Call::allocate) == 2);
}
