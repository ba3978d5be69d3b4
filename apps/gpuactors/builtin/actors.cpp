// The built-in actors: counter, which keeps a number and can be made to crash, and holder, which holds device memory.
#include "support.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <thread>

namespace gpuactors::builtin {

namespace {

/// Never returns, even when it is asked to stop.
[[noreturn]] void hang() {
  for (;;)
    std::this_thread::sleep_for(std::chrono::hours{1});
}

/// Keeps a sum, and publishes it. Runs under any lease.
class Counter : public Actor {
public:
  using Actor::Actor;

  Result<v1::CounterValue> add(const v1::Add& in) {
    std::int64_t sum = 0;
    if (__builtin_add_overflow(value_, in.n(), &sum))
      return fail(Errc::invalid_argument, fmt::format("{} more than {} cannot be counted in 64 bits", in.n(), value_));
    value_ = sum;
    published_.set(static_cast<double>(sum));
    additions_.add();
    return get({});
  }

  /// Adds 1 `n` times, and streams the sum after each time.
  Result<void> steps(const v1::Add& in, ReplyStream<v1::CounterValue>& out) {
    if (in.n() < 0)
      return fail(Errc::invalid_argument, fmt::format("n is {}: a number of steps, 0 or more, is expected", in.n()));
    v1::Add one;
    one.set_n(1);
    for (std::int64_t i = 0; i < in.n(); ++i) {
      GPUACTORS_LET(value, add(one));
      GPUACTORS_TRY(out.write(std::move(value)));
    }
    return {};
  }

  v1::CounterValue get(const google::protobuf::Empty&) {
    v1::CounterValue out;
    out.set_value(value_);
    return out;
  }

  v1::Where where(const google::protobuf::Empty&) {
    v1::Where out;
    out.set_pid(static_cast<std::uint32_t>(getpid()));
    out.set_node(lease().node);
    out.set_restarts(restarts());
    describe_all(*this, out);
    describe_accelerators(*this, out);
    return out;
  }

  Result<v1::Said> say(const v1::Say& in) {
    return builtin::say(in);
  }

  Result<void> crash(const v1::Crash& in) {
    if (in.how() == "abort")
      std::abort();
    if (in.how() == "segv")
      static_cast<void>(std::raise(SIGSEGV));
    if (in.how() == "throw")
      throw std::runtime_error("the counter was told to throw");
    if (in.how() == "hang")
      hang();
    return fail(Errc::invalid_argument, fmt::format("how is \"{}\": abort, segv, throw or hang is expected", in.how()));
  }

private:
  std::int64_t value_ = 0;
  Metrics::Gauge published_ = value_or_throw(metrics().gauge("counter_value"));
  Metrics::Counter additions_ = value_or_throw(metrics().counter("counter_additions_total"));
};

/// Holds memory of the first device of its lease.
class Holder : public Actor {
public:
  using Actor::Actor;

  Result<v1::Holding> allocate(const v1::Allocate& in) {
    GPUACTORS_LET(bytes, check_count("bytes", in.bytes(), 1));
    GPUACTORS_TRY(check_device("holder", gpu_count()));
    GPUACTORS_LET(buffer, gpu().stream().allocate(bytes));
    buffers_.push_back(std::move(buffer));
    return used({});
  }

  Result<v1::Holding> free(const v1::Free& in) {
    GPUACTORS_TRY(check_device("holder", gpu_count()));
    std::size_t held = 0;
    for (const auto& buffer : buffers_)
      held += buffer.bytes();
    if (in.bytes() < 0 || static_cast<std::uint64_t>(in.bytes()) > held)
      return fail(
          Errc::invalid_argument,
          fmt::format("bytes is {}: 0 (for everything) to {}, which the actor holds, are expected", in.bytes(), held));
    const auto wanted = in.bytes() == 0 ? held : static_cast<std::size_t>(in.bytes());
    for (std::size_t freed = 0; freed < wanted; buffers_.pop_back())
      freed += buffers_.back().bytes();
    GPUACTORS_TRY(gpu().stream().synchronize());
    return used({});
  }

  Result<v1::Holding> used(const google::protobuf::Empty&) {
    GPUACTORS_TRY(check_device("holder", gpu_count()));
    v1::Holding out;
    out.set_used_bytes(gpu().memory_used());
    out.set_limit_bytes(gpu().memory_limit());
    out.set_allocations(static_cast<std::uint32_t>(buffers_.size()));
    return out;
  }

private:
  std::vector<Buffer> buffers_;
};

GPUACTORS_ACTOR("counter", Counter)
    .method("add", &Counter::add)
    .method("get", &Counter::get)
    .method("steps", &Counter::steps)
    .method("where", &Counter::where)
    .method("say", &Counter::say)
    .method("crash", &Counter::crash);
GPUACTORS_ACTOR("holder", Holder)
    .method("allocate", &Holder::allocate)
    .method("free", &Holder::free)
    .method("used", &Holder::used);

} // namespace

} // namespace gpuactors::builtin
