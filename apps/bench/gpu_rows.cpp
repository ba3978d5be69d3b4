// What GPU users wait for: tasks cold and warm, tensors from actor to actor, memory that is free again after a kill,
// actors on a share. In a cluster of processes; Ray's side is ray/gpu_rows.py, by the same names.
#include "gpu_rows.hpp"

#include "cuda/rows.hpp"
#include "remote_cluster.hpp"

#include <gpuactors/bench/messages.pb.h>
#include <gpuactors/device/discovery.hpp>
#include <gpuactors/gpuactors.hpp>

#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

namespace gpuactors::bench {

namespace {

using google::protobuf::Empty;

constexpr std::int64_t product_size = 256;
constexpr std::int64_t tensor_elements = 16 << 20; // 64 MiB of float32
constexpr std::int64_t held_bytes = 256 << 20;
constexpr double gpu_share = 0.4; // of a host device of 1 GiB, held_bytes fit into it
constexpr double ns_in_a_millisecond = 1e6;

/// A product of two small matrices and its result on the host: what a short GPU task does.
Result<void> multiply_small(Stream& stream) {
  static const std::vector<float> ones(static_cast<std::size_t>(product_size * product_size), 1.0F);
  GPUACTORS_LET(a, stream.tensor(DType::f32, {product_size, product_size}));
  GPUACTORS_LET(b, stream.tensor(DType::f32, {product_size, product_size}));
  GPUACTORS_LET(c, stream.tensor(DType::f32, {product_size, product_size}));
  // It waits once, for the result.
  GPUACTORS_TRY(stream.upload(a, ones));
  GPUACTORS_TRY(stream.upload(b, ones));
  GPUACTORS_TRY(stream.gemm(a, b, c));
  thread_local std::vector<float> values(ones.size());
  GPUACTORS_TRY(stream.fetch(values.data(), c.raw(), c.bytes()));
  if (values.back() != static_cast<float>(product_size))
    return fail(Errc::task_failed, "the product is wrong");
  return {};
}

GPUACTORS_TASK("bench.gpu_product", [](TaskContext& ctx, const Empty&) -> Result<Small> {
  GPUACTORS_TRY(multiply_small(ctx.gpu().stream()));
  return Small{};
});

class ShareHolder : public FractionalGPUActor {
public:
  using FractionalGPUActor::FractionalGPUActor;

  Result<Small> product(const Empty&) {
    GPUACTORS_TRY(multiply_small(gpu().stream()));
    return Small{};
  }

  /// Makes a tensor of 64 MiB whose every byte is `n`, for one who takes it.
  Result<v1::TensorRef> offer(const Small& n) {
    auto& stream = gpu().stream();
    GPUACTORS_LET(tensor, stream.tensor(DType::f32, {tensor_elements}));
    GPUACTORS_TRY(stream.fill_bytes(tensor, static_cast<std::uint8_t>(n.n())));
    GPUACTORS_LET(shared, tensors().put(std::move(tensor), stream));
    return std::move(shared).hand_over();
  }

  /// Has it on its own device; answers with its last byte.
  Result<Small> take(const v1::TensorRef& ref) {
    auto& stream = gpu().stream();
    GPUACTORS_LET(shared, tensors().get(ref));
    GPUACTORS_LET(tensor, shared.on(stream));
    std::uint8_t last = 0;
    GPUACTORS_TRY(stream.fetch(&last, static_cast<std::uint8_t*>(tensor.raw()) + tensor.bytes() - 1, 1));
    Small reply;
    reply.set_n(last);
    return reply;
  }

  /// Seconds that one copy of as much takes on the device itself.
  Result<Square> copy(const Empty&) {
    auto& stream = gpu().stream();
    GPUACTORS_LET(source, stream.tensor(DType::f32, {tensor_elements}));
    GPUACTORS_LET(target, stream.tensor(DType::f32, {tensor_elements}));
    GPUACTORS_TRY(stream.fill_bytes(source, 1));
    GPUACTORS_TRY(stream.copy(target, source)); // its pages are there from now on
    GPUACTORS_TRY(stream.synchronize());
    const auto start = now_ns();
    GPUACTORS_TRY(stream.copy(target, source));
    GPUACTORS_TRY(stream.synchronize());
    Square reply;
    reply.set_seconds((now_ns() - start) * 1e-9);
    return reply;
  }

  /// Keeps so many bytes of the device until its end.
  Result<Small> hold(const Small& bytes) {
    auto& stream = gpu().stream();
    GPUACTORS_LET(buffer, stream.allocate(static_cast<std::size_t>(bytes.n())));
    GPUACTORS_TRY(stream.fill_bytes(buffer.data(), 1, buffer.bytes()));
    GPUACTORS_TRY(stream.synchronize());
    held_ = std::move(buffer);
    return bytes;
  }

private:
  Buffer held_;
};

GPUACTORS_ACTOR("bench.share", ShareHolder)
    .method("product", &ShareHolder::product)
    .method("offer", &ShareHolder::offer)
    .method("take", &ShareHolder::take)
    .method("copy", &ShareHolder::copy)
    .method("hold", &ShareHolder::hold);

// -- the rows -------------------------------------------------------------------------------------

/// The first that is visible.
std::shared_ptr<Device> first_device() {
  return check(make_devices(check(parse_device_specs("cuda")), discovery_options("bench"))).front();
}

/// A cluster on the device that is measured, and a look at it from outside. One device: who knows of several would have
/// to ask where an actor was put.
class GpuBed {
public:
  explicit GpuBed(DeviceKind kind, bool floor_works = false)
    : device_(kind == DeviceKind::cuda ? first_device() : nullptr),
      remote_(RemoteOptions{.devices = spec(),
                            .link_timeout = link_timeout(kind),
                            .floor_device = floor_works ? spec() : std::string{}}) {
    // nop
  }

  [[nodiscard]] Cluster& cluster() noexcept {
    return remote_.cluster();
  }

  [[nodiscard]] ActorRef spawn(Isolation isolation) {
    return check(cluster().spawn("bench.share", Empty{}, {.gpus = gpu_share, .isolation = isolation}));
  }

  /// Bytes of the device that nobody has, as the device itself says; 0 where a process sees its own share only.
  [[nodiscard]] std::uint64_t free_bytes() const {
    return device_ == nullptr ? 0 : check(device_->memory()).free_bytes;
  }

  /// Milliseconds of a short task with nothing of ours in it: a request of plain CAF to another process, which does the
  /// work by the bare driver and cuBLAS. In a bed whose `floor_works`.
  [[nodiscard]] double bare_task_ms(int count) const {
    constexpr double us_in_a_millisecond = 1e3;
    return remote_.working_floor(count) / us_in_a_millisecond;
  }

  [[nodiscard]] bool idle() {
    return check(cluster().state()).leases_size() == 0;
  }

private:
  /// The driver of a chip takes seconds to start, and may keep all threads of its process meanwhile.
  static Duration link_timeout(DeviceKind kind) {
    return kind == DeviceKind::cuda ? 2 * limits::link_timeout : limits::link_timeout;
  }

  [[nodiscard]] std::string spec() const {
    return device_ != nullptr ? fmt::format("cuda:{}", device_->info().uuid) : "host:1x1GiB";
  }

  /// None for a host device.
  std::shared_ptr<Device> device_;
  Remote remote_;
};

double since_ms(double start) {
  return (now_ns() - start) / ns_in_a_millisecond;
}

double task_ms(GpuBed& bed, int max_calls) {
  const auto start = now_ns();
  (void)check(
      bed.cluster().submit<Small>("bench.gpu_product", Empty{}, {.gpus = gpu_share, .max_calls = max_calls}).get());
  return since_ms(start);
}

/// Beside the bare work and the 20 us that the project gives itself above it.
Row warm_task_row(const std::string& name, DeviceKind kind, int repeat, bool smoke) {
  const int count = smoke ? 2 : 300;
  constexpr double allowed_ms = 0.02;
  const bool has_floor = kind == DeviceKind::cuda && has_bare_cuda_benchmarks();
  GpuBed bed{kind, has_floor};
  const auto several = [&bed](int tasks) {
    double spent = 0;
    for (int i = 0; i < tasks; ++i)
      spent += task_ms(bed, 0);
    return spent / tasks;
  };
  const auto tasks = [&] {
    // As the floor does. The lease may have gone back since the last turn: then the next task opens one.
    (void)several(count / 10 + 1);
    return several(count);
  };
  if (!has_floor)
    return measure(name, "ms", repeat, tasks);
  auto row = measure(name, "ms", repeat, tasks, [&] { return bed.bare_task_ms(count) + allowed_ms; });
  row.floor_kind = FloorKind::target;
  row.bound = smoke ? 0 : 1;
  return row;
}

double hand_over_ms(const ActorRef& from, const ActorRef& to) {
  static std::int64_t mark = 0;
  Small wanted;
  wanted.set_n(++mark % 200 + 1);
  const auto start = now_ns();
  const auto ref = check(from.call<v1::TensorRef>("offer", wanted).get());
  const auto got = check(to.call<Small>("take", ref).get());
  const auto spent = since_ms(start);
  if (got.n() != wanted.n()) {
    fmt::print(stderr, "gpuactors-bench: the tensor that came is not the one that was handed over\n");
    std::exit(1);
  }
  return spent;
}

/// The memory counts as free when the device has it back but for a little, which the driver may keep. Ends the program
/// when that does not come to pass: somebody else has taken memory meanwhile.
double kill_to_free_ms(GpuBed& bed) {
  const auto before = bed.free_bytes();
  const auto actor = bed.spawn(Isolation::process);
  Small bytes;
  bytes.set_n(held_bytes);
  (void)check(actor.call<Small>("product").get());
  (void)check(actor.call<Small>("hold", bytes).get());
  constexpr std::uint64_t a_little = 8U << 20;
  const auto start = now_ns();
  check(bed.cluster().kill(actor));
  constexpr double a_minute = 60'000;
  while (!bed.idle() || bed.free_bytes() + a_little < before) {
    if (since_ms(start) > a_minute) {
      fmt::print(stderr,
                 "gpuactors-bench: a minute after the kill {} of {} MiB are free: does another program use it?\n",
                 bed.free_bytes() >> 20, before >> 20);
      std::exit(1);
    }
    std::this_thread::yield();
  }
  return since_ms(start);
}

double spawn_ms(GpuBed& bed, Isolation isolation) {
  const auto start = now_ns();
  const auto actor = bed.spawn(isolation);
  (void)check(actor.call<Small>("product").get());
  const auto spent = since_ms(start);
  check(bed.cluster().kill(actor));
  return spent;
}

Row hand_over_row(const std::string& name, GpuBed& bed, int repeat, Isolation isolation) {
  const auto from = bed.spawn(isolation);
  const auto to = bed.spawn(isolation);
  auto row = measure(
      name, "ms", repeat, [&] { return hand_over_ms(from, to); },
      [&] { return check(to.call<Square>("copy").get()).seconds() * 1e3; });
  row.peer_name = "gpu_tensor_hand_over_64MiB";
  return row;
}

} // namespace

MakeWork bare_gpu_task(const std::string& spec) {
  return [spec] {
    const auto devices = check(make_devices(check(parse_device_specs(spec)), discovery_options("bench")));
    return make_bare_task(devices.front(), check(Share::from_double(gpu_share, "gpus")), product_size);
  };
}

Result<void> look_for_gpu() {
  GPUACTORS_LET(specs, parse_device_specs("cuda"));
  GPUACTORS_LET(devices, make_devices(specs, discovery_options("bench")));
  return devices.empty() ? fail(Errc::not_found, "there is no GPU") : Result<void>{};
}

std::vector<Benchmark> gpu_benchmarks(DeviceKind kind, bool smoke) {
  std::vector<Benchmark> result;
  const auto add_row = [&](std::string name, std::function<Row(const std::string&, int)> run) {
    result.push_back({name, [name, run, kind](int repeat) {
                        auto row = run(name, repeat);
                        row.mode = to_string(kind);
                        return row;
                      }});
  };
  const auto add = [&](std::string name, std::function<Row(const std::string&, GpuBed&, int)> run) {
    add_row(std::move(name), [run, kind](const std::string& row, int repeat) {
      GpuBed bed{kind};
      return run(row, bed, repeat);
    });
  };
  add("gpu_task_cold", [](const std::string& name, GpuBed& bed, int repeat) {
    return measure(name, "ms", repeat, [&] { return task_ms(bed, 1); });
  });
  add_row("gpu_task_warm",
          [kind, smoke](const std::string& name, int repeat) { return warm_task_row(name, kind, repeat, smoke); });
  add("gpu_tensor_hand_over_64MiB", [](const std::string& name, GpuBed& bed, int repeat) {
    return hand_over_row(name, bed, repeat, Isolation::thread);
  });
  add("gpu_tensor_hand_over_processes_64MiB", [](const std::string& name, GpuBed& bed, int repeat) {
    return hand_over_row(name, bed, repeat, Isolation::process);
  });
  add("gpu_kill_to_free_256MiB", [](const std::string& name, GpuBed& bed, int repeat) {
    return measure(name, "ms", repeat, [&] { return kill_to_free_ms(bed); });
  });
  add("gpu_fractional_actor_spawn", [](const std::string& name, GpuBed& bed, int repeat) {
    return measure(name, "ms", repeat, [&] { return spawn_ms(bed, Isolation::thread); });
  });
  add("gpu_fractional_actor_spawn_process", [](const std::string& name, GpuBed& bed, int repeat) {
    auto row = measure(name, "ms", repeat, [&] { return spawn_ms(bed, Isolation::process); });
    row.peer_name = "gpu_fractional_actor_spawn";
    return row;
  });
  if (kind == DeviceKind::cuda)
    for (auto& row : bare_cuda_benchmarks(smoke))
      result.push_back(std::move(row));
  return result;
}

} // namespace gpuactors::bench
