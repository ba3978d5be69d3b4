#include "rows.hpp"

#include "../floor.hpp"
#include "bare.hpp"
#include "nothing.hpp"

#include <gpuactors/bench/messages.pb.h>
#include <gpuactors/gpuactors.hpp>

#include <fmt/format.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gpuactors::bench {

namespace {

using google::protobuf::Empty;

constexpr std::size_t mebi = std::size_t{1} << 20;
constexpr double left_value = 0.5;
constexpr double right_value = 0.25;

/// Owns the whole device. Its methods come in pairs: work through the library, and the same work by the bare functions
/// on the same stream and memory, which answers with its own seconds.
class CudaActor : public GPUActor {
public:
  using GPUActor::GPUActor;

  /// A kernel that does nothing, and the wait for it.
  Result<Empty> launch(const Empty&) {
    GPUACTORS_TRY(stream().launch(bench_nothing, 1));
    GPUACTORS_TRY(stream().synchronize());
    return Empty{};
  }

  Result<Square> bare_launch(const Square& in) {
    return with_bare_stream(in, [&](CUstream bare) { return bare_launch_ns(bare, in.repeat()); });
  }

  /// Makes two n x n matrices.
  Result<Empty> prepare_product(const Square& in) {
    return prepare_as<float>(in);
  }

  Result<Empty> prepare_bf16_product(const Square& in) {
    return prepare_as<BFloat16>(in);
  }

  /// Multiplies them `repeat` times.
  Result<Empty> multiply(const Square& in) {
    for (int i = 0; i < in.repeat(); ++i)
      GPUACTORS_TRY(stream().gemm(a_, b_, c_));
    GPUACTORS_TRY(stream().synchronize());
    return Empty{};
  }

  Result<Square> bare_multiply(const Square& in) {
    const auto type = c_.dtype() == DType::f32 ? CUDA_R_32F : CUDA_R_16BF;
    return with_bare_stream(in, [&](CUstream bare) {
      return bare_product_ns(bare, in.n(), a_.raw(), b_.raw(), c_.raw(), type, workspace_.data(), workspace_.bytes(),
                             in.repeat());
    });
  }

  /// Whether the product is right, and not there any more for the next to be asked.
  Result<Empty> check_product(const Square& in) {
    return c_.dtype() == DType::f32 ? check_as<float>(in) : check_as<BFloat16>(in);
  }

  /// Makes memory of `n` bytes: on the device, pinned and ordinary.
  Result<Empty> prepare_upload(const Square& in) {
    const auto bytes = static_cast<std::size_t>(in.n());
    GPUACTORS_LET(target, stream().allocate(bytes));
    GPUACTORS_LET(pinned, gpu().host_buffer(bytes));
    target_ = std::move(target);
    pinned_ = std::move(pinned);
    ordinary_.assign(bytes, 1);
    return Empty{};
  }

  Result<Empty> upload_pinned(const Square& in) {
    return upload(pinned_.data(), in.repeat());
  }

  Result<Empty> upload_ordinary(const Square& in) {
    return upload(ordinary_.data(), in.repeat());
  }

  Result<Square> bare_upload(const Square& in) {
    return with_bare_stream(in, [&](CUstream bare) {
      const BarePinned pinned{static_cast<std::size_t>(in.n())};
      (void)pinned.upload_ns(bare, target_.data(), 1); // the first looks at every page
      return pinned.upload_ns(bare, target_.data(), in.repeat());
    });
  }

private:
  [[nodiscard]] Stream& stream() {
    return gpu().stream();
  }

  template <class T>
  Result<Empty> prepare_as(const Square& in) {
    const auto count = static_cast<std::size_t>(in.n() * in.n());
    GPUACTORS_LET(a, stream().tensor_from(std::vector<T>(count, T{left_value}), {in.n(), in.n()}));
    GPUACTORS_LET(b, stream().tensor_from(std::vector<T>(count, T{right_value}), {in.n(), in.n()}));
    GPUACTORS_LET(c, stream().tensor(dtype_of<T>, {in.n(), in.n()}));
    constexpr std::size_t workspace_bytes = 32 * mebi;
    GPUACTORS_LET(workspace, stream().allocate(workspace_bytes));
    a_ = std::move(a);
    b_ = std::move(b);
    c_ = std::move(c);
    workspace_ = std::move(workspace);
    return Empty{};
  }

  template <class T>
  Result<Empty> check_as(const Square& in) {
    GPUACTORS_LET(values, stream().to_host<T>(c_));
    const auto wanted = static_cast<T>(left_value * right_value * static_cast<double>(in.n()));
    if (values.front() != wanted || values.back() != wanted)
      return fail(Errc::task_failed, "the product is wrong");
    GPUACTORS_TRY(stream().zero(c_));
    return Empty{};
  }

  Result<Empty> upload(const void* from, int times) {
    for (int i = 0; i < times; ++i)
      GPUACTORS_TRY(stream().upload(target_.data(), from, target_.bytes()));
    GPUACTORS_TRY(stream().synchronize());
    return Empty{};
  }

  /// Runs `work` with the context current. @returns `in` with the seconds of one.
  Result<Square> with_bare_stream(Square in, const std::function<double(CUstream)>& work) {
    GPUACTORS_TRY(stream().synchronize());
    GPUACTORS_LET(native, stream().native());
    in.set_seconds(work(static_cast<CUstream>(native.handle())) * 1e-9);
    return in;
  }

  Tensor a_;
  Tensor b_;
  Tensor c_;
  Buffer workspace_;
  Buffer target_;
  HostBuffer pinned_;
  std::vector<std::uint8_t> ordinary_;
};

GPUACTORS_ACTOR("bench.cuda", CudaActor)
    .method("launch", &CudaActor::launch)
    .method("bare_launch", &CudaActor::bare_launch)
    .method("prepare_product", &CudaActor::prepare_product)
    .method("prepare_bf16_product", &CudaActor::prepare_bf16_product)
    .method("multiply", &CudaActor::multiply)
    .method("bare_multiply", &CudaActor::bare_multiply)
    .method("check_product", &CudaActor::check_product)
    .method("prepare_upload", &CudaActor::prepare_upload)
    .method("upload_pinned", &CudaActor::upload_pinned)
    .method("upload_ordinary", &CudaActor::upload_ordinary)
    .method("bare_upload", &CudaActor::bare_upload);

// -- the rows -------------------------------------------------------------------------------------

/// The actor in a cluster of this process alone.
struct CudaBed {
  Cluster cluster = check(Cluster::embed({.devices = "cuda"}));
  ActorRef actor = check(cluster.spawn("bench.cuda", Empty{}, {.gpus = 1}));

  /// Seconds from message to reply.
  template <class In>
  double call(const char* method, const In& in) {
    const auto start = now_ns();
    (void)check(actor.call<Empty>(method, in).get());
    return (now_ns() - start) * 1e-9;
  }

  /// Seconds that the bare work took, by its own clock.
  double bare(const char* method, const Square& in) {
    return check(actor.call<Square>(method, in).get()).seconds();
  }
};

Square square_of(std::int64_t n, int repeat = 1) {
  Square square;
  square.set_n(n);
  square.set_repeat(repeat);
  return square;
}

/// From message to reply, beside a bare launch with its wait and a request of plain CAF: no less will do.
Row kernel_row(const std::string& name, int repeat, bool smoke) {
  CudaBed bed;
  const LocalFloor plain{bed.cluster};
  const auto count = smoke ? 50 : 5'000;
  constexpr double us = 1e6;
  auto row = measure(
      name, "us", repeat,
      [&] {
        double spent = 0;
        for (int i = 0; i < count; ++i)
          spent += bed.call("launch", Empty{});
        return us * spent / count;
      },
      [&] { return us * bed.bare("bare_launch", square_of(0, count)) + plain.ask(count, 1); });
  row.bound = 1.3; // as a call without a kernel
  return row;
}

/// Products through messages that ask for so many each, beside as many by cuBLAS on the same matrices. They take long
/// beside a message, its answer and the driver's way to wake a thread (0.3 ms and more), or those would be measured.
Row product_row(const std::string& name, int repeat, std::int64_t n, int products, const char* prepare) {
  CudaBed bed;
  const auto work = square_of(n, products);
  const auto side = static_cast<double>(n);
  (void)bed.call(prepare, work);
  const auto rate = [&](double seconds) {
    (void)bed.call("check_product", work);
    return 2e-12 * side * side * side / seconds;
  };
  const auto products_by_message = [&] {
    (void)bed.call("multiply", square_of(n)); // the bare side has one before its clock, too
    return bed.call("multiply", work);
  };
  auto row = measure(
      name, "TFLOP/s", repeat, [&] { return rate(products_by_message() / products); },
      [&] { return rate(bed.bare("bare_multiply", work)); });
  row.bound = 0.99;
  row.at_most = false;
  return row;
}

/// Host to device by a message that asks for several copies, beside as many bare ones from memory that the driver
/// pinned.
Row upload_row(const std::string& name, int repeat, std::size_t bytes, const char* method, double bound) {
  constexpr int copies = 8;
  CudaBed bed;
  const auto work = square_of(static_cast<std::int64_t>(bytes), copies);
  (void)bed.call("prepare_upload", work);
  const auto rate = [&](double seconds) { return 1e-9 * static_cast<double>(bytes) / seconds; };
  auto row = measure(
      name, "GB/s", repeat, [&] { return rate(bed.call(method, work) / copies); },
      [&] { return rate(bed.bare("bare_upload", work)); });
  row.bound = bound;
  row.at_most = false;
  return row;
}

/// A round trip, and what it runs in.
class BareTask {
public:
  BareTask(const std::shared_ptr<Device>& device, Share share, std::int64_t n)
    : context_(check(Context::open(device, {share, memory_bytes, "bench", nullptr}))), // first: it has the memory
      matrices_{make_matrix(n), make_matrix(n), make_matrix(n)},
      workspace_(check(context_->stream().allocate(workspace_bytes))), native_(make_native()),
      trip_(static_cast<CUstream>(native_.handle()),
            {n, matrices_[0].data<float>(), matrices_[1].data<float>(), matrices_[2].data<float>(), workspace_.data(),
             workspace_.bytes()}) {
    // nop
  }

  void run() {
    trip_.run();
  }

private:
  static constexpr std::size_t memory_bytes = 128 * mebi;
  static constexpr std::size_t workspace_bytes = 32 * mebi;

  Tensor make_matrix(std::int64_t n) {
    return check(context_->stream().tensor(DType::f32, {n, n}));
  }

  /// Once the memory is there.
  NativeStream make_native() {
    check(context_->stream().synchronize());
    return check(context_->stream().native());
  }

  std::unique_ptr<Context> context_;
  std::array<Tensor, 3> matrices_;
  Buffer workspace_;
  NativeStream native_;
  BareRoundTrip trip_;
};

} // namespace

bool has_bare_cuda_benchmarks() {
  return true;
}

std::function<void()> make_bare_task(const std::shared_ptr<Device>& device, Share share, std::int64_t n) {
  return [task = std::make_shared<BareTask>(device, share, n)] { task->run(); };
}

std::vector<Benchmark> bare_cuda_benchmarks(bool smoke) {
  const std::int64_t n = smoke ? 64 : 4'096;
  const std::size_t bytes = (smoke ? 1 : 256) * mebi;
  std::vector<Benchmark> result;
  const auto add = [&](std::string name, std::function<Row(const std::string&, int)> run) {
    result.push_back({name, [name, run, smoke](int repeat) {
                        auto row = run(name, repeat);
                        row.mode = "cuda";
                        if (smoke) // a bound of small sizes would mean nothing
                          row.bound = 0;
                        return row;
                      }});
  };
  add("gpu_call_empty_kernel",
      [smoke](const std::string& name, int repeat) { return kernel_row(name, repeat, smoke); });
  add(fmt::format("gpu_matmul_{}", n), [n, smoke](const std::string& name, int repeat) {
    return product_row(name, repeat, n, smoke ? 4 : 120, "prepare_product");
  });
  add(fmt::format("gpu_matmul_bf16_{}", n), [n, smoke](const std::string& name, int repeat) {
    return product_row(name, repeat, n, smoke ? 4 : 1'800, "prepare_bf16_product");
  });
  add(fmt::format("gpu_upload_pinned_{}MiB", bytes / mebi),
      [bytes](const std::string& name, int repeat) { return upload_row(name, repeat, bytes, "upload_pinned", 0.95); });
  add(fmt::format("gpu_upload_ordinary_{}MiB", bytes / mebi),
      [bytes](const std::string& name, int repeat) { return upload_row(name, repeat, bytes, "upload_ordinary", 0); });
  return result;
}

} // namespace gpuactors::bench
