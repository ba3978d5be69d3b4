// Messages of one actor that copy and compute at the same time: each answers when its stream is done, and the actor
// serves the next one meanwhile.
#include <gpu/actor_lab.hpp>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace gpuactors::gpu {

namespace {

constexpr std::size_t lanes = 3;
constexpr std::size_t flying = 6;

class Overlapper : public GPUActor {
public:
  using GPUActor::GPUActor;

  /// Makes what messages copy and multiply; `in` is how many rows a matrix has.
  Result<Empty> prepare(const DoubleValue& in) {
    const auto n = static_cast<std::int64_t>(in.value());
    const auto bytes = static_cast<std::size_t>(n * n) * 2 * sizeof(float);
    for (std::size_t i = 0; i < lanes; ++i) {
      GPUACTORS_LET(stream, gpu().make_stream());
      GPUACTORS_LET(pinned, gpu().host_buffer(bytes));
      GPUACTORS_LET(target, stream.allocate(bytes));
      GPUACTORS_LET(a, stream.tensor(DType::f32, {n, n}));
      GPUACTORS_LET(c, stream.tensor(DType::f32, {n, n}));
      GPUACTORS_TRY(stream.zero(a));
      GPUACTORS_TRY(stream.synchronize());
      lanes_.push_back({std::move(pinned), std::move(target), std::move(a), std::move(c),
                        std::make_unique<Stream>(std::move(stream))});
    }
    return Empty{};
  }

  /// Copies and multiplies on the next of its streams.
  Future<Empty> step(const Empty&) {
    auto& lane = lanes_[next_++ % lanes_.size()];
    // The message before it here is done first: what it copies and computes must not be touched.
    lane.answer();
    const auto turn = ++lane.turn;
    auto future = lane.done.emplace().future();
    auto queued = copy(lane);
    if (queued)
      queued = multiply(lane);
    if (queued)
      queued = lane.stream->notify([&lane, turn, thread = own_thread()](const Result<void>&) {
        thread.post([&lane, turn] { lane.told(turn); });
      });
    if (!queued)
      lane.answer(queued);
    return future;
  }

  /// Microseconds of a copy alone, and of a product alone.
  Result<DoubleValue> copy_alone(const DoubleValue& times) {
    return alone(static_cast<int>(times.value()), [this](auto& lane) { return copy(lane); });
  }

  Result<DoubleValue> multiply_alone(const DoubleValue& times) {
    return alone(static_cast<int>(times.value()), [this](auto& lane) { return multiply(lane); });
  }

private:
  struct Lane {
    HostBuffer pinned;
    Buffer target;
    Tensor a;
    Tensor c;
    std::unique_ptr<Stream> stream;
    /// Of the message that has no answer yet.
    std::optional<Promise<Empty>> done = {};
    /// Of how many messages it was that of the last one.
    std::uint64_t turn = 0;

    /// The work of that message is done. It may have its answer by now, and the lane be another one's: to answer that
    /// would be to wait for it.
    void told(std::uint64_t of_turn) {
      if (turn == of_turn)
        answer();
    }

    /// Answers it, once its work is done.
    /// @param queued whether there is such work.
    void answer(const Result<void>& queued = {}) {
      if (!done)
        return;
      const auto end = queued ? stream->synchronize() : queued;
      done->set(end ? Result<Empty>{Empty{}} : Result<Empty>{fail(end.error())});
      done.reset();
    }
  };

  static Result<void> copy(Lane& lane) {
    return lane.stream->upload(lane.target.data(), lane.pinned.data(), lane.target.bytes());
  }

  static Result<void> multiply(Lane& lane) {
    return lane.stream->gemm(lane.a, lane.a, lane.c);
  }

  template <class F>
  Result<DoubleValue> alone(int times, F&& queue) {
    auto& lane = lanes_.front();
    Result<void> outcome = queue(lane);
    if (outcome)
      outcome = lane.stream->synchronize();
    DoubleValue reply;
    reply.set_value(median_us(times, [&] {
      if (outcome)
        outcome = queue(lane);
      if (outcome)
        outcome = lane.stream->synchronize();
    }));
    if (!outcome)
      return fail(outcome.error());
    return reply;
  }

  std::vector<Lane> lanes_;
  std::size_t next_ = 0;
};

GPUACTORS_ACTOR("gpu.overlapper", Overlapper)
    .method("prepare", &Overlapper::prepare)
    .method("step", &Overlapper::step)
    .method("copy_alone", &Overlapper::copy_alone)
    .method("multiply_alone", &Overlapper::multiply_alone);

/// Microseconds of a message, with several on their way.
double in_flight(ActorRef& actor, int messages) {
  std::deque<Future<Empty>> futures;
  const auto start = now_us();
  for (int i = 0; i < messages; ++i) {
    if (futures.size() == flying) {
      must(futures.front().get());
      futures.pop_front();
    }
    futures.push_back(actor.call<Empty>("step", Empty{}));
  }
  for (auto& future : futures)
    must(future.get());
  return (now_us() - start) / messages;
}

} // namespace

int measure_overlap(bool smoke) {
  auto opened = Cluster::embed({.devices = "cuda"});
  if (!opened) {
    fmt::print(stderr, "gpu_actors: no GPU to measure on: {}\n", opened.error().message());
    return no_gpu;
  }
  auto actor = must(opened->spawn("gpu.overlapper", Empty{}, {.gpus = 1}));
  DoubleValue in;
  // On an H200 a product of as many takes about as long as the copy of two such matrices.
  in.set_value(smoke ? 64 : 3'072);
  must(actor.call<Empty>("prepare", in).get());
  in.set_value(smoke ? 2 : 20);
  const auto copy = must(actor.call<DoubleValue>("copy_alone", in).get()).value();
  const auto product = must(actor.call<DoubleValue>("multiply_alone", in).get()).value();
  const auto messages = smoke ? 6 : 200;
  (void)in_flight(actor, smoke ? 3 : 20);
  const auto message = in_flight(actor, messages);
  // Where the two take about as long, this is far from one after the other; where they do not, nobody can do better.
  const auto ideal = std::max(copy, product);
  constexpr double target = 1.3;
  fmt::print("a copy takes {:.2f} ms and a product {:.2f} ms; with {} messages in flight {:.2f} ms a message: ideal "
             "are {:.2f}, "
             "one after the other {:.2f} (target: at most {} of the ideal)\n",
             copy / 1e3, product / 1e3, flying, message / 1e3, ideal / 1e3, (copy + product) / 1e3, target);
  return message <= target * ideal || smoke ? 0 : 1;
}

} // namespace gpuactors::gpu
