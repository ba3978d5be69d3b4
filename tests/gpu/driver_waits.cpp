// Which calls of the bare driver and of cuBLAS wait for a kernel that runs, and whether they keep others from
// launching.
#include <fmt/format.h>
#include <gpu/holder.hpp>
#include <gpu/lab.hpp>

#include <functional>
#include <thread>

namespace gpuactors::gpu {

namespace {

using namespace std::chrono_literals;

/// Of a kernel that is there until it is let go.
constexpr auto held_for = 200ms;
constexpr std::int64_t row_length = 96;

/// What the calls work with.
struct Pieces {
  CUdevResource group{};
  CUgreenCtx green = nullptr;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  CUmemoryPool pool = nullptr;
  cublasHandle_t handle = nullptr;
  void* pinned = nullptr;
};

void launch_and_wait(const cuda::Driver& driver, const BareKernel& kernel, CUstream stream) {
  kernel.launch(driver, stream);
  wait_bare(driver, stream);
}

/// A product by cuBLAS alone.
void multiply(Lab& lab, const Pieces& pieces, const Tensor& matrices) {
  const float one = 1.0F;
  const float zero = 0.0F;
  auto* const a = matrices.data<float>();
  auto* const b = a + row_length * row_length;
  must(lab.cublas.set_stream(pieces.handle, pieces.stream));
  must(lab.cublas.sgemm(pieces.handle, CUBLAS_OP_N, CUBLAS_OP_N, row_length, row_length, row_length, &one, a,
                        row_length, b, row_length, &zero, b + row_length * row_length, row_length));
  wait_bare(lab.driver, pieces.stream);
}

/// While a green context is made on a thread of its own: the longest that a launch and its wait took here, in
/// milliseconds.
double longest_launch(Lab& lab, Holder& holder, CUdevice device, CUdevResource group, const BareKernel& kernel) {
  const auto& driver = lab.driver;
  CUstream stream = nullptr;
  must(driver.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  launch_and_wait(driver, kernel, stream);
  double longest = 0;
  std::string trouble;
  (void)holder.beside(
      [&] {
        std::atomic<bool> made{false};
        std::jthread other{[&] {
          try {
            const BareContext bare{lab};
            auto* const green = make_green(driver, device, group);
            made = true;
            must(driver.green_ctx_destroy(green));
          } catch (const Trouble& what) {
            trouble = what.text;
            made = true;
          }
        }};
        while (!made)
          longest = std::max(longest, milliseconds([&] { launch_and_wait(driver, kernel, stream); }));
      },
      held_for);
  if (!trouble.empty())
    throw Trouble{trouble};
  must(driver.stream_destroy(stream));
  return longest;
}

} // namespace

void check_driver_waits(Lab& lab) {
  if (lab.smoke)
    return lab.report.skip("driver waits", "needs a chip");
  const auto& driver = lab.driver;
  if (driver.missing_for_green != nullptr)
    return lab.report.skip("driver waits", "the driver has no green contexts");
  Holder holder{lab};
  const BareContext bare{lab};
  const auto device = bare.device();
  Pieces pieces;
  pieces.group = one_group(driver, device);
  const BareKernel kernel{lab};
  const auto context = open(lab, Share{Share::one / 4});
  auto matrices = must(context->stream().tensor(DType::f32, {3, row_length, row_length}));
  must(context->stream().zero(matrices));
  must(context->stream().synchronize());
  std::string waiting;
  std::string quick;
  const auto attempt = [&](const char* what, const std::function<void()>& call) {
    const auto result = holder.beside(call, held_for);
    auto& list = result.waited ? waiting : quick;
    list += fmt::format("{}{} ({:.2f} ms)", list.empty() ? "" : ", ", what, result.ms);
  };
  attempt("cuGreenCtxCreate", [&] { pieces.green = make_green(driver, device, pieces.group); });
  attempt("cuGreenCtxStreamCreate",
          [&] { must(driver.green_ctx_stream_create(&pieces.stream, pieces.green, CU_STREAM_NON_BLOCKING, 0)); });
  attempt("cuEventCreate", [&] { must(driver.event_create(&pieces.event, CU_EVENT_DISABLE_TIMING)); });
  attempt("cuMemPoolCreate", [&] {
    CUmemPoolProps props{};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.location.id = lab.device->info().ordinal;
    props.maxSize = 64 * mib;
    must(driver.mem_pool_create(&pieces.pool, &props));
  });
  // What the library calls on threads of its own beside the work of others.
  CUstream side = nullptr;
  attempt("cuStreamCreate", [&] { must(driver.stream_create(&side, CU_STREAM_NON_BLOCKING)); });
  attempt("cuStreamWaitEvent and cuLaunchHostFunc", [&] {
    must(driver.event_record(pieces.event, side));
    must(driver.stream_wait_event(side, pieces.event, CU_EVENT_WAIT_DEFAULT));
    must(driver.launch_host_func(
        side, [](void*) {}, nullptr));
    wait_bare(driver, side);
  });
  attempt("cuMemFreeAsync, its end, and cuMemPoolTrimTo", [&] {
    CUdeviceptr memory = 0;
    must(driver.mem_alloc_from_pool_async(&memory, mib, pieces.pool, side));
    must(driver.mem_free_async(memory, side));
    must(driver.event_record(pieces.event, side));
    must(driver.event_synchronize(pieces.event));
    must(driver.mem_pool_trim_to(pieces.pool, 0));
  });
  must(driver.stream_destroy(side));
  attempt("the first launch of a kernel", [&] { launch_and_wait(driver, kernel, pieces.stream); });
  attempt("the next launch", [&] { launch_and_wait(driver, kernel, pieces.stream); });
  attempt("cublasCreate", [&] { must(lab.cublas.create(&pieces.handle)); });
  for (const auto* what : {"the first product of a shape", "the next product"})
    attempt(what, [&] { multiply(lab, pieces, matrices); });
  attempt("cublasDestroy", [&] { must(lab.cublas.destroy(pieces.handle)); });
  attempt("cuMemHostAlloc", [&] { must(driver.mem_host_alloc(&pieces.pinned, mib, 0)); });
  attempt("cuMemFreeHost", [&] { must(driver.mem_free_host(pieces.pinned)); });
  attempt("cuMemPoolDestroy", [&] { must(driver.mem_pool_destroy(pieces.pool)); });
  must(driver.event_destroy(pieces.event));
  attempt("cuStreamDestroy", [&] { must(driver.stream_destroy(pieces.stream)); });
  attempt("cuGreenCtxDestroy", [&] { must(driver.green_ctx_destroy(pieces.green)); });
  const auto longest = longest_launch(lab, holder, device, pieces.group, kernel);
  attempt("cuLibraryUnload", [&] { must(driver.library_unload(kernel.library)); });
  lab.report.state(
      "driver waits",
      fmt::format("beside a kernel of {} ms, wait for it: {}; do not: {}; while a green context is made, a "
                  "launch on another thread takes up to {:.1f} ms",
                  held_for.count(), waiting, quick, longest),
      {{"longest_launch_ms", longest}});
}

} // namespace gpuactors::gpu
