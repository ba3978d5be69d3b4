// On the fake driver: what comes after what, on which thread, and what may still come when all is over.
#include <gpuactors/base/clock.hpp>
#include <gpuactors/device/context.hpp>

#include <support/eventually.hpp>

#include <device/closed_gate.hpp>
#include <device/fake_driver.hpp>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace gpuactors;
using namespace gpuactors::test;

namespace {

constexpr int refused = 400;
constexpr std::int64_t side_length = 24;

std::unique_ptr<Context> open_half(const std::shared_ptr<Device>& device) {
  return *Context::open(device, {Share{5000}, std::uint64_t{64} << 20, "test", nullptr});
}

std::unique_ptr<Context> open_part(const std::shared_ptr<Device>& device) {
  return *Context::open(device, {Share{1000}, std::uint64_t{64} << 20, "test", nullptr});
}

/// How many there were on that stream so far; null: on all.
int host_functions(void* stream = nullptr) {
  return from_fake<int(void*)>("fake_cuda_host_functions")(stream);
}

int records() {
  return from_fake<int()>("fake_cuda_records")();
}

/// A matrix that each product with `twice` doubles.
struct Doubling {
  explicit Doubling(Stream& stream)
    : x(*stream.tensor_from(std::vector<float>(side_length * side_length, 1.0F), {side_length, side_length})),
      y(*stream.tensor(DType::f32, {side_length, side_length})) {
    std::vector<float> diagonal(side_length * side_length, 0.0F);
    for (std::int64_t i = 0; i < side_length; ++i)
      diagonal[static_cast<std::size_t>(i * (side_length + 1))] = 2.0F;
    twice = *stream.tensor_from(diagonal, {side_length, side_length});
    REQUIRE(stream.synchronize());
  }

  /// Two products, each of what the other one has made, that nothing orders but that they are products.
  void step(Stream& one, Stream& other) {
    REQUIRE(one.gemm(x, twice, y));
    REQUIRE(other.gemm(y, twice, x));
  }

  Tensor x;
  Tensor y;
  Tensor twice;
};

constexpr std::size_t too_large_to_keep = std::size_t{257} << 20;

/// Whether a thread of this process waits for something.
bool sleeps(pid_t thread) {
  std::ifstream file{"/proc/self/task/" + std::to_string(thread) + "/stat"};
  std::string line;
  std::getline(file, line);
  return line.find(") S ") != std::string::npos;
}

} // namespace

TEST_CASE("products on the only stream of a context record no events") {
  const auto context = open_half(make_cuda_device());
  auto& stream = context->stream();
  Doubling matrix{stream};
  matrix.step(stream, stream);
  const auto before = records();
  for (int i = 0; i < 9; ++i)
    matrix.step(stream, stream);
  CHECK(records() == before);
  CHECK((*stream.to_host<float>(matrix.x))[0] == static_cast<float>(1 << 20));
}

TEST_CASE("who frees what is left waits for streams, unless the only one was waited for and has got nothing since") {
  const auto context = open_half(make_cuda_device());
  auto& stream = context->stream();
  const auto waits = [&] {
    const Fault fault{"cuStreamSynchronize", refused};
    return !context->reclaim();
  };
  const std::vector<float> values(side_length, 1.0F);
  auto x = *stream.tensor_from(values);
  CHECK_FALSE(waits());
  x = *stream.tensor(DType::f32, {side_length});
  REQUIRE(stream.upload(x, values));
  CHECK(waits());
  x = *stream.tensor(DType::f32, {side_length});
  REQUIRE(stream.upload(x, values));
  CHECK(*stream.to_host<float>(x) == values);
  CHECK_FALSE(waits());
  auto side = *context->make_stream();
  REQUIRE(stream.synchronize());
  REQUIRE(side.synchronize());
  CHECK(waits());
}

TEST_CASE("who frees what is left waits for a stream that somebody has a handle of") {
  const auto context = open_half(make_cuda_device());
  auto& stream = context->stream();
  REQUIRE(stream.native());
  REQUIRE(stream.synchronize());
  const Fault fault{"cuStreamSynchronize", refused};
  CHECK_FALSE(context->reclaim());
}

TEST_CASE("products of two streams take turns, whichever has begun") {
  const auto context = open_half(make_cuda_device());
  auto& stream = context->stream();
  Doubling matrix{stream};
  const auto gate = close_gate();
  REQUIRE(stream.launch(gate, {}, {std::uint64_t{0}}));
  // Behind the gate, before there is another stream.
  matrix.step(stream, stream);
  auto side = context->make_stream();
  REQUIRE(side);
  for (int i = 0; i < 9; ++i)
    matrix.step(stream, *side);
  open_gate();
  CHECK((*side->to_host<float>(matrix.x))[0] == static_cast<float>(1 << 20));
}

TEST_CASE("products of a graph and those of another stream take turns, whichever has begun") {
  const auto context = open_half(make_cuda_device());
  auto& stream = context->stream();
  Doubling matrix{stream};
  matrix.step(stream, stream);
  const auto gate = close_gate();
  REQUIRE(stream.launch(gate, {}, {std::uint64_t{0}}));
  const auto forth = stream.capture([&] { return stream.gemm(matrix.x, matrix.twice, matrix.y); });
  REQUIRE(forth);
  auto side = context->make_stream();
  REQUIRE(side);
  // All of it behind the gate, and nothing orders the two but that they are products.
  for (int i = 0; i < 9; ++i) {
    REQUIRE(stream.launch(*forth));
    REQUIRE(side->gemm(matrix.y, matrix.twice, matrix.x));
  }
  open_gate();
  CHECK((*side->to_host<float>(matrix.x))[0] == static_cast<float>(1 << 20));
}

TEST_CASE("memory that is dropped while a stream is captured is freed behind the work from before, and not sooner") {
  const auto context = open_half(make_cuda_device());
  auto& stream = context->stream();
  const auto keep = [](bool frees) { from_fake<void(bool)>("fake_cuda_keep_frees")(frees); };
  keep(true);
  auto dropped = *stream.tensor(DType::u8, {50 << 20});
  auto x = *stream.tensor_from(std::vector<float>(16, 1.0F));
  const auto gate = close_gate();
  REQUIRE(stream.launch(gate, {}, {std::uint64_t{0}}));
  auto side = context->make_stream();
  REQUIRE(side);
  const auto graph = stream.capture([&] {
    dropped = Tensor{};
    return stream.copy(x, x);
  });
  REQUIRE(graph);
  // There is no room for 50 MiB more before the gate is open; who asks waits for it.
  auto asked = std::async(std::launch::async, [&] {
    const auto again = side->tensor(DType::u8, {50 << 20});
    return again.has_value();
  });
  CHECK(asked.wait_for(std::chrono::milliseconds{50}) == std::future_status::timeout);
  open_gate();
  CHECK(asked.get());
  CHECK(stream.synchronize());
  keep(false);
}

TEST_CASE("products of two streams take turns although the driver refuses to order them") {
  const auto context = open_half(make_cuda_device());
  auto& stream = context->stream();
  auto side = context->make_stream();
  REQUIRE(side);
  Doubling matrix{stream};
  matrix.step(stream, *side);
  {
    const Fault fault{"cuEventRecord", refused};
    for (int i = 0; i < 8; ++i)
      matrix.step(stream, *side);
  }
  matrix.step(stream, *side);
  CHECK((*side->to_host<float>(matrix.x))[0] == static_cast<float>(1 << 20));
}

TEST_CASE("a product waits for no work of another stream but products") {
  const auto context = open_half(make_cuda_device());
  auto& stream = context->stream();
  Doubling matrix{stream};
  matrix.step(stream, stream);
  auto side = context->make_stream();
  REQUIRE(side);
  const auto gate = close_gate();
  REQUIRE(stream.launch(gate, {}, {std::uint64_t{0}}));
  matrix.step(*side, *side);
  CHECK(side->synchronize());
  open_gate();
  CHECK((*stream.to_host<float>(matrix.x))[0] == 16.0F);
}

TEST_CASE("a product needs nothing of the stream of the last one when that has ended") {
  const auto device = make_cuda_device();
  const auto backend = *device->open({Share{5000}, std::uint64_t{64} << 20, nullptr});
  const auto stays = *backend->make_stream();
  const auto goes = *backend->make_stream();
  auto* const memory = *backend->allocate(512, stays);
  REQUIRE(backend->synchronize(stays));
  Gemm product;
  product.m = product.n = product.k = product.lda = product.ldb = product.ldc = 8;
  product.a = product.b = memory;
  product.c = *backend->allocate(512, stays);
  REQUIRE(backend->fill(memory, 0, 512, stays));
  {
    const Fault fault{"cuEventRecord", refused};
    REQUIRE(backend->gemm(product, goes));
  }
  backend->destroy_stream(goes);
  CHECK(backend->gemm(product, stays));
  backend->free(memory, stays);
  backend->free(product.c, stays);
  backend->destroy_stream(stays);
}

TEST_CASE("memory is unpinned where nobody waits for it, not by who drops it") {
  {
    const auto device = make_cuda_device();
    const auto context = open_half(device);
    const auto unpinned_here = from_fake<int()>("fake_cuda_unpinned_here");
    const auto before = unpinned_here();
    {
      const auto buffer = context->host_buffer(too_large_to_keep);
      REQUIRE(buffer);
    }
    CHECK(unpinned_here() == before);
    auto buffer = context->host_buffer(too_large_to_keep);
    REQUIRE(buffer);
    std::promise<int> by_notifier;
    REQUIRE(context->stream().notify(
        [held = std::make_shared<HostBuffer>(std::move(*buffer)), unpinned_here, &by_notifier](const Result<void>&) {
          *held = HostBuffer{};
          by_notifier.set_value(unpinned_here());
        }));
    CHECK(by_notifier.get_future().get() == 0);
  }
  CHECK(live() == 0);
}

TEST_CASE(
    "a small result is fetched by way of pinned memory, for the driver itself waits in copies to ordinary memory") {
  const auto context = open_half(make_cuda_device());
  const auto waiting_copies = from_fake<int()>("fake_cuda_waiting_copies");
  auto& stream = context->stream();
  const std::vector<float> few{1, 2, 3};
  const auto small = stream.tensor_from(few);
  const auto before = waiting_copies();
  CHECK(*stream.to_host<float>(*small) == few);
  CHECK(waiting_copies() == before);
  const std::vector<float> many(300'000, 0.5F);
  const auto large = stream.tensor_from(many);
  CHECK(*stream.to_host<float>(*large) == many);
  CHECK(waiting_copies() == before + 1);
}

TEST_CASE("pinned memory that is on its way out is waited for where there is none left") {
  const auto context = open_half(make_cuda_device());
  const auto limit = from_fake<void(std::size_t)>("fake_cuda_limit_pinned");
  limit(too_large_to_keep + (too_large_to_keep >> 1));
  {
    const auto buffer = context->host_buffer(too_large_to_keep);
    CHECK(buffer);
  }
  CHECK(context->host_buffer(too_large_to_keep));
  const auto both = context->host_buffer(2 * too_large_to_keep);
  limit(0);
  REQUIRE_FALSE(both);
  CHECK(both.error().code() == Errc::out_of_memory);
}

TEST_CASE("who takes pinned memory faster than it can be let go of waits") {
  const auto context = open_half(make_cuda_device());
  const auto hold = from_fake<void(bool)>("fake_cuda_hold_unpinning");
  const auto most = from_fake<std::size_t()>("fake_cuda_most_pinned");
  (void)most();
  hold(true);
  for (int i = 0; i < 2; ++i)
    CHECK(context->host_buffer(too_large_to_keep));
  CHECK(most() == 2 * too_large_to_keep);
  const auto taker = ::gettid();
  std::thread releaser{[&] {
    (void)test::eventually([&] { return sleeps(taker) || most() > 2 * too_large_to_keep; });
    hold(false);
  }};
  CHECK(context->host_buffer(too_large_to_keep));
  const auto at_once = most();
  releaser.join();
  CHECK(at_once <= 2 * too_large_to_keep);
}

TEST_CASE("the end of a context waits for nothing of others that is on its way out") {
  std::promise<void> goes;
  const auto let_go = goes.get_future().share();
  const auto device = make_cuda_device();
  auto context = open_half(device);
  device->dispose(std::shared_ptr<void>{&goes, [let_go](void*) { let_go.wait(); }});
  auto ended = std::async(std::launch::async, [&] { context.reset(); });
  CHECK(ended.wait_for(std::chrono::seconds{10}) == std::future_status::ready);
  goes.set_value();
}

TEST_CASE("what is behind a notification waits for nobody but the work before it") {
  const auto context = open_half(make_cuda_device());
  const auto hold = from_fake<void(bool)>("fake_cuda_hold_host_functions");
  auto& stream = context->stream();
  const auto before = host_functions();
  hold(true);
  const auto gate = close_gate();
  REQUIRE(stream.launch(gate, {}, {std::uint64_t{0}}));
  std::promise<void> told;
  REQUIRE(stream.notify([&](const Result<void>&) { told.set_value(); }));
  auto x = stream.tensor(DType::u8, {16});
  REQUIRE(x);
  REQUIRE(stream.fill_bytes(*x, 1));
  CHECK(test::eventually([&] { return host_functions() > before; }));
  open_gate();
  // By its own look, for the driver calls nobody.
  told.get_future().wait();
  CHECK(stream.synchronize());
  CHECK(host_functions(stream.native()->handle()) == 0);
  hold(false);
}

TEST_CASE("the driver is asked to tell of what takes long, once each, and of nothing else") {
  const auto context = open_half(make_cuda_device());
  auto& stream = context->stream();
  const auto before = host_functions();
  const auto gate = close_gate();
  REQUIRE(stream.launch(gate, {}, {std::uint64_t{0}}));
  std::promise<void> told;
  REQUIRE(stream.notify([](const Result<void>&) {}));
  REQUIRE(stream.notify([&](const Result<void>&) { told.set_value(); }));
  CHECK(test::eventually([&] { return host_functions() > before; }));
  // Others of the device, at the same time: each by its own stream, as far as there are some.
  std::vector<std::unique_ptr<Context>> others;
  std::vector<std::promise<void>> all(6);
  for (auto& one : all) {
    others.push_back(open_part(context->device_handle()));
    auto& busy = others.back()->stream();
    REQUIRE(busy.wait(stream));
    REQUIRE(busy.notify([&](const Result<void>&) { one.set_value(); }));
  }
  CHECK(test::eventually([&] { return host_functions() == before + 4; }));
  open_gate();
  told.get_future().wait();
  for (auto& one : all)
    one.get_future().wait();
  CHECK(host_functions(stream.native()->handle()) == 0);
}

TEST_CASE("however many notifications come, looking at those that are pending takes a 16th of the time at most") {
  const auto context = open_half(make_cuda_device());
  auto& busy = context->stream();
  REQUIRE(busy.launch(close_gate(), {}, {std::uint64_t{0}}));
  std::promise<void> told;
  REQUIRE(busy.notify([&](const Result<void>&) { told.set_value(); }));
  auto other = context->make_stream();
  REQUIRE(other);
  const auto slow = from_fake<void(bool)>("fake_cuda_slow_queries");
  const auto in_vain = [] { return from_fake<std::uint64_t()>("fake_cuda_vain_queries")(); };
  slow(true);
  constexpr std::uint64_t count = 3'000;
  std::atomic<std::uint64_t> heard{0};
  const auto before = in_vain();
  const auto start = Clock::now();
  for (std::uint64_t i = 0; i < count; ++i)
    REQUIRE(other->notify([&](const Result<void>&) { ++heard; }));
  CHECK(test::eventually([&] { return heard == count; }));
  // Each look asks in vain once a stream at most, which takes 0.2 ms.
  const auto looks = static_cast<std::uint64_t>((Clock::now() - start) / (16 * std::chrono::microseconds{200})) + 2;
  CHECK(in_vain() - before <= 2 * looks);
  slow(false);
  open_gate();
  told.get_future().wait();
}

TEST_CASE("a notification comes although the driver refuses to tell") {
  const auto context = open_half(make_cuda_device());
  auto& stream = context->stream();
  const auto before = host_functions();
  for (const char* refusing : {"cuStreamCreate", "cuStreamWaitEvent", "cuLaunchHostFunc"}) {
    const Fault fault{refusing, refused};
    REQUIRE(stream.launch(close_gate(), {}, {std::uint64_t{0}}));
    std::promise<void> told;
    const auto start = Clock::now();
    REQUIRE(stream.notify([&](const Result<void>&) { told.set_value(); }));
    while (Clock::now() - start < std::chrono::milliseconds{5})
      std::this_thread::yield();
    open_gate();
    told.get_future().wait();
  }
  CHECK(host_functions() == before);
}

TEST_CASE("after a sticky error the driver may call back when the device has gone") {
  auto device = make_cuda_device();
  const auto hold = from_fake<void(bool)>("fake_cuda_hold_host_functions");
  const auto set_sticky = from_fake<void(int)>("fake_cuda_break");
  hold(true);
  {
    const auto context = open_half(device);
    const auto before = host_functions();
    REQUIRE(context->stream().launch(close_gate(), {}, {std::uint64_t{0}}));
    std::promise<void> told;
    REQUIRE(context->stream().notify([&](const Result<void>&) { told.set_value(); }));
    CHECK(test::eventually([&] { return host_functions() > before; }));
    set_sticky(700);
    open_gate();
    CHECK(context->stream().synchronize().error().code() == Errc::context_lost);
    told.get_future().wait();
  }
  device.reset();
  set_sticky(0);
  CHECK(live() == 0);
  CHECK_NOTHROW(hold(false));
}
