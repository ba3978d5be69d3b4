// Beginnings and ends: what is back when, and what is left of a thing whose owner is gone.
#include <gpuactors/base/units.hpp>

#include <support/eventually.hpp>
#include <support/results.hpp>

#include <conformance/candidates.hpp>
#include <conformance/probe_kernels.hpp>

#include <future>
#include <optional>
#include <thread>

using namespace gpuactors;
using namespace gpuactors::conformance;
using gpuactors::test::eventually;
using gpuactors::test::must;

TEST_CASE("a context says what it was granted") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    const auto grant = context->granted();
    CHECK(grant.share == Share{Share::one / 2});
    CHECK(grant.memory_bytes == test_memory);
    CHECK(grant.units >= 1);
    CHECK(grant.units <= candidate.device->info().units);
    CHECK(&context->stream().context() == context.get());
    auto whole = Context::open(candidate.device, {Share::whole(1), test_memory, "whole", nullptr});
    REQUIRE(whole);
    CHECK((*whole)->granted().units == candidate.device->info().units);
    CHECK((*whole)->granted().compute == ComputeEnforcement::exclusive);
  }
}

TEST_CASE("a share that is no share of one device is refused") {
  FOR_EACH_DEVICE(candidate) {
    for (const auto units : {std::int64_t{0}, std::int64_t{-1}, Share::one + 1, 2 * Share::one}) {
      const auto context = Context::open(candidate.device, {Share{units}, test_memory, "test", nullptr});
      REQUIRE_FALSE(context);
      CHECK(context.error().code() == Errc::invalid_argument);
    }
  }
  CHECK(Context::open(nullptr, {}).error().code() == Errc::invalid_argument);
}

TEST_CASE("a context without a memory limit of its own gets its share of the device") {
  FOR_EACH_DEVICE(candidate) {
    auto context = Context::open(candidate.device, {Share{2500}, 0, "test", nullptr});
    REQUIRE(context);
    CHECK((*context)->memory_limit() == memory_for_share(candidate.device->info().memory_bytes, Share{2500}));
  }
}

TEST_CASE("what was moved from is empty and harmless") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto buffer = context->stream().allocate(1000);
    REQUIRE(buffer);
    auto* address = buffer->data();
    Buffer other = std::move(*buffer);
    CHECK(other.data() == address);
    CHECK(buffer->data() == nullptr);
    CHECK(buffer->bytes() == 0);
    CHECK_FALSE(*buffer);

    auto tensor = context->stream().tensor(DType::f32, {10});
    REQUIRE(tensor);
    Tensor taken = std::move(*tensor);
    CHECK_FALSE(*tensor);
    CHECK(tensor->size() == 0);
    CHECK(tensor->bytes() == 0);
    CHECK(taken.size() == 10);
    CHECK(context->stream().to_host<float>(*tensor)->empty());

    auto stream = context->make_stream();
    REQUIRE(stream);
    Stream moved = std::move(*stream);
    CHECK(stream->synchronize().error().code() == Errc::invalid_argument);
    CHECK(moved.synchronize());
    other = Buffer{};
    taken = Tensor{};
    CHECK(context->memory_used() == 0);
  }
}

TEST_CASE("a buffer that takes another's place frees what it held") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto first = context->stream().allocate(1000);
    auto second = context->stream().allocate(50'000);
    REQUIRE(second);
    *first = std::move(*second);
    CHECK(first->bytes() == 50'000);
    CHECK(context->memory_used() >= 50'000);
    *first = Buffer{};
    CHECK(context->memory_used() == 0);
  }
}

TEST_CASE("a buffer that outlives its context is empty, and so is what is done with it") {
  FOR_EACH_DEVICE(candidate) {
    std::optional<Buffer> buffer;
    std::optional<Tensor> tensor;
    std::optional<Stream> stream;
    std::shared_ptr<Quota> quota;
    {
      auto context = open(candidate);
      quota = context->quota();
      buffer.emplace(*context->stream().allocate(1000));
      tensor.emplace(*context->stream().tensor(DType::f32, {10}));
      stream.emplace(*context->make_stream());
    }
    CHECK(quota->used() == 0);
    CHECK(buffer->data() == nullptr);
    CHECK(tensor->data<float>() == nullptr);
    CHECK_FALSE(tensor->pinned());
    CHECK(stream->synchronize().error().code() == Errc::lease_expired);
    CHECK(stream->allocate(1).error().code() == Errc::lease_expired);
    CHECK(stream->launch(no_arguments, 1).error().code() == Errc::lease_expired);
    auto next = open(candidate);
    CHECK(next->stream().to_host<float>(*tensor).error().code() == Errc::lease_expired);
  }
}

TEST_CASE("memory whose owner let go of it is back when the context ends") {
  FOR_EACH_DEVICE(candidate) {
    for (int i = 0; i < 20; ++i) {
      auto context = open(candidate);
      auto buffer = context->stream().allocate(test_memory / 2);
      REQUIRE(buffer);
      auto* pointer = buffer->release();
      CHECK(pointer != nullptr);
      CHECK(buffer->data() == nullptr);
      CHECK(context->memory_used() >= test_memory / 2);
      const auto quota = context->quota();
      context.reset();
      CHECK(quota->used() == 0);
    }
  }
}

TEST_CASE("reclaim frees what a task forgot, and the context goes on") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    for (int i = 0; i < 20; ++i) {
      auto forgotten = context->stream().allocate(1'000'000);
      REQUIRE(forgotten);
      auto held = context->stream().tensor(DType::u8, {1000});
      REQUIRE(held);
      REQUIRE(context->stream().fill_bytes(held->raw(), 1, 1000));
      forgotten->release();
      const auto freed = context->reclaim();
      REQUIRE(freed);
      CHECK(*freed == 1'001'000);
      CHECK(context->memory_used() == 0);
      CHECK(held->raw() == nullptr);
      CHECK(*context->reclaim() == 0);
    }
    CHECK(context->stream().allocate(test_memory / 2));
  }
}

TEST_CASE("a pinned handle keeps memory readable beyond reclaim, and counted until it goes") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto reader = open(candidate);
    auto tensor = context->stream().tensor_from(std::vector<float>{1, 2, 3}, {3});
    REQUIRE(tensor);
    auto pinned = tensor->pinned();
    REQUIRE(pinned);
    CHECK(pinned.raw() == tensor->raw());
    auto second = pinned.pinned();
    CHECK(*context->reclaim() == 0);
    CHECK(tensor->raw() == nullptr);
    CHECK(context->memory_used() > 0);
    std::vector<float> read(3);
    REQUIRE(reader->stream().download(read.data(), second.raw(), 12));
    REQUIRE(reader->stream().synchronize());
    CHECK(read == std::vector<float>{1, 2, 3});
    pinned = {};
    CHECK(context->memory_used() > 0);
    second = {};
    CHECK(context->memory_used() == 0);
  }
}

TEST_CASE("a pinned handle keeps memory beyond the end of its context, and may go on another thread") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto reader = open(candidate);
    auto tensor = context->stream().tensor_from(std::vector<float>{1, 2, 3}, {3});
    REQUIRE(tensor);
    auto pinned = tensor->pinned();
    const auto quota = context->quota();
    context.reset();
    CHECK(quota->used() > 0);
    std::vector<float> read(3);
    REQUIRE(reader->stream().download(read.data(), pinned.raw(), 12));
    REQUIRE(reader->stream().synchronize());
    CHECK(read == std::vector<float>{1, 2, 3});
    std::thread{[moved = std::move(pinned)]() mutable { moved = {}; }}.join();
    CHECK(quota->used() == 0);
  }
}

TEST_CASE("memory whose last owner is a callback of another context ends with it, after its own context") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto reader = open(candidate);
    const auto quota = context->quota();
    std::promise<void> ended;
    {
      const auto tensor = context->stream().tensor_from(std::vector<float>{1, 2, 3}, {3});
      REQUIRE(tensor);
      auto pinned = std::make_shared<Tensor>(must(tensor->pinned(reader->stream())));
      REQUIRE(reader->stream().notify(
          [pinned = std::move(pinned), over = ended.get_future().share()](const Result<void>&) { over.wait(); }));
    }
    context.reset();
    CHECK(quota->used() > 0);
    ended.set_value();
    REQUIRE(reader->stream().synchronize());
    CHECK(eventually([&] { return quota->used() == 0; }));
  }
}

TEST_CASE("buffers may be dropped by another thread while their context works") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    std::vector<Buffer> handed;
    for (int i = 0; i < 200; ++i)
      handed.push_back(*context->stream().allocate(1000));
    std::thread other{[&handed] { handed.clear(); }};
    for (int i = 0; i < 200; ++i)
      REQUIRE(context->stream().allocate(1000));
    other.join();
    CHECK(context->memory_used() == 0);
  }
}

TEST_CASE("a buffer that goes early is not freed under work of another stream") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    auto side = context->make_stream();
    auto third = context->make_stream();
    REQUIRE(third);
    auto gate = stream.tensor_from(std::vector<std::int32_t>{0, 0}, {2});
    auto result = stream.tensor_from(std::vector<std::int32_t>(1000, 0), {1000});
    REQUIRE(result);
    auto* word = static_cast<std::uint32_t*>(gate->raw());
    {
      auto early = stream.tensor_from(std::vector<std::int32_t>(1000, 7), {1000});
      REQUIRE(early);
      REQUIRE(side->launch(await_gate, 1, word, word + 1));
      REQUIRE(side->copy(*result, *early));
    }
    auto next = stream.tensor_from(std::vector<std::int32_t>(1000, 9), {1000});
    REQUIRE(next);
    REQUIRE(third->launch(open_gate, 1, word));
    CHECK(*side->to_host<std::int32_t>(*result) == std::vector<std::int32_t>(1000, 7));
    CHECK((*side->to_host<std::int32_t>(*gate))[1] == 1);
  }
}

TEST_CASE("memory that work of another context reads is not freed under it, whoever lets go of it first") {
  FOR_EACH_DEVICE(candidate) {
    auto owner = open(candidate);
    auto reader = open(candidate);
    auto& stream = reader->stream();
    auto side = reader->make_stream();
    REQUIRE(side);
    auto gate = side->tensor_from(std::vector<std::int32_t>{0, 0}, {2});
    auto result = stream.tensor_from(std::vector<std::int32_t>(1000, 0), {1000});
    REQUIRE(gate);
    REQUIRE(result);
    auto* word = static_cast<std::uint32_t*>(gate->raw());
    {
      auto tensor = owner->stream().tensor_from(std::vector<std::int32_t>(1000, 7), {1000});
      REQUIRE(tensor);
      const auto view = tensor->pinned(stream);
      REQUIRE(view);
      CHECK(view->raw() == tensor->raw());
      REQUIRE(stream.launch(await_gate, 1, word, word + 1));
      REQUIRE(stream.copy(*result, *view));
      const auto dropped_first = std::move(*tensor);
    }
    CHECK(owner->memory_used() == 0);
    // What is allocated now is other memory, as long as the first is read.
    auto next = owner->stream().tensor_from(std::vector<std::int32_t>(1000, 9), {1000});
    REQUIRE(next);
    REQUIRE(side->launch(open_gate, 1, word));
    CHECK(*stream.to_host<std::int32_t>(*result) == std::vector<std::int32_t>(1000, 7));
    CHECK((*side->to_host<std::int32_t>(*gate))[1] == 1);
  }
}

TEST_CASE("a reader's view may go on any thread and after either context") {
  FOR_EACH_DEVICE(candidate) {
    auto owner = open(candidate);
    auto reader = open(candidate);
    auto tensor = owner->stream().tensor_from(std::vector<float>{1, 2, 3}, {3});
    REQUIRE(tensor);
    std::vector<Tensor> views;
    for (int i = 0; i < 100; ++i)
      views.push_back(std::move(*tensor->pinned(reader->stream())));
    std::thread{[some = std::move(views)]() mutable { some.clear(); }}.join();
    auto first = tensor->pinned(reader->stream());
    auto second = tensor->pinned(reader->stream());
    const auto quota = owner->quota();
    owner.reset();
    CHECK_FALSE(*tensor->pinned(reader->stream()));
    CHECK(*reader->stream().to_host<float>(*first) == std::vector<float>{1, 2, 3});
    *first = Tensor{};
    reader.reset();
    CHECK(quota->used() > 0);
    *second = Tensor{};
    CHECK(quota->used() == 0);
  }
}

TEST_CASE("a context that ends with work queued waits for it") {
  FOR_EACH_DEVICE(candidate) {
    for (int i = 0; i < 20; ++i) {
      auto context = open(candidate);
      auto side = context->make_stream();
      REQUIRE(side);
      auto x = context->stream().tensor(DType::i32, {10'000});
      REQUIRE(x);
      for (std::uint32_t j = 0; j < 20; ++j) {
        REQUIRE(context->stream().launch(mix, 10'000, j, static_cast<std::uint32_t*>(x->raw())));
        REQUIRE(side->wait(context->stream()));
        REQUIRE(side->launch(mix, 10'000, j, static_cast<std::uint32_t*>(x->raw())));
        REQUIRE(context->stream().wait(*side));
      }
    }
  }
}

TEST_CASE("contexts of one device work on many threads at once") {
  FOR_EACH_DEVICE(candidate) {
    std::vector<std::thread> threads;
    std::atomic<int> right{0};
    for (unsigned t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (int round = 0; round < 5; ++round) {
          auto context = Context::open(candidate.device, {Share{2500}, test_memory, "test", nullptr});
          if (!context)
            return;
          auto& stream = (*context)->stream();
          auto a = stream.tensor_from(values<float>(64 * 64, t), {64, 64});
          auto b = stream.tensor(DType::f32, {64, 64});
          auto c = stream.tensor(DType::f32, {64, 64});
          if (!a || !b || !c || !stream.gemm(*a, *a, *b) || !stream.gemm(*a, *a, *c))
            return;
          right += *stream.to_host<float>(*b) == *stream.to_host<float>(*c) ? 1 : 0;
        }
      });
    for (auto& thread : threads)
      thread.join();
    CHECK(right == 20);
  }
}

TEST_CASE("many idle contexts cost little and close again") {
  FOR_EACH_DEVICE(candidate) {
    std::vector<std::unique_ptr<Context>> contexts;
    for (int i = 0; i < (candidate.device->info().kind == DeviceKind::cuda ? 32 : 1000); ++i)
      contexts.push_back(open(candidate, std::uint64_t{1} << 20));
    for (auto& context : contexts)
      REQUIRE(context->stream().launch(no_arguments, 1));
    contexts.clear();
  }
}
