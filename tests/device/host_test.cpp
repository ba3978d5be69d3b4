// What only the host device promises: its threads, its memory, its errors.
#include <gpuactors/device/context.hpp>
#include <gpuactors/device/host/blas.hpp>
#include <gpuactors/device/host/device.hpp>
#include <gpuactors/kernels/elementwise.hpp>

#include <support/catch.hpp>
#include <support/no_threads.hpp>

#include <atomic>
#include <cmath>
#include <future>
#include <mutex>
#include <random>
#include <stdexcept>
#include <system_error>
#include <thread>

using namespace gpuactors;

namespace {

std::shared_ptr<host::HostDevice> make_device(int units, std::uint64_t memory_bytes = 64 << 20) {
  DeviceInfo info;
  info.units = units;
  info.memory_bytes = memory_bytes;
  return std::make_shared<host::HostDevice>(std::move(info));
}

std::unique_ptr<Context> open(const std::shared_ptr<host::HostDevice>& device, std::int64_t share) {
  auto context = Context::open(device, {Share{share}, 0, "test", nullptr});
  REQUIRE(context);
  return std::move(*context);
}

/// Counts how many threads are inside at once.
struct Census {
  std::atomic<int> inside{0};
  std::atomic<int> most{0};

  void visit() {
    const auto now = ++inside;
    auto seen = most.load();
    while (seen < now && !most.compare_exchange_weak(seen, now)) {
      // nop
    }
    for (int i = 0; i < 5; ++i)
      std::this_thread::yield();
    --inside;
  }
};

struct Visit {
  void operator()(std::uint64_t, Census* census) const {
    census->visit();
  }
};

struct Throw {
  void operator()(std::uint64_t i, std::uint64_t at) const {
    if (i == at)
      throw std::runtime_error("index " + std::to_string(at));
  }
};

struct Await {
  void operator()(std::uint64_t, std::shared_future<void>* until) const {
    until->wait();
  }
};

struct Tell {
  void operator()(std::uint64_t, std::promise<void>* done) const {
    done->set_value();
  }
};

template <class F>
KernelOf<F> kernel(const char* name) {
  return {{name, &detail::run_on_host<F>, nullptr}};
}

} // namespace

TEST_CASE("a share of the cores is rounded down, but never to none") {
  CHECK(host::threads_for_share(Share::whole(1), 8) == 8);
  CHECK(host::threads_for_share(Share{5000}, 8) == 4);
  CHECK(host::threads_for_share(Share{5000}, 3) == 1);
  CHECK(host::threads_for_share(Share{9999}, 4) == 3);
  CHECK(host::threads_for_share(Share{1}, 64) == 1);
  CHECK(host::threads_for_share(Share{1}, 1) == 1);
}

TEST_CASE("a context never works on more threads than it was granted, all its streams together") {
  auto device = make_device(4);
  for (const std::int64_t share : {2500, 5000, 10'000}) {
    auto context = open(device, share);
    const auto threads = context->granted().units;
    CHECK(threads == static_cast<int>(share * 4 / 10'000));
    Census census;
    const auto visit = kernel<Visit>("visit");
    std::vector<Stream> streams;
    for (int i = 0; i < 6; ++i)
      streams.push_back(*context->make_stream());
    for (int round = 0; round < 3; ++round)
      for (auto& stream : streams)
        REQUIRE(stream.launch(visit, 64, &census));
    for (auto& stream : streams)
      REQUIRE(stream.synchronize());
    CHECK(census.most <= threads);
    CHECK(census.most >= 1);
  }
}

TEST_CASE("a context whose work is stuck keeps no neighbour from working") {
  auto device = make_device(1);
  auto stuck = open(device, 5000);
  auto neighbour = open(device, 5000);
  std::promise<void> go;
  auto until = go.get_future().share();
  REQUIRE(stuck->stream().launch(kernel<Await>("await"), 1, &until));
  std::promise<Result<void>> told;
  auto x = neighbour->stream().tensor_from(std::vector<float>{1}, {1});
  REQUIRE(x);
  // Nobody helps by waiting: the device's own threads have to do it.
  REQUIRE(neighbour->stream().launch(kernels::scale_f32, 1, 3.0F, x->data<float>()));
  REQUIRE(neighbour->stream().notify([&](Result<void> result) { told.set_value(std::move(result)); }));
  CHECK(told.get_future().get());
  go.set_value();
  CHECK(stuck->stream().synchronize());
}

TEST_CASE("work that nobody waits for is done, whether the device's threads sleep, look, leave or are stuck") {
  // All that kernels use outlives the contexts.
  std::vector<std::unique_ptr<std::promise<void>>> promises;
  std::promise<void> go;
  auto until = go.get_future().share();
  const auto tell = kernel<Tell>("tell");
  auto device = make_device(4);
  std::vector<std::unique_ptr<Context>> contexts;
  for (int i = 0; i < 4; ++i)
    contexts.push_back(open(device, 2500));
  std::minstd_rand random{7};
  const auto queue = [&](Context& context) {
    auto& done = *promises.emplace_back(std::make_unique<std::promise<void>>());
    REQUIRE(context.stream().launch(tell, 1, &done));
    return done.get_future();
  };
  for (int round = 0; round < 300; ++round) {
    auto& context = contexts[random() % 3 + 1];
    if (random() % 2 == 0)
      REQUIRE(context->stream().synchronize());
    auto done = queue(*context);
    // In between: a thread gets work that does not end, or leaves, as fewer are wanted.
    if (round == 100)
      REQUIRE(contexts[0]->stream().launch(kernel<Await>("await"), 1, &until));
    if (round > 200 && random() % 4 == 0) {
      auto& other = contexts[random() % 3 + 1];
      if (&other != &context) {
        other = nullptr;
        other = open(device, 2500);
      }
    }
    INFO("round " << round);
    REQUIRE(done.wait_for(std::chrono::seconds{20}) == std::future_status::ready);
  }
  go.set_value();
}

TEST_CASE("work that nobody waits for is done on each stream of a context, also behind a stream that is stuck") {
  auto device = make_device(4);
  auto context = open(device, 10'000);
  for (int round = 0; round < 20; ++round) {
    std::promise<void> go;
    auto until = go.get_future().share();
    std::vector<std::promise<void>> promises(3);
    std::vector<Stream> streams;
    for (std::size_t i = 0; i < promises.size(); ++i)
      streams.push_back(*context->make_stream());
    // A thread that has just worked looks for what is left to it.
    REQUIRE(context->stream().notify([](const Result<void>&) {}));
    REQUIRE(context->stream().synchronize());
    REQUIRE(context->stream().launch(kernel<Await>("await"), 1, &until));
    for (std::size_t i = 0; i < promises.size(); ++i)
      REQUIRE(streams[i].launch(kernel<Tell>("tell"), 1, &promises[i]));
    for (auto& promise : promises)
      CHECK(promise.get_future().wait_for(std::chrono::seconds{5}) == std::future_status::ready);
    go.set_value();
    REQUIRE(context->stream().synchronize());
  }
}

TEST_CASE("many pieces of work are begun before the caller comes to wait for them") {
  auto device = make_device(2);
  auto context = open(device, 10'000);
  std::vector<std::promise<void>> promises(1'000);
  REQUIRE(context->stream().synchronize());
  for (auto& promise : promises)
    REQUIRE(context->stream().launch(kernel<Tell>("tell"), 1, &promise));
  for (auto& promise : promises)
    CHECK(promise.get_future().wait_for(std::chrono::seconds{20}) == std::future_status::ready);
}

TEST_CASE("a device that gets no thread for a moment does all that was queued once it gets one") {
  auto device = make_device(2);
  auto context = open(device, 10'000);
  std::vector<std::promise<void>> told(2);
  const auto notify = [&](std::size_t i) {
    return context->stream().notify([&told, i](const Result<void>&) { told[i].set_value(); });
  };
  {
    const test::NoThreads none;
    CHECK_THROWS_AS(notify(0), std::system_error);
  }
  REQUIRE(notify(1));
  for (auto& one : told)
    CHECK(one.get_future().wait_for(std::chrono::seconds{20}) == std::future_status::ready);
  CHECK(context->stream().synchronize());
}

TEST_CASE("a caller that waits does the work of a device that gets no thread, and others' is done later") {
  auto device = make_device(2);
  auto context = open(device, 10'000);
  auto side = *context->make_stream();
  Census census;
  std::promise<void> told;
  {
    const test::NoThreads none;
    CHECK_THROWS_AS(side.launch(kernel<Tell>("tell"), 1, &told), std::system_error);
    CHECK_THROWS_AS(context->stream().launch(kernel<Visit>("visit"), 64, &census), std::system_error);
    // No other thread comes for pieces of the kernel, or for the other stream.
    CHECK(context->stream().synchronize());
    CHECK(census.most == 1);
  }
  REQUIRE(side.notify([](const Result<void>&) {}));
  CHECK(told.get_future().wait_for(std::chrono::seconds{20}) == std::future_status::ready);
}

TEST_CASE("a kernel that throws fails its stream once, and no other") {
  auto device = make_device(4);
  auto context = open(device, 10'000);
  auto side = context->make_stream();
  REQUIRE(side);
  const auto thrower = kernel<Throw>("thrower");
  for (const auto at : std::vector<std::uint64_t>{0, 5000, 99'999}) {
    REQUIRE(context->stream().launch(thrower, 100'000, at));
    REQUIRE(side->launch(thrower, 10, std::uint64_t{10}));
    const auto failed = context->stream().synchronize();
    REQUIRE_FALSE(failed);
    CHECK(failed.error().code() == Errc::launch_failed);
    CHECK(failed.error().message() == "kernel thrower threw: index " + std::to_string(at));
    CHECK(context->stream().synchronize());
    CHECK(side->synchronize());
  }
}

TEST_CASE("a notification reports the error of the work before it, which is then reported") {
  auto device = make_device(1);
  auto context = open(device, 10'000);
  std::promise<Result<void>> first;
  std::promise<Result<void>> second;
  REQUIRE(context->stream().launch(kernel<Throw>("thrower"), 1, std::uint64_t{0}));
  REQUIRE(context->stream().notify([&](Result<void> result) { first.set_value(std::move(result)); }));
  REQUIRE(context->stream().notify([&](Result<void> result) { second.set_value(std::move(result)); }));
  CHECK(first.get_future().get().error().code() == Errc::launch_failed);
  CHECK(second.get_future().get());
  CHECK(context->stream().synchronize());
}

TEST_CASE("a notification that throws holds up neither its stream nor the end of its context") {
  auto device = make_device(1);
  {
    auto context = open(device, 10'000);
    REQUIRE(context->stream().notify([](const Result<void>&) { throw 1; }));
    CHECK(context->stream().synchronize());
    std::promise<void> next;
    REQUIRE(context->stream().notify([&](const Result<void>&) { next.set_value(); }));
    next.get_future().get();
  }
  CHECK(open(device, 10'000) != nullptr);
}

TEST_CASE("a host device has only the memory it was given, and reports it") {
  auto device = make_device(1, 1 << 20);
  auto first = Context::open(device, {Share{5000}, 1 << 20, "first", nullptr});
  auto second = Context::open(device, {Share{5000}, 1 << 20, "second", nullptr});
  auto most = (*first)->stream().allocate(1 << 19);
  REQUIRE(most);
  CHECK(device->memory()->free_bytes == 1 << 19);
  const auto refused = (*second)->stream().allocate((1 << 19) + 1);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == Errc::out_of_memory);
  CHECK(refused.error().message().find("host device 0 cannot give ") != std::string::npos);
  CHECK((*second)->memory_used() == 0);
  first->reset();
  CHECK((*second)->stream().allocate(1 << 20));
}

TEST_CASE("memory whose free is queued counts until it is free, and an allocation waits for it") {
  auto device = make_device(2, 1 << 20);
  auto context = open(device, 10'000);
  auto side = context->make_stream();
  std::promise<void> go;
  auto until = go.get_future().share();
  {
    auto held = context->stream().allocate(1 << 20);
    REQUIRE(held);
    REQUIRE(context->stream().launch(kernel<Await>("await"), 1, &until));
  }
  CHECK(context->memory_used() == 0);
  CHECK(device->memory()->free_bytes == 0);
  std::thread later{[&go] { go.set_value(); }};
  CHECK(side->allocate(1 << 20));
  later.join();
}

namespace {

/// Checks a product whose alpha is 0 and that has what is no number in A and B.
template <class T, class C>
void check_without_product(Stream& stream) {
  // Large enough for two threads.
  constexpr std::int64_t m = 70;
  constexpr std::int64_t n = 600;
  auto a = stream.tensor_from(std::vector<T>(m * n, T{std::nanf("")}), {m, n});
  auto b = stream.tensor_from(std::vector<T>(n * n, T{HUGE_VALF}), {n, n});
  REQUIRE(a);
  REQUIRE(b);
  const auto product = [&](C before, double alpha, double beta) {
    auto c = stream.tensor_from(std::vector<C>(m * n, before), {m, n});
    REQUIRE(c);
    REQUIRE(stream.gemm(*a, *b, *c, {.alpha = alpha, .beta = beta}));
    return *stream.to_host<C>(*c);
  };
  // The second alpha is 0 in f32.
  for (const double alpha : {0.0, std::is_same_v<T, double> ? 0.0 : 1e-60}) {
    CHECK(product(C{1.5F}, alpha, -2.0) == std::vector<C>(m * n, C{-3.0F}));
    CHECK(product(C{std::nanf("")}, alpha, 0.0) == std::vector<C>(m * n, C{0.0F}));
  }
}

} // namespace

TEST_CASE("a product with alpha 0 does not read A and B on a host device") {
  const auto device = make_device(2);
  const auto context = open(device, Share::one);
  auto& stream = context->stream();
  check_without_product<float, float>(stream);
  check_without_product<double, double>(stream);
  check_without_product<Float16, Float16>(stream);
  check_without_product<BFloat16, BFloat16>(stream);
  check_without_product<Float16, float>(stream);
  check_without_product<BFloat16, float>(stream);
}

TEST_CASE("tiles cover a product exactly, keep k whole and depend on nothing but sizes and threads") {
  for (const std::int64_t m : {1, 64, 129, 1000, 5000})
    for (const std::int64_t n : {1, 63, 200, 2000})
      for (const int threads : {1, 2, 3, 4, 16, 64}) {
        const auto tiles = host::cut_gemm(m, n, 500, threads);
        INFO(m << " x " << n << " on " << threads);
        const auto across = (n + tiles.tile_columns - 1) / tiles.tile_columns;
        const auto down = (m + tiles.tile_rows - 1) / tiles.tile_rows;
        CHECK(tiles.across == static_cast<std::size_t>(across));
        CHECK(tiles.count == static_cast<std::size_t>(across * down));
        CHECK((threads > 1 || tiles.count == 1));
        CHECK(tiles.count <= static_cast<std::size_t>(threads));
      }
  CHECK(host::cut_gemm(2000, 2000, 2000, 2).count == 2);
  CHECK(host::cut_gemm(10, 10, 10, 8).count == 1);
  CHECK(host::cut_gemm(INT32_MAX, INT32_MAX, INT32_MAX, 8).count == 8);
}
