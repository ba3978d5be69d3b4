#include "fixtures.hpp"

#include <stdexcept>

namespace gpuactors::test {

Gate& gate() {
  static Gate instance;
  return instance;
}

namespace {

/// Keeps a sum; counts, fails, waits and streams on demand.
class Accumulator : public Actor {
public:
  Accumulator(Init init, const Number& start) : Actor(std::move(init)), sum_(start.value()) {
    if (start.value() == -2)
      value_or_throw(Result<void>{fail(Errc::out_of_memory, "no room for -2")});
    if (start.value() == -3)
      throw FailedResult{Error{Errc::worker_died, "another actor has died"}};
    if (start.value() < 0)
      throw std::invalid_argument("the start is negative");
  }

  Number add(const Number& in) {
    sum_ += in.value();
    return number(sum_);
  }

  Result<Number> refuse(const Text& in) {
    return fail(Errc::invalid_argument, in.text());
  }

  Number raise(const Text& in) {
    if (in.text() == "queue_full")
      throw FailedResult{Error{Errc::queue_full, "no room for more"}};
    throw std::runtime_error(in.text());
  }

  Number wait(const Number& in) {
    gate().pass();
    return in;
  }

  Result<Number> wait_for_stop(const Number& in) {
    gate().pass();
    while (!stop_requested())
      std::this_thread::yield();
    return number(in.value());
  }

  void count(const Number& in, ReplyStream<Number>& out) {
    for (int i = 0; i < static_cast<int>(in.value()); ++i)
      if (!out.write(number(i)))
        return;
  }

  Future<Number> later(const Number& in) {
    promises_.emplace_back();
    last_ = in.value();
    return promises_.back().future();
  }

  Future<Number> delegate(const Number& in) {
    return Cluster::from(*this).submit<Number>("wait_for_stop", in, {.gpus = 1});
  }

  Future<Number> nothing(const Number&) noexcept {
    return {};
  }

  Number fulfil(const Number& in) {
    for (auto& promise : promises_)
      promise.set(number(last_));
    promises_.clear();
    return in;
  }

private:
  double sum_;
  double last_ = 0;
  std::vector<Promise<Number>> promises_;
};

/// Owns whole devices.
class Whole : public GPUActor {
public:
  using GPUActor::GPUActor;

  Names ids(const google::protobuf::Empty&) {
    Names result;
    for (std::size_t i = 0; i < gpu_count(); ++i)
      result.add_names(std::to_string(gpu(i).device().index));
    return result;
  }
};

/// Is not there before the gate is open.
class Late : public Actor {
public:
  explicit Late(Init init) : Actor(std::move(init)) {
    gate().pass();
  }
};

/// Owns a share; allocates on demand.
class Fraction : public FractionalGPUActor {
public:
  using FractionalGPUActor::FractionalGPUActor;

  Names ids(const google::protobuf::Empty&) {
    Names result;
    result.add_names(std::to_string(gpu().device().index));
    return result;
  }

  Result<Number> allocate(const Number& bytes) {
    GPUACTORS_LET(buffer, gpu().stream().allocate(static_cast<std::size_t>(bytes.value())));
    buffers_.push_back(std::move(buffer));
    return number(static_cast<double>(gpu().memory_used()));
  }

  Result<TensorMessage> share(const Vector& in) {
    const std::vector<float> values(in.values().begin(), in.values().end());
    GPUACTORS_LET(tensor, gpu().stream().tensor_from(values, {static_cast<std::int64_t>(values.size())}));
    GPUACTORS_LET(shared, tensors().put(std::move(tensor), gpu().stream()));
    TensorMessage result;
    *result.mutable_tensor() = std::move(shared).hand_over();
    return result;
  }

private:
  std::vector<Buffer> buffers_;
};

void define_tasks(TypeRegistry& registry) {
  define_task(
      "echo", [](TaskContext&, const Text& in) { return in; }, registry);
  define_task(
      "refuse", [](TaskContext&, const Text& in) -> Result<Text> { return fail(Errc::out_of_memory, in.text()); },
      registry);
  define_task(
      "raise", [](TaskContext&, const Text& in) -> Text { throw std::runtime_error(in.text()); }, registry);
  define_task(
      "wait",
      [](TaskContext&, const Number& in) {
        gate().pass();
        return in;
      },
      registry);
  define_task(
      "wait_for_stop",
      [](TaskContext& ctx, const Number& in) {
        gate().pass();
        while (!ctx.stop_requested())
          std::this_thread::yield();
        return in;
      },
      registry);
  define_task(
      "count",
      [](TaskContext&, const Number& in, ReplyStream<Number>& out) -> Result<void> {
        for (int i = 0; i < static_cast<int>(in.value()); ++i)
          GPUACTORS_TRY(out.write(number(i)));
        return {};
      },
      registry);
  define_task(
      "share_of",
      [](TaskContext& ctx, const google::protobuf::Empty&) {
        return number(ctx.gpu_count() > 0 ? ctx.lease().devices[0].share.to_double() : 0);
      },
      registry)
      .needs({.gpus = 0.25});
  define_task(
      "spin",
      [](TaskContext&, const Number& milliseconds) {
        const auto end = Clock::now() + std::chrono::milliseconds{static_cast<int>(milliseconds.value())};
        while (Clock::now() < end)
          std::this_thread::yield();
        return milliseconds;
      },
      registry);
  define_task(
      "leak",
      [](TaskContext& ctx, const Number& bytes) -> Result<Number> {
        GPUACTORS_LET(buffer, ctx.gpu().stream().allocate(static_cast<std::size_t>(bytes.value())));
        buffer.release();
        return number(static_cast<double>(ctx.gpu().memory_used()));
      },
      registry);
  define_task(
      "recurse",
      [](TaskContext& ctx, const Number& depth) -> Result<Number> {
        if (depth.value() <= 0)
          return number(0);
        auto cluster = Cluster::from(ctx);
        GPUACTORS_LET(
            below,
            cluster.submit<Number>("recurse", number(depth.value() - 1), {.gpus = ctx.gpu_count() > 0 ? 1.0 : 0.0})
                .get());
        return number(below.value() + 1);
      },
      registry);
}

} // namespace

std::shared_ptr<const TypeRegistry> types() {
  static const auto registry = [] {
    auto made = std::make_shared<TypeRegistry>();
    define_tasks(*made);
    define_actor<Accumulator, Number>("accumulator", *made)
        .method("add", &Accumulator::add)
        .method("refuse", &Accumulator::refuse)
        .method("raise", &Accumulator::raise)
        .method("wait", &Accumulator::wait)
        .method("wait_for_stop", &Accumulator::wait_for_stop)
        .method("count", &Accumulator::count)
        .method("later", &Accumulator::later)
        .method("nothing", &Accumulator::nothing)
        .method("delegate", &Accumulator::delegate)
        .method("fulfil", &Accumulator::fulfil);
    define_actor<Late>("late", *made);
    define_actor<Whole>("whole", *made).method("ids", &Whole::ids);
    define_actor<Fraction>("half", *made).needs({.gpus = 0.5}).method("ids", &Fraction::ids);
    define_actor<Fraction>("fraction", *made)
        .method("ids", &Fraction::ids)
        .method("allocate", &Fraction::allocate)
        .method("share", &Fraction::share);
    return made;
  }();
  return registry;
}

Cluster embed(const std::string& devices) {
  EmbedOptions options;
  options.devices = devices;
  options.registry = types();
  return must(Cluster::embed(std::move(options)));
}

Cluster embed(std::shared_ptr<const TypeRegistry> registry) {
  EmbedOptions options;
  options.devices = "host:1x64MiB";
  options.registry = std::move(registry);
  return must(Cluster::embed(std::move(options)));
}

} // namespace gpuactors::test
