// Somebody else's engine under a lease: the pattern for frameworks that allocate and start threads by themselves
// (docs/guide/frameworks.md). The engine here is a stand-in, and computes the geometric mean of each row. This file is
// a plugin:
//
//   gpuactors-serve --model mean,actor=examples/engine,set=columns=3 --plugin ./example_served_engine.so
#include <gpuactors/gpuactors.hpp>
#include <gpuactors/v1/serving.pb.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

using google::protobuf::Empty;
using gpuactors::Errc;
using gpuactors::Result;
using gpuactors::value_or_throw;
namespace v1 = gpuactors::v1;

// -- what a framework is like: it has options, memory and threads of its own, and throws -----------

namespace engine {

struct Options {
  std::size_t columns = 1;
  std::size_t most_rows = 1;
  int threads = 1;
  std::size_t most_bytes = 0;
};

std::size_t bytes_needed(const Options& options) {
  return options.most_rows * options.columns * sizeof(double);
}

class Engine {
public:
  explicit Engine(const Options& options) : options_(options) {
    if (bytes_needed(options) > options.most_bytes)
      throw std::bad_alloc();
    logarithms_.resize(options.most_rows * options.columns);
  }

  void run(const float* rows, std::size_t count, float* means) {
    if (std::any_of(rows, rows + count * options_.columns, [](float value) { return !(value >= 0); }))
      throw std::domain_error("a geometric mean is of numbers from 0 on");
    const auto each =
        (count + static_cast<std::size_t>(options_.threads) - 1) / static_cast<std::size_t>(options_.threads);
    std::vector<std::jthread> threads;
    for (auto begin = each; begin < count; begin += each)
      threads.emplace_back([=, this] { run_part(rows, begin, std::min(begin + each, count), means); });
    run_part(rows, 0, std::min(each, count), means);
  }

private:
  void run_part(const float* rows, std::size_t begin, std::size_t end, float* means) {
    for (auto row = begin; row < end; ++row) {
      double sum = 0;
      for (auto i = row * options_.columns; i < (row + 1) * options_.columns; ++i)
        sum += logarithms_[i] = std::log(static_cast<double>(rows[i]));
      means[row] = static_cast<float>(std::exp(sum / static_cast<double>(options_.columns)));
    }
  }

  Options options_;
  std::vector<double> logarithms_;
};

} // namespace engine

// -- the actor that gives it a share of a device ---------------------------------------------------

namespace {

class Mean : public gpuactors::FractionalGPUActor {
public:
  Mean(gpuactors::Init init, const v1::ReplicaConfig& config) : FractionalGPUActor(std::move(init)) {
    engine::Options options;
    if (const auto columns = config.settings().find("columns"); columns != config.settings().end())
      options.columns = std::stoul(columns->second);
    options.most_rows = static_cast<std::size_t>(config.max_rows());
    // Threads: on a host device, the share of the lease is a number of them. On a GPU, units are SMs, and the framework
    // is given the device's ordinal, gpu().device().ordinal, and the stream of gpu().stream().native().
    options.threads = std::max(1, granted().units);
    // Memory: what the framework will allocate is reserved first, so a lease that is too small is refused here, with
    // the numbers. Then the framework is told the same limit, and keeps it: nobody else does.
    reserved_ = value_or_throw(gpuactors::Reservation::of(gpu().quota(), engine::bytes_needed(options)));
    options.most_bytes = reserved_.bytes();
    columns_ = options.columns;
    engine_ = std::make_unique<engine::Engine>(options);
  }

  v1::ReplicaDescription describe(const Empty&) {
    v1::ReplicaDescription description;
    auto& input = *description.add_inputs();
    input.set_name("x");
    input.set_datatype("FP32");
    input.add_row_shape(static_cast<std::int64_t>(columns_));
    auto& output = *description.add_outputs();
    output.set_name("mean");
    output.set_datatype("FP32");
    description.set_memory_used_bytes(gpu().memory_used());
    return description;
  }

  // Errors: after invalid_argument, which blames a request, and out_of_memory, the requests of the batch run again one
  // by one. Others fail the batch; what the framework throws otherwise becomes task_failed by itself.
  Result<v1::ReplicaReply> infer(const v1::ReplicaBatch& batch) {
    const auto rows = static_cast<std::size_t>(batch.rows());
    std::vector<float> values(rows * columns_);
    std::memcpy(values.data(), batch.inputs(0).data(), batch.inputs(0).size());
    std::vector<float> means(rows);
    try {
      engine_->run(values.data(), rows, means.data());
    } catch (const std::domain_error& error) {
      return gpuactors::fail(Errc::invalid_argument, error.what());
    } catch (const std::bad_alloc&) {
      return gpuactors::fail(Errc::out_of_memory, "the engine has no memory left");
    }
    v1::ReplicaReply reply;
    reply.add_outputs(means.data(), means.size() * sizeof(float));
    return reply;
  }

private:
  std::size_t columns_ = 1;
  // Before the engine, so that it is given back after the engine has freed its memory.
  gpuactors::Reservation reserved_;
  std::unique_ptr<engine::Engine> engine_;
};

GPUACTORS_ACTOR("examples/engine", Mean, v1::ReplicaConfig)
    .method("describe", &Mean::describe)
    .method("infer", &Mean::infer);

} // namespace
