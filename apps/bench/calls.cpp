// Calls of embedded actors and tasks, beside requests to a plain CAF actor in the same actor system.
#include "floor.hpp"
#include "rows.hpp"

#include <gpuactors/bench/messages.pb.h>
#include <gpuactors/gpuactors.hpp>

#include <cmath>
#include <cstdint>
#include <vector>

namespace gpuactors::bench {

namespace {

class Echo : public Actor {
public:
  using Actor::Actor;

  Small echo(const Small& in) {
    return in;
  }
};

/// Answers all of its callers together, an item for each in a step.
class Generator : public Actor {
public:
  using Actor::Actor;

  Result<void> generate(const Small& count, ReplyStream<Small>& out) {
    GPUACTORS_LET(kept, out.keep());
    running_.push_back({count.n(), std::move(kept)});
    if (running_.size() == 1)
      post([this] { step(); });
    return {};
  }

private:
  struct Running {
    std::int64_t left;
    OpenStream<Small> out;
  };

  void step() {
    for (auto& one : running_) {
      Small item;
      item.set_n(one.left);
      if (auto written = one.out.write(std::move(item)); !written)
        one.out.finish(written.error());
      else if (--one.left == 0)
        one.out.finish();
    }
    std::erase_if(running_, [](const Running& one) { return one.out.stop_requested(); });
    if (!running_.empty())
      post([this] { step(); });
  }

  std::vector<Running> running_;
};

/// A layer of a network, for the row of one call, or for those of all that wait.
class Layer : public FractionalGPUActor {
public:
  explicit Layer(Init init) : FractionalGPUActor(std::move(init)) {
    const std::vector<float> values(static_cast<std::size_t>(width * width), 1.0F / width);
    weights_ = value_or_throw(gpu().stream().tensor_from(values, {width, width}));
  }

  Result<Small> one(const Small& in) {
    GPUACTORS_LET(sums, apply({in.n()}));
    return sums.front();
  }

  Result<std::vector<Small>> all(const BatchOf<Small>& batch) {
    std::vector<std::int64_t> numbers;
    for (const auto& in : batch)
      numbers.push_back(in.n());
    return apply(numbers);
  }

private:
  static constexpr std::int64_t width = 1024;

  /// Each number, as often as the layer is wide, through the layer.
  Result<std::vector<Small>> apply(const std::vector<std::int64_t>& numbers) {
    const auto rows = static_cast<std::int64_t>(numbers.size());
    std::vector<float> values;
    values.reserve(numbers.size() * width);
    for (const auto number : numbers)
      values.insert(values.end(), width, static_cast<float>(number));
    auto& stream = gpu().stream();
    GPUACTORS_LET(x, stream.tensor_from(values, {rows, width}));
    GPUACTORS_LET(y, stream.tensor(DType::f32, {rows, width}));
    GPUACTORS_TRY(stream.gemm(x, weights_, y));
    GPUACTORS_LET(result, stream.to_host<float>(y));
    std::vector<Small> answers(numbers.size());
    for (std::size_t i = 0; i < answers.size(); ++i)
      answers[i].set_n(std::llround(result[i * width]));
    return answers;
  }

  Tensor weights_;
};

GPUACTORS_ACTOR("bench.layer", Layer).method("one", &Layer::one).batch_method("all", &Layer::all, {.max_size = 64});
GPUACTORS_ACTOR("bench.echo", Echo).method("echo", &Echo::echo);
GPUACTORS_ACTOR("bench.generator", Generator).method("generate", &Generator::generate);
GPUACTORS_TASK("bench.echo", [](TaskContext&, const Small& in) { return in; });

/// A cluster with one actor of ours and one plain actor, in one actor system.
struct CallBench {
  Cluster cluster = check(Cluster::embed({.devices = "host:1x1GiB"}));
  ActorRef actor = check(cluster.spawn("bench.echo", google::protobuf::Empty{}, {.gpus = 0.5}));
  LocalFloor plain{cluster};
};

constexpr int lone_calls = 5'000;
constexpr int flying = 1'000;
constexpr int rounds = 50;
constexpr int streams = 64;
constexpr int items = 1'000;

Small small(std::int64_t n) {
  Small message;
  message.set_n(n);
  return message;
}

double plain_lone(CallBench& bench) {
  return bench.plain.ask(lone_calls, 1);
}

double plain_rate(CallBench& bench) {
  return 1e6 / bench.plain.ask(rounds * flying, flying);
}

double call_lone(CallBench& bench) {
  const auto start = now_ns();
  for (int i = 0; i < lone_calls; ++i)
    check(bench.actor.call<Small>("echo", small(i)).get());
  return (now_ns() - start) / lone_calls / 1'000;
}

double task_lone(CallBench& bench) {
  const auto start = now_ns();
  for (int i = 0; i < lone_calls; ++i)
    check(bench.cluster.submit<Small>("bench.echo", small(i), {.gpus = 0.25}).get());
  return (now_ns() - start) / lone_calls / 1'000;
}

/// Items that a second brings to one reader of streams that are all open at once.
double item_rate(const ActorRef& generator) {
  std::vector<StreamReader<Small>> readers;
  const auto start = now_ns();
  for (int i = 0; i < streams; ++i)
    readers.push_back(generator.stream<Small>("generate", small(items)));
  for (int i = 0; i < items; ++i)
    for (auto& reader : readers)
      check(reader.next());
  return streams * items / (now_ns() - start) * 1e9;
}

template <class Start>
double call_rate(Start&& start_one, int times = rounds) {
  std::vector<Future<Small>> futures;
  futures.reserve(flying);
  const auto start = now_ns();
  for (int round = 0; round < times; ++round) {
    futures.clear();
    for (int i = 0; i < flying; ++i)
      futures.push_back(start_one(i));
    for (auto& future : futures)
      check(future.get());
  }
  return times * flying / (now_ns() - start) * 1e9;
}

/// Rows that a second brings through a layer, by calls of this method.
double layer_rate(const ActorRef& layer, const char* method) {
  return call_rate(
      [&](int i) {
        return layer.call<Small>(method, small(i)).transform([i](const Small& sum) -> Result<Small> {
          return sum.n() == i ? Result<Small>{sum} : fail(Errc::internal, "the layer has computed something else");
        });
      },
      3);
}

} // namespace

std::vector<Benchmark> call_benchmarks() {
  auto with_bench = [](auto run) {
    return [run](int repeat) {
      CallBench bench;
      return run(bench, repeat);
    };
  };
  return {
      {"call_lone", with_bench([](CallBench& bench, int repeat) {
         auto row = measure(
             "call_lone", "us", repeat, [&] { return call_lone(bench); }, [&] { return plain_lone(bench); });
         row.bound = 1.3;
         return row;
       })},
      {"call_1000_in_flight", with_bench([](CallBench& bench, int repeat) {
         auto row = measure(
             "call_1000_in_flight", "1/s", repeat,
             [&] { return call_rate([&](int i) { return bench.actor.call<Small>("echo", small(i)); }); },
             [&] { return plain_rate(bench); });
         row.bound = 0.15;
         row.at_most = false;
         return row;
       })},
      {"call_batched_1000_in_flight", with_bench([](CallBench& bench, int repeat) {
         const auto layer = check(bench.cluster.spawn("bench.layer", google::protobuf::Empty{}, {.gpus = 0.5}));
         auto row = measure(
             "call_batched_1000_in_flight", "1/s", repeat, [&] { return layer_rate(layer, "all"); },
             [&] { return layer_rate(layer, "one"); });
         row.bound = 2;
         row.at_most = false;
         return row;
       })},
      {"stream_items_64_open", with_bench([](CallBench& bench, int repeat) {
         auto generator = check(bench.cluster.spawn("bench.generator", google::protobuf::Empty{}, {.gpus = 0.25}));
         auto row = measure(
             "stream_items_64_open", "1/s", repeat, [&] { return item_rate(generator); },
             [&] { return plain_rate(bench); });
         row.bound = 0.5;
         row.at_most = false;
         return row;
       })},
      {"task_lone", with_bench([](CallBench& bench, int repeat) {
         auto row = measure(
             "task_lone", "us", repeat, [&] { return task_lone(bench); }, [&] { return plain_lone(bench); });
         row.bound = 4;
         return row;
       })},
      {"task_1000_in_flight", with_bench([](CallBench& bench, int repeat) {
         auto row = measure(
             "task_1000_in_flight", "1/s", repeat,
             [&] {
               return call_rate(
                   [&](int i) { return bench.cluster.submit<Small>("bench.echo", small(i), {.gpus = 0.25}); });
             },
             [&] { return plain_rate(bench); });
         row.bound = 0.15;
         row.at_most = false;
         return row;
       })},
  };
}

} // namespace gpuactors::bench
