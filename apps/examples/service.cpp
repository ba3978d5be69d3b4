// A service that survives: its actor starts again when it dies, as often as need be, and finds what it saved. A caller
// whose call the death interrupted waits a moment longer, and gets its answer.
#include "examples.pb.h"

#include <gpuactors/gpuactors.hpp>
#include <gpuactors/kernels/elementwise.hpp>

#include <fmt/format.h>

using examples::Number;
using examples::Vector;
using namespace std::chrono_literals;

// Doubles vectors on its share of a device, and counts for good how many it has served.
class Doubler : public gpuactors::FractionalGPUActor {
public:
  // Each life begins here. What is slow, such as loading a model onto the device, belongs here too.
  Doubler(gpuactors::Init init, const google::protobuf::Empty&) : FractionalGPUActor(std::move(init)) {
    if (const auto state = gpuactors::value_or_throw(saved<Number>()))
      served_ = state->value();
    ever_.set(served_);
  }

  gpuactors::Result<Vector> twice(const Vector& in) {
    auto& stream = gpu().stream();
    GPUACTORS_LET(x, stream.tensor_from(in.values()));
    const auto count = static_cast<std::uint64_t>(x.size());
    GPUACTORS_TRY(stream.launch(gpuactors::kernels::scale<float>(), count, 2.0F, x));
    GPUACTORS_LET(doubled, stream.to_host<float>(x));
    Number served;
    served.set_value(++served_);
    ever_.set(served_);
    numbers_.add(static_cast<double>(count));
    GPUACTORS_TRY(save(served)); // small, and not in every call of a busy service: each save is a message
    Vector out;
    out.mutable_values()->Add(doubled.begin(), doubled.end());
    return out;
  }

  // How many it has served, one item after the other: a reply in parts.
  gpuactors::Result<void> history(const google::protobuf::Empty&, gpuactors::ReplyStream<Number>& out) {
    for (double number = 1; number <= served_; ++number) {
      Number item;
      item.set_value(number);
      GPUACTORS_TRY(out.write(item)); // waits while the reader is slow; an error when it has gone
    }
    return {};
  }

private:
  double served_ = 0;
  // For Prometheus (`gpuactors metrics`): sent once a second, if they have changed.
  gpuactors::Metrics::Counter numbers_ = gpuactors::value_or_throw(metrics().counter("doubler_numbers_total"));
  gpuactors::Metrics::Gauge ever_ = gpuactors::value_or_throw(metrics().gauge("doubler_served"));
};

GPUACTORS_ACTOR("doubler", Doubler).method("twice", &Doubler::twice).method("history", &Doubler::history);

gpuactors::Result<void> run(int argc, char** argv) {
  GPUACTORS_LET(cluster, gpuactors::Cluster::open(argc, argv));
  gpuactors::Options options;
  options.gpus = 0.25;
  options.name = "doubler";
  options.max_restarts = -1;        // always; pauses between crashes grow to 30 s
  options.restart_window = 1h;      // a life that lasts an hour makes the deaths before it good
  options.max_task_retries = 3;     // a call that a death interrupts is made again: it must do no harm twice
  options.max_pending_calls = 1000; // more than that are refused with queue_full, and do not pile up
  GPUACTORS_LET(doubler, cluster.spawn("doubler", {}, options));

  Vector in;
  in.add_values(21);
  for (int i = 0; i < 3; ++i) {
    GPUACTORS_LET(out, doubler.call<Vector>("twice", in, 10s).get());
    fmt::print("twice: {}\n", out.values(0));
  }
  // As a crash of its process would: it ends, and starts again. In a cluster of processes, try kill -9.
  GPUACTORS_TRY(cluster.kill(doubler, {.restart = true}));
  GPUACTORS_LET(again, doubler.call<Vector>("twice", in, 10s).get());
  fmt::print("after its restart: {}\n", again.values(0));

  auto history = doubler.stream<Number>("history");
  int served = 0;
  GPUACTORS_TRY(history.for_each([&](const Number& item) { served = static_cast<int>(item.value()); }, 10s));
  fmt::print("served in both lives: {}\n", served);
  return {};
}

int main(int argc, char** argv) {
  return gpuactors::main(argc, argv, run);
}
