// T8, T9: memory that a service cannot take beyond its own, and memory that comes back although nobody freed it.
#include "programs.hpp"
#include "reference.hpp"

#include <unistd.h>

#include <set>
#include <thread>

namespace tour {

using google::protobuf::Empty;
using gpuactors::ActorRef;
using gpuactors::Cluster;
using gpuactors::Errc;
using gpuactors::Init;
using gpuactors::Result;
using gpuactors::TaskContext;
using gpuactors::value_or_throw;

namespace {

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;
constexpr std::int64_t features = 256;

std::vector<float> service_weights() {
  return random_values(static_cast<std::size_t>(features * features), 8);
}

// -- the service: what a user writes --------------------------------------------------------------

/// Keeps a model on its share of a device and answers queries with it.
class Inference : public gpuactors::FractionalGPUActor {
public:
  Inference(Init init, const ServiceConfig& config)
    : FractionalGPUActor(std::move(init)),
      weights_(value_or_throw(gpu().stream().tensor_from(service_weights(), {features, features}))) {
    buffers_.push_back(value_or_throw(gpu().stream().allocate(config.model_bytes())));
  }

  Result<Reply> infer(const Query& query) {
    auto& stream = gpu().stream();
    const std::vector<float> values(query.values().begin(), query.values().end());
    GPUACTORS_LET(x, stream.tensor_from(values, {1, features}));
    GPUACTORS_LET(y, stream.tensor(gpuactors::DType::f32, {1, features}));
    GPUACTORS_TRY(stream.gemm(x, weights_, y));
    GPUACTORS_LET(answer, stream.to_host<float>(y));
    Reply reply;
    reply.mutable_values()->Add(answer.begin(), answer.end());
    return reply;
  }

  Result<ReserveReply> reserve(const ReserveRequest& request) {
    GPUACTORS_LET(buffer, gpu().stream().allocate(request.bytes()));
    buffers_.push_back(std::move(buffer));
    ReserveReply reply;
    reply.set_used_bytes(gpu().memory_used());
    reply.set_limit_bytes(gpu().memory_limit());
    return reply;
  }

private:
  gpuactors::Tensor weights_;
  std::vector<gpuactors::Buffer> buffers_;
};

GPUACTORS_ACTOR("inference", Inference, ServiceConfig)
    .method("infer", &Inference::infer)
    .method("reserve", &Inference::reserve);

// -- the tasks ------------------------------------------------------------------------------------

/// Allocates and never frees: `release` gives up even the handle.
GPUACTORS_TASK("leak", [](TaskContext& ctx, const LeakRequest& in) -> Result<LeakReply> {
  GPUACTORS_LET(buffer, ctx.gpu().stream().allocate(in.bytes()));
  GPUACTORS_TRY(ctx.gpu().stream().fill_bytes(buffer.data(), 1, in.bytes()));
  GPUACTORS_TRY(ctx.gpu().stream().synchronize());
  buffer.release();
  LeakReply reply;
  reply.set_used_bytes(ctx.gpu().memory_used());
  reply.set_pid(static_cast<std::uint32_t>(getpid()));
  return reply;
});

GPUACTORS_TASK("free_memory", [](TaskContext& ctx, const Empty&) -> Result<FreeMemory> {
  GPUACTORS_LET(memory, ctx.gpu().device_handle()->memory());
  FreeMemory reply;
  reply.set_bytes(memory.free_bytes);
  *reply.mutable_place() = place_of(ctx);
  return reply;
});

// -- the programs ---------------------------------------------------------------------------------

/// Asks `service` one question. @returns its answer's error against float64.
Result<double> ask(const ActorRef& service, std::uint64_t seed) {
  const auto x = random_values(static_cast<std::size_t>(features), seed);
  Query query;
  query.mutable_values()->Add(x.begin(), x.end());
  GPUACTORS_LET(reply, service.call<Reply>("infer", std::move(query)).get());
  const auto weights = service_weights();
  std::vector<double> expected(x.size(), 0.0);
  for (std::size_t in = 0; in < x.size(); ++in)
    for (std::size_t out = 0; out < x.size(); ++out)
      expected[out] += static_cast<double>(x[in]) * static_cast<double>(weights[in * x.size() + out]);
  const std::vector<float> values(reply.values().begin(), reply.values().end());
  return relative_error(values, expected);
}

/// Waits until a request of this name stands in the queue. @returns why it waits, empty if it does not.
Result<std::string> reason_in_queue(Cluster& cluster, const std::string& name) {
  const Stopwatch watch;
  while (watch.seconds() < 10) {
    GPUACTORS_LET(state, cluster.state());
    for (const auto& waiting : state.queue())
      if (waiting.name() == name)
        return waiting.reason().empty() ? "no reason given" : waiting.reason();
    std::this_thread::sleep_for(std::chrono::milliseconds{2});
  }
  return std::string{};
}

/// Has `greedy` ask for all of its quota once more, and looks at the error and at the neighbour.
Result<void> pass_the_quota(Row& row, const ActorRef& greedy, const ActorRef& neighbour, std::uint64_t quota) {
  GPUACTORS_LET(before, ask(neighbour, 81));
  ReserveRequest modest;
  modest.set_bytes(mebibyte);
  GPUACTORS_LET(state, greedy.call<ReserveReply>("reserve", modest).get());
  row.check(state.limit_bytes() >= quota && state.limit_bytes() < quota + quota / 100,
            "a limit of {} B was expected, {} came", quota, state.limit_bytes());
  ReserveRequest request;
  request.set_bytes(state.limit_bytes());
  const auto refused = greedy.call<ReserveReply>("reserve", request).get();
  const auto text = refused ? std::string{"an allocation"} : refused.error().message();
  row.result = fmt::format("asked for {} with {} of {} used: {}", gpuactors::format_bytes(request.bytes()),
                           gpuactors::format_bytes(state.used_bytes()), gpuactors::format_bytes(state.limit_bytes()),
                           refused ? "granted" : gpuactors::to_string(refused.error().code()));
  row.check(!refused && refused.error().code() == Errc::out_of_memory, "out_of_memory was expected, {} came", text);
  for (const auto number : {request.bytes(), state.used_bytes(), state.limit_bytes()})
    row.check(text.find(fmt::format("{} B", number)) != std::string::npos,
              "{} B was expected in the error (asked, used, limit): {}", number, text);
  GPUACTORS_LET(after, ask(neighbour, 82));
  row.check_error(before, 1e-5);
  row.check_error(after, 1e-5);
  return {};
}

/// What the driver of a GPU may keep for itself meanwhile: a leak that does not come back is 50 times as much.
std::uint64_t kept_by_driver(const Tour& tour) {
  return tour.machine().has_cuda() ? 8 * mebibyte : 0;
}

/// Leaks 100 times, all in one process: this one if `embedded`, else another. Looks at the free memory around that, of
/// which so much less may be left.
Result<void> leak_often(Row& row, Cluster& cluster, bool embedded, std::uint64_t less) {
  LeakRequest request;
  request.set_bytes(4 * mebibyte);
  // The first call may load what the device keeps for good.
  GPUACTORS_LET(first, cluster.submit<LeakReply>("leak", request, {.gpus = 1}).get());
  row.check((first.pid() == static_cast<std::uint32_t>(getpid())) == embedded,
            "{} process was expected, process {} came", embedded ? "this" : "another", first.pid());
  row.check(wait_until_free(cluster), "no lease was expected to be left");
  GPUACTORS_LET(before, cluster.submit<FreeMemory>("free_memory", Empty{}, {.gpus = 1}).get());
  int done = 0;
  for (int i = 0; i < 100; ++i) {
    GPUACTORS_LET(reply, cluster.submit<LeakReply>("leak", request, {.gpus = 1}).get());
    row.check(reply.used_bytes() == request.bytes(), "{} B in use were expected in call {}, {} came", request.bytes(),
              i + 1, reply.used_bytes());
    row.check(reply.pid() == first.pid(), "process {} was expected in call {}, {} came", first.pid(), i + 1,
              reply.pid());
    ++done;
  }
  row.check(wait_until_free(cluster), "no lease was expected to be left afterwards");
  GPUACTORS_LET(after, cluster.submit<FreeMemory>("free_memory", Empty{}, {.gpus = 1}).get());
  row.device = to_string(after.place());
  row.result = fmt::format("{} calls; free before {} B, after {} B", done, before.bytes(), after.bytes());
  row.check(after.bytes() + less >= before.bytes(), "at least {} B free were expected afterwards, {} came",
            before.bytes() - less, after.bytes());
  return {};
}

/// Leaks a few times, each time in a process of its own.
Result<void> leak_in_fresh_processes(Row& row, Cluster& cluster) {
  LeakRequest request;
  request.set_bytes(4 * mebibyte);
  gpuactors::Options options;
  options.gpus = 1;
  options.max_calls = 1;
  std::set<std::uint32_t> processes;
  constexpr std::size_t calls = 10;
  for (std::size_t i = 0; i < calls; ++i) {
    GPUACTORS_LET(reply, cluster.submit<LeakReply>("leak", request, options).get());
    processes.insert(reply.pid());
  }
  row.result = fmt::format("{} calls in {} processes", calls, processes.size());
  row.check(processes.size() == calls, "{} processes were expected, {} came", calls, processes.size());
  row.check(wait_until_free(cluster), "no lease was expected to be left afterwards");
  return {};
}

} // namespace

Result<void> run_t8(Tour& tour) {
  // 6 GiB of a 16 GiB device each, or as much of what a GPU has. Nearly all of it is accounting: pages are touched
  // only where something is written.
  GPUACTORS_LET(one, open_one(tour, tour.machine().has_cuda() ? "" : "host:1x16GiB"));
  auto& cluster = one.cluster;
  const auto& device = one.group.bundles[0].devices[0];
  const auto quota = device.memory_bytes / 16 * 6;
  ServiceConfig config;
  config.set_model_bytes(64 * mebibyte);

  auto& waits = tour.row("two services of 6/16 of the memory, a third waits");
  waits.device = fmt::format("device {}, {} each", device.index, gpuactors::format_bytes(quota));
  GPUACTORS_LET(first, cluster.spawn("inference", config, one.here({.memory_bytes = quota, .name = "first"})));
  GPUACTORS_LET(second, cluster.spawn("inference", config, one.here({.memory_bytes = quota, .name = "second"})));
  auto third = cluster.spawn_async("inference", config, one.here({.memory_bytes = quota, .name = "third"}));
  GPUACTORS_LET(reason, reason_in_queue(cluster, "third"));
  waits.check(!reason.empty(), "the third service was expected to wait in the queue, it does not");
  waits.check(!third.ready(), "the third service was expected to wait, it was answered");
  waits.result = "third waits: " + reason.substr(0, reason.find(':'));

  auto& row = tour.row("a service passes its own quota, the other answers on");
  row.device = waits.device;
  GPUACTORS_TRY(pass_the_quota(row, first, second, quota));

  auto& turn = tour.row("the first ends, the third gets its place");
  turn.device = waits.device;
  GPUACTORS_TRY(cluster.kill(first));
  GPUACTORS_LET(served, third.get(std::chrono::seconds{30}));
  GPUACTORS_LET(error, ask(served, 83));
  turn.result = "third answers";
  turn.check_error(error, 1e-5);
  return {};
}

Result<void> run_t9(Tour& tour) {
  // On a host device of 64 MiB sixteen leaks that did not come back would be the last ones.
  const auto device = tour.machine().has_cuda() ? tour.machine().exactly(1) : "host:1x64MiB";
  {
    auto& row = tour.row("leak 4 MiB, 100 times, in one process");
    GPUACTORS_LET(cluster, embed(device));
    GPUACTORS_TRY(leak_often(row, cluster, true, kept_by_driver(tour)));
  }
  auto& row = tour.row("the same in one worker of a cluster of processes");
  GPUACTORS_LET(processes, start_processes({.devices = device}));
  GPUACTORS_TRY(leak_often(row, processes.cluster(), false, kept_by_driver(tour)));
  auto& fresh = tour.row("the same with a fresh process for each call (max_calls = 1)");
  return leak_in_fresh_processes(fresh, processes.cluster());
}

} // namespace tour
