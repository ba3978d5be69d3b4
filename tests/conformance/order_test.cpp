// Streams, events and notifications: what happens before what, and that everybody is told exactly once.
#include <conformance/candidates.hpp>
#include <conformance/probe_kernels.hpp>

#include <atomic>
#include <future>
#include <stdexcept>

using namespace gpuactors;
using namespace gpuactors::conformance;

namespace {

/// A word of device memory that kernels wait for.
struct Gate {
  explicit Gate(Stream& stream) : memory(stream.tensor_from(std::vector<std::int32_t>{0, 0}, {2})) {
    REQUIRE(memory);
  }

  std::uint32_t* word() {
    return static_cast<std::uint32_t*>(memory->raw());
  }

  /// Queues work on `stream` that lasts until the gate is open.
  void block(Stream& stream) {
    REQUIRE(stream.launch(await_gate, 1, word(), word() + 1));
  }

  void open(Stream& stream) {
    REQUIRE(stream.launch(open_gate, 1, word()));
  }

  /// Whether the work that it held up has seen it open: on CUDA it may have given up. Waits for `stream`.
  bool was_passed(Stream& stream) {
    return (*stream.to_host<std::int32_t>(*memory))[1] == 1;
  }

  Result<Tensor> memory;
};

std::uint32_t* words(Tensor& tensor) {
  return static_cast<std::uint32_t*>(tensor.raw());
}

} // namespace

TEST_CASE("work on a stream runs in the order it was queued") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    auto x = stream.tensor_from(std::vector<std::int32_t>(5000, 1), {5000});
    REQUIRE(x);
    std::uint32_t expected = 1;
    for (std::uint32_t i = 0; i < 200; ++i) {
      REQUIRE(stream.launch(mix, 5000, i, words(*x)));
      expected = expected * 3 + i;
    }
    const auto result = stream.to_host<std::int32_t>(*x);
    REQUIRE(result);
    CHECK(*result == std::vector<std::int32_t>(5000, static_cast<std::int32_t>(expected)));
  }
}

TEST_CASE("calls return while the work is still waiting, and two streams overlap") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& first = context->stream();
    auto second = context->make_stream();
    REQUIRE(second);
    Gate gate{first};
    gate.block(first);
    gate.open(*second);
    CHECK(first.synchronize());
    CHECK(gate.was_passed(first));
  }
}

TEST_CASE("a stream that waits for another sees what it did") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& first = context->stream();
    auto second = context->make_stream();
    auto third = context->make_stream();
    REQUIRE(second);
    REQUIRE(third);
    Gate gate{first};
    auto x = first.tensor_from(std::vector<std::int32_t>{1}, {1});
    REQUIRE(x);
    gate.block(first);
    REQUIRE(first.launch(mix, 1, 10U, words(*x)));
    REQUIRE(second->wait(first));
    REQUIRE(second->launch(mix, 1, 20U, words(*x)));
    // What is queued after the wait does not concern it.
    REQUIRE(third->wait(*second));
    auto fourth = context->make_stream();
    REQUIRE(fourth);
    gate.open(*fourth);
    CHECK(*third->to_host<std::int32_t>(*x) == std::vector<std::int32_t>{(1 * 3 + 10) * 3 + 20});
    CHECK(gate.was_passed(first));
  }
}

TEST_CASE("a stream that is made later disturbs no work that still reads memory freed before, though it is had again") {
  FOR_EACH_DEVICE(candidate) {
    auto opener = open(candidate);
    auto context = open(candidate);
    auto& first = context->stream();
    const std::vector<std::int32_t> ones(5000, 1);
    auto read = first.tensor(DType::i32, {5000});
    REQUIRE(read);
    Gate gate{opener->stream()};
    REQUIRE(opener->stream().synchronize());
    {
      auto gone = first.tensor_from(ones, {5000});
      REQUIRE(gone);
      gate.block(first);
      REQUIRE(first.copy(*read, *gone));
    }
    auto second = context->make_stream();
    REQUIRE(second);
    // The same memory, where the device gives it again before the work above is done.
    auto again = first.tensor(DType::i32, {5000});
    REQUIRE(again);
    REQUIRE(second->fill_bytes(*again, 2));
    gate.open(opener->stream());
    CHECK(*first.to_host<std::int32_t>(*read) == ones);
    CHECK(gate.was_passed(opener->stream()));
  }
}

TEST_CASE("streams of two contexts on one device can wait for each other") {
  FOR_EACH_DEVICE(candidate) {
    auto producer = open(candidate);
    auto consumer = open(candidate);
    auto x = producer->stream().tensor_from(std::vector<std::int32_t>{1}, {1});
    REQUIRE(x);
    auto side = producer->make_stream();
    REQUIRE(side);
    Gate gate{*side};
    gate.block(producer->stream());
    REQUIRE(producer->stream().launch(mix, 1, 10U, words(*x)));
    REQUIRE(consumer->stream().wait(producer->stream()));
    REQUIRE(consumer->stream().launch(mix, 1, 20U, words(*x)));
    gate.open(*side);
    CHECK(consumer->stream().synchronize());
    CHECK(*producer->stream().to_host<std::int32_t>(*x) == std::vector<std::int32_t>{59});
    CHECK(gate.was_passed(*side));
  }
}

TEST_CASE("a mark is waited for by another context, and says nothing of what comes after it") {
  FOR_EACH_DEVICE(candidate) {
    auto producer = open(candidate);
    auto consumer = open(candidate);
    auto x = producer->stream().tensor_from(std::vector<std::int32_t>{1, 1}, {2});
    REQUIRE(x);
    auto side = producer->make_stream();
    REQUIRE(side);
    Gate before{*side};
    Gate after{*side};
    before.block(producer->stream());
    REQUIRE(producer->stream().launch(mix, 1, 10U, words(*x)));
    const auto mark = producer->stream().mark();
    REQUIRE(mark);
    after.block(producer->stream());
    REQUIRE(consumer->stream().wait(Mark{*mark}));
    REQUIRE(consumer->stream().launch(mix, 1, 20U, words(*x)));
    before.open(*side);
    CHECK(consumer->stream().synchronize());
    after.open(*side);
    CHECK(*producer->stream().to_host<std::int32_t>(*x) == std::vector<std::int32_t>{59, 1});
    // Had the consumer waited for what comes after, that would have given up.
    CHECK(before.was_passed(*side));
    CHECK(after.was_passed(*side));
    CHECK(consumer->stream().wait(Mark{}).error().code() == Errc::invalid_argument);
  }
}

TEST_CASE("marks that nobody holds are made anew, and one that outlives its context is passed") {
  FOR_EACH_DEVICE(candidate) {
    auto consumer = open(candidate);
    Mark kept;
    {
      auto producer = open(candidate);
      for (int i = 0; i < 100; ++i)
        REQUIRE(producer->stream().mark());
      const auto first = producer->stream().mark();
      const auto second = producer->stream().mark();
      REQUIRE(first);
      REQUIRE(second);
      kept = *first;
    }
    CHECK(consumer->stream().wait(kept));
    CHECK(consumer->stream().synchronize());
  }
}

TEST_CASE("an event tells whether its last record was reached") {
  FOR_EACH_DEVICE(candidate) {
    load_kernels(candidate);
    auto opened = candidate.device->open({Share{Share::one / 2}, test_memory});
    REQUIRE(opened);
    auto& backend = **opened;
    auto stream = backend.make_stream();
    auto side = backend.make_stream();
    auto event = backend.make_event();
    REQUIRE(stream);
    REQUIRE(side);
    REQUIRE(event);
    CHECK(*backend.query(*event));
    auto gate = backend.allocate(8, *stream);
    REQUIRE(gate);
    REQUIRE(backend.fill(*gate, 0, 8, *stream));
    REQUIRE(backend.synchronize(*stream));
    auto* word = static_cast<std::uint32_t*>(*gate);
    const auto await = pack_arguments(word, word + 1);
    REQUIRE(backend.launch(await_gate.info, {}, &await, sizeof(await), *stream));
    REQUIRE(backend.record(*event, *stream));
    CHECK_FALSE(*backend.query(*event));
    const auto open = pack_arguments(word);
    REQUIRE(backend.launch(open_gate.info, {}, &open, sizeof(open), *side));
    CHECK(backend.synchronize(*stream));
    CHECK(*backend.query(*event));
    backend.free(*gate, *stream);
    backend.destroy_event(*event);
    backend.destroy_stream(*side);
    backend.destroy_stream(*stream);
  }
}

TEST_CASE("a notification comes once, after the work before it") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    auto side = context->make_stream();
    REQUIRE(side);
    Gate gate{stream};
    std::promise<Result<void>> told;
    std::atomic<int> times{0};
    gate.block(stream);
    REQUIRE(stream.notify([&](Result<void> result) {
      if (++times == 1)
        told.set_value(std::move(result));
    }));
    CHECK(times == 0);
    gate.open(*side);
    CHECK(told.get_future().get());
    CHECK(stream.synchronize());
    CHECK(times == 1);
    CHECK(gate.was_passed(stream));
  }
}

TEST_CASE("notifications of one stream come in order") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    std::mutex mutex;
    std::vector<int> seen;
    std::promise<void> last;
    for (int i = 0; i < 100; ++i) {
      REQUIRE(stream.launch(no_arguments, 1));
      REQUIRE(stream.notify([&, i](Result<void>) {
        std::lock_guard guard{mutex};
        seen.push_back(i);
        if (seen.size() == 100)
          last.set_value();
      }));
    }
    last.get_future().get();
    std::lock_guard guard{mutex};
    for (int i = 0; i < 100; ++i)
      REQUIRE(seen[static_cast<std::size_t>(i)] == i);
  }
}

TEST_CASE("notifications that are pending when the context ends come all the same") {
  FOR_EACH_DEVICE(candidate) {
    std::atomic<int> times{0};
    {
      auto context = open(candidate);
      auto stream = context->make_stream();
      REQUIRE(stream);
      for (int i = 0; i < 50; ++i) {
        REQUIRE(stream->launch(no_arguments, 100));
        REQUIRE(stream->notify([&](Result<void>) { ++times; }));
        REQUIRE(context->stream().notify([&](Result<void>) { ++times; }));
      }
    }
    CHECK(times == 100);
  }
}

TEST_CASE("a call that fails disturbs neither its stream nor others") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    auto side = context->make_stream();
    REQUIRE(side);
    auto x = stream.tensor_from(std::vector<std::int32_t>{1}, {1});
    REQUIRE(x);
    REQUIRE(stream.launch(mix, 1, 10U, words(*x)));
    CHECK_FALSE(stream.launch(no_arguments, 0));
    CHECK_FALSE(stream.allocate(test_memory * 2));
    CHECK_FALSE(side->fill_bytes(nullptr, 0, 1));
    REQUIRE(stream.launch(mix, 1, 20U, words(*x)));
    CHECK(*stream.to_host<std::int32_t>(*x) == std::vector<std::int32_t>{59});
    CHECK(side->synchronize());
    CHECK(stream.synchronize());
  }
}

TEST_CASE("what the function of a notification throws ends there, and the next one is called") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    REQUIRE(stream.notify([](const Result<void>&) { throw std::runtime_error{"thrown by a test"}; }));
    std::promise<void> told;
    REQUIRE(stream.notify([&](const Result<void>&) { told.set_value(); }));
    told.get_future().wait();
    auto tensor = stream.tensor_from(std::vector<float>{1, 2}, {2});
    REQUIRE(tensor);
    CHECK(*stream.to_host<float>(*tensor) == std::vector<float>{1, 2});
  }
}
