// Graphs: work that is captured once and launched often, and what cannot be part of one.
#include <gpuactors/kernels/elementwise.hpp>

#include <conformance/candidates.hpp>
#include <conformance/probe_kernels.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>

using namespace gpuactors;
using namespace gpuactors::conformance;
namespace k = gpuactors::kernels;

namespace {

/// A step of a small network: y = (x w) * 2 + 1 over n x n.
Result<void> step(Stream& stream, const Tensor& x, const Tensor& w, Tensor& y, std::uint64_t n) {
  GPUACTORS_TRY(stream.zero(y));
  GPUACTORS_TRY(stream.gemm(x, w, y));
  GPUACTORS_TRY(stream.launch(k::scale_f32, n * n, 2.0F, y));
  return {};
}

} // namespace

TEST_CASE("a graph does what was captured each time it is launched, with the values that are there then") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    constexpr std::int64_t n = 3;
    auto x = stream.tensor_from(std::vector<float>(n * n, 1.0F), {n, n});
    auto w = stream.tensor_from(std::vector<float>(n * n, 2.0F), {n, n});
    auto y = stream.tensor_from(std::vector<float>(n * n, -1.0F), {n, n});
    REQUIRE(y);
    REQUIRE(step(stream, *x, *w, *y, n));
    REQUIRE(stream.launch(k::fill_value_f32, n * n, -1.0F, *y));
    const auto graph = stream.capture([&] { return step(stream, *x, *w, *y, n); });
    REQUIRE(graph);
    CHECK(graph->operations() >= 3);
    // Nothing ran meanwhile.
    CHECK(*stream.to_host<float>(*y) == std::vector<float>(n * n, -1.0F));
    REQUIRE(stream.launch(*graph));
    CHECK(*stream.to_host<float>(*y) == std::vector<float>(n * n, 12.0F));
    const std::vector<float> other(n * n, 3.0F);
    REQUIRE(stream.upload(*x, other));
    for (int i = 0; i < 3; ++i)
      REQUIRE(stream.launch(*graph));
    CHECK(*stream.to_host<float>(*y) == std::vector<float>(n * n, 36.0F));
  }
}

TEST_CASE("launches of a graph are in order with what else a stream has, and with each other") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    auto second = context->make_stream();
    REQUIRE(second);
    constexpr std::uint64_t n = 1000;
    auto x = stream.tensor_from(std::vector<std::int32_t>(n, 1));
    REQUIRE(x);
    auto* words = static_cast<std::uint32_t*>(x->raw());
    std::uint32_t expected = 1;
    const auto mixed = [&](std::uint32_t add) { expected = expected * 3 + add; };
    const auto graph = stream.capture([&]() -> Result<void> {
      for (std::uint32_t i = 0; i < 5; ++i)
        GPUACTORS_TRY(stream.launch(mix, n, i, words));
      return {};
    });
    REQUIRE(graph);
    CHECK(graph->operations() == 5);
    REQUIRE(stream.launch(mix, n, 7U, words));
    mixed(7);
    for (int round = 0; round < 20; ++round) {
      auto& on = round % 2 == 0 ? stream : *second;
      REQUIRE(on.wait(round % 2 == 0 ? *second : stream));
      REQUIRE(on.launch(*graph));
      for (std::uint32_t i = 0; i < 5; ++i)
        mixed(i);
      REQUIRE(on.launch(mix, n, 9U, words));
      mixed(9);
    }
    REQUIRE(second->synchronize());
    CHECK(*stream.to_host<std::int32_t>(*x) == std::vector<std::int32_t>(n, static_cast<std::int32_t>(expected)));
  }
}

TEST_CASE("products of a graph and of another stream share the context, and both are right") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    auto second = context->make_stream();
    REQUIRE(second);
    constexpr std::int64_t n = 64;
    auto x = stream.tensor_from(std::vector<float>(n * n, 1.0F), {n, n});
    auto w = stream.tensor_from(std::vector<float>(n * n, 2.0F), {n, n});
    auto y = stream.tensor(DType::f32, {n, n});
    auto z = second->tensor(DType::f32, {n, n});
    REQUIRE(z);
    const auto first = stream.capture([&] { return stream.gemm(*x, *w, *y); });
    CHECK(first.error().message()
          == "the first product of a context cannot be part of a graph: run the work once before you capture it");
    REQUIRE(stream.gemm(*x, *w, *y));
    const auto graph = stream.capture([&] { return stream.gemm(*x, *w, *y); });
    REQUIRE(graph);
    for (int i = 0; i < 10; ++i) {
      REQUIRE(second->gemm(*w, *w, *z));
      REQUIRE(stream.launch(*graph));
    }
    CHECK(*stream.to_host<float>(*y) == std::vector<float>(n * n, 2.0F * n));
    CHECK(*second->to_host<float>(*z) == std::vector<float>(n * n, 4.0F * n));
  }
}

TEST_CASE("what cannot be part of a graph is refused while a stream is captured, and then there is no graph") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    auto second = context->make_stream();
    REQUIRE(second);
    auto x = stream.tensor_from(std::vector<float>(8, 1.0F));
    REQUIRE(x);
    auto mark = second->mark();
    REQUIRE(mark);
    const auto scale = [&] { return stream.launch(k::scale_f32, 8, 2.0F, *x); };
    REQUIRE(scale());
    const std::vector<std::function<Errc()>> calls{
        [&] { return stream.allocate(256).error().code(); },
        [&] { return stream.tensor(DType::f32, {4}).error().code(); },
        [&] { return stream.synchronize().error().code(); },
        [&] { return stream.to_host<float>(*x).error().code(); },
        [&] { return stream.notify([](const Result<void>&) {}).error().code(); },
        [&] { return stream.mark().error().code(); },
        [&] { return stream.wait(*mark).error().code(); },
        [&] { return stream.wait(*second).error().code(); },
        [&] { return second->wait(stream).error().code(); },
        [&] { return stream.capture(scale).error().code(); },
    };
    for (const auto& call : calls) {
      const auto graph = stream.capture([&] {
        CHECK(call() == Errc::invalid_argument);
        // It goes on as if nothing had been said.
        return scale();
      });
      REQUIRE_FALSE(graph);
      CHECK(graph.error().message().find("cannot be part of a graph") != std::string::npos);
    }
    // A stream beside it cannot be captured at the same time, which costs the first one nothing.
    const auto graph = stream.capture([&] {
      CHECK(second->capture([&] { return second->zero(*x); }).error().code() == Errc::invalid_argument);
      return scale();
    });
    REQUIRE(graph);
    CHECK(graph->operations() == 1);
    REQUIRE(stream.launch(*graph));
    CHECK(stream.tensor(DType::f32, {4}));
    CHECK(*stream.to_host<float>(*x) == std::vector<float>(8, 4.0F));
  }
}

TEST_CASE("a stream that is moved while it is captured is captured to the end; one that is destroyed gives no graph") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    auto x = stream.tensor_from(std::vector<float>(8, 1.0F));
    REQUIRE(x);
    auto side = context->make_stream();
    REQUIRE(side);
    std::optional<Stream> there;
    const auto graph = side->capture([&] {
      there.emplace(std::move(*side));
      return there->launch(k::scale_f32, 8, 2.0F, *x);
    });
    REQUIRE(graph);
    REQUIRE(there->launch(*graph));
    REQUIRE(there->synchronize());
    auto* leaving = new Stream(*context->make_stream());
    const auto none = leaving->capture([&]() -> Result<void> {
      auto outcome = leaving->launch(k::scale_f32, 8, 2.0F, *x);
      delete leaving;
      return outcome;
    });
    CHECK(none.error().message() == "the stream was destroyed while it was captured");
    // Its handle is somebody else's now, and is captured no more.
    auto next = context->make_stream();
    REQUIRE(next);
    REQUIRE(next->launch(k::scale_f32, 8, 5.0F, *x));
    CHECK(*next->to_host<float>(*x) == std::vector<float>(8, 10.0F));
  }
}

TEST_CASE("memory of another context that a stream lets go of while it is captured is not part of the graph") {
  FOR_EACH_DEVICE(candidate) {
    auto owner = open(candidate);
    auto reader = open(candidate);
    auto& stream = reader->stream();
    auto x = stream.tensor_from(std::vector<float>(8, 1.0F));
    auto foreign = owner->stream().tensor_from(std::vector<float>(8, 3.0F));
    REQUIRE(foreign);
    auto view = foreign->pinned(stream);
    REQUIRE(view);
    REQUIRE(stream.copy(*x, *view));
    const auto graph = stream.capture([&] {
      *view = Tensor{};
      return stream.launch(k::scale_f32, 8, 2.0F, *x);
    });
    REQUIRE(graph);
    foreign = Tensor{};
    REQUIRE(stream.launch(*graph));
    CHECK(*stream.to_host<float>(*x) == std::vector<float>(8, 6.0F));
  }
}

TEST_CASE("copies from and to memory of the host can be part of a graph, which sees what is there when it runs") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    auto x = stream.tensor(DType::f32, {8});
    auto host = context->host_buffer(8 * sizeof(float));
    REQUIRE(host);
    const auto graph = stream.capture([&]() -> Result<void> {
      GPUACTORS_TRY(stream.upload(x->raw(), host->data(), host->bytes()));
      GPUACTORS_TRY(stream.launch(k::scale_f32, 8, 2.0F, *x));
      return stream.download(host->data(), x->raw(), host->bytes());
    });
    REQUIRE(graph);
    for (int round = 1; round <= 3; ++round) {
      for (auto& value : host->span<float>())
        value = static_cast<float>(round);
      REQUIRE(stream.launch(*graph));
      REQUIRE(stream.synchronize());
      CHECK(host->span<float>()[7] == static_cast<float>(2 * round));
    }
  }
}

TEST_CASE("work on another stream goes on while one is captured, and memory is allocated and freed there") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    auto second = context->make_stream();
    REQUIRE(second);
    auto x = stream.tensor_from(std::vector<float>(8, 1.0F));
    REQUIRE(x);
    auto early = stream.tensor_from(std::vector<float>(8, 5.0F));
    const auto square = *stream.tensor_from(std::vector<float>(4, 1.0F), {2, 2});
    auto product = *stream.tensor(DType::f32, {2, 2});
    REQUIRE(stream.gemm(square, square, product));
    const auto graph = stream.capture([&]() -> Result<void> {
      GPUACTORS_TRY(stream.launch(k::scale_f32, 8, 3.0F, *x));
      GPUACTORS_LET(other, second->tensor_from(std::vector<float>(8, 4.0F)));
      GPUACTORS_TRY(second->launch(k::scale_f32, 8, 0.5F, other));
      GPUACTORS_TRY(second->gemm(square, square, product));
      GPUACTORS_LET(there, second->to_host<float>(other));
      CHECK(there == std::vector<float>(8, 2.0F));
      // Of the stream that is captured, and not part of the graph.
      early = Tensor{};
      return stream.launch(k::scale_f32, 8, 2.0F, *x);
    });
    REQUIRE(graph);
    CHECK(graph->operations() == 2);
    REQUIRE(stream.launch(*graph));
    CHECK(*stream.to_host<float>(*x) == std::vector<float>(8, 6.0F));
  }
}

TEST_CASE("memory cannot be reclaimed while a stream is captured, and the graph lacks nothing") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    auto x = stream.tensor_from(std::vector<float>(8, 1.0F));
    REQUIRE(x);
    const auto graph = stream.capture([&]() -> Result<void> {
      CHECK(context->reclaim().error()
            == Error{Errc::invalid_argument, "memory cannot be reclaimed while a stream is captured"});
      return stream.launch(k::scale_f32, 8, 2.0F, *x);
    });
    REQUIRE(graph);
    REQUIRE(stream.launch(*graph));
    CHECK(*stream.to_host<float>(*x) == std::vector<float>(8, 2.0F));
    CHECK(context->reclaim());
  }
}

TEST_CASE("a context that ends while a stream of it is captured leaves nothing") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    const auto quota = context->quota();
    auto side = context->make_stream();
    REQUIRE(side);
    auto kept = context->stream().tensor_from(std::vector<float>(8, 1.0F));
    REQUIRE(kept);
    const auto graph = side->capture([&]() -> Result<void> {
      GPUACTORS_TRY(side->launch(k::scale_f32, 8, 2.0F, *kept));
      context.reset();
      CHECK(quota->used() == 0);
      return {};
    });
    REQUIRE_FALSE(graph);
    CHECK(graph.error().code() == Errc::lease_expired);
  }
}

TEST_CASE("a capture that fails, throws or is empty gives no graph, and the stream goes on") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    auto x = stream.tensor_from(std::vector<float>(8, 1.0F));
    REQUIRE(x);
    const auto failed = stream.capture([&]() -> Result<void> {
      GPUACTORS_TRY(stream.launch(k::scale_f32, 8, 2.0F, *x));
      return fail(Errc::task_failed, "no more");
    });
    CHECK(failed.error().message() == "no more");
    CHECK_THROWS_AS(stream.capture([&]() -> Result<void> {
      (void)stream.launch(k::scale_f32, 8, 2.0F, *x);
      throw std::runtime_error("oh");
    }),
                    std::runtime_error);
    CHECK(stream.capture([]() -> Result<void> { return {}; }).error().message()
          == "nothing was queued on the stream while it was captured");
    CHECK(stream.launch(Graph{}).error().code() == Errc::invalid_argument);
    REQUIRE(stream.launch(k::scale_f32, 8, 4.0F, *x));
    CHECK(*stream.to_host<float>(*x) == std::vector<float>(8, 4.0F));
  }
}

TEST_CASE("a graph may be destroyed anywhere while it runs") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    auto side = context->make_stream();
    REQUIRE(side);
    auto words = stream.tensor_from(std::vector<std::int32_t>{0, 0});
    REQUIRE(words);
    auto* gate = static_cast<std::uint32_t*>(words->raw());
    {
      auto graph = stream.capture([&] { return stream.launch(await_gate, 1, gate, gate + 1); });
      REQUIRE(graph);
      REQUIRE(stream.launch(*graph));
      std::thread{[gone = std::move(*graph)]() mutable { gone = Graph{}; }}.join();
    }
    REQUIRE(side->launch(open_gate, 1, gate));
    REQUIRE(side->synchronize());
    CHECK((*stream.to_host<std::int32_t>(*words))[1] == 1);
  }
}

TEST_CASE("a graph is of one context, and does not keep it alive") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto other = open(candidate);
    Graph kept;
    {
      auto& stream = context->stream();
      auto x = stream.tensor_from(std::vector<float>(100'000, 1.0F));
      REQUIRE(x);
      auto graph = stream.capture([&] { return stream.launch(k::scale_f32, 100'000, 2.0F, *x); });
      REQUIRE(graph);
      CHECK(other->stream().launch(*graph).error().message() == "the graph was captured in another context");
      kept = *graph;
      for (int i = 0; i < 3; ++i)
        REQUIRE(stream.launch(*graph));
      auto gone = std::move(*graph);
      std::thread{[&gone] { gone = Graph{}; }}.join();
      CHECK(*stream.to_host<float>(*x) == std::vector<float>(100'000, 8.0F));
      REQUIRE(stream.launch(kept));
      REQUIRE(stream.synchronize());
    }
    context.reset();
    CHECK(kept.operations() == 1);
    CHECK(other->stream().launch(kept).error().code() == Errc::invalid_argument);
  }
}
