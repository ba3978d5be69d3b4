// What waits for the device: loading and unloading code, first launches, pinning memory. Each is tried beside a kernel
// that holds its place.
#include <gpuactors/base/limits.hpp>

#include <fmt/format.h>
#include <gpu/holder.hpp>
#include <gpu/kernels.hpp>
#include <gpu/lab.hpp>

#include <chrono>

namespace gpuactors::gpu {

namespace {

/// Unloads a library by the bare driver, of which a kernel has run, beside the kernel that runs.
Beside unload_bare(Lab& lab, Holder& holder) {
  const auto& driver = lab.driver;
  const BareContext bare{lab};
  const BareKernel kernel{lab};
  CUstream stream = nullptr;
  must(driver.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  kernel.launch(driver, stream);
  must(driver.stream_synchronize(stream));
  const auto result = holder.beside([&] { must(driver.library_unload(kernel.library)); });
  must(driver.stream_destroy(stream));
  return result;
}

Result<RuntimeKernel> compile_small(Context& context, const std::string& name) {
  return context.compile(
      {"extern \"C\" __global__ void " + name + "(unsigned* out) { if (threadIdx.x == 0) *out = 7; }\n", name, {}});
}

/// A name that no cache of an earlier run knows.
std::string fresh_name(int i) {
  static const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return fmt::format("k{}_{}", now, i);
}

/// Launches it and looks at what it wrote.
bool is_right(Context& context, const RuntimeKernel& kernel, const Tensor& out) {
  must(context.stream().launch(kernel, {{1, 1, 1}, {32, 1, 1}, 0}, {out.data<std::int32_t>()}));
  return must(context.stream().to_host<std::int32_t>(out))[0] == 7;
}

} // namespace

void check_unloading(Lab& lab) {
  if (lab.smoke) {
    for (const auto* row : {"unloading", "first launch"})
      lab.report.skip(row, "needs a chip");
    return;
  }
  Holder holder{lab};
  const auto context = open(lab, Share{Share::one / 4});
  const auto out = must(context->stream().tensor(DType::i32, {1}));
  const auto first = compile_small(*context, fresh_name(0));
  if (!first)
    return lab.report.skip("unloading", first.error().message());
  bool right = is_right(*context, *first, out);
  // As many as stay loaded, before anything is held: each that comes now makes the oldest one go.
  const auto most = static_cast<int>(limits::loaded_kernels);
  for (int i = 1; i < most; ++i)
    right = is_right(*context, must(compile_small(*context, fresh_name(i))), out) && right;
  // What the driver does by itself, whoever unloads.
  const auto bare = unload_bare(lab, holder);
  const auto alone_ms = milliseconds([&] { (void)must(compile_small(*context, fresh_name(most))); });
  RuntimeKernel fresh;
  const auto unloading = holder.beside([&] { fresh = must(compile_small(*context, fresh_name(most + 1))); });
  lab.report.judge(
      "unloading", right && (!unloading.waited || bare.waited),
      fmt::format("{} kernels from source are {}; one more, for which the oldest is unloaded: {:.2f} ms "
                  "alone, beside a kernel that runs {}; there the bare driver unloads one in {}",
                  most, right ? "all right" : "WRONG", alone_ms, unloading.text(), bare.text()),
      "each computes what it says; to unload one waits for what runs only where the bare driver waits too",
      {{"alone_ms", alone_ms}, {"beside_ms", unloading.ms}, {"waited", unloading.waited}, {"bare_ms", bare.ms}});
  bool fresh_right = false;
  const auto launch = holder.beside([&] { fresh_right = is_right(*context, fresh, out); });
  lab.report.state("first launch",
                   fmt::format("of a kernel from source, beside a kernel that runs: {}, {}", launch.text(),
                               fresh_right ? "right" : "WRONG"),
                   {{"ms", launch.ms}, {"waited", launch.waited}});
}

void check_first_launches(Lab& lab) {
  Holder holder{lab};
  const auto known = open(lab, Share{Share::one / 4});
  const auto launch = [](Context& context) {
    must(context.stream().launch(nothing, 1));
    must(context.stream().synchronize());
  };
  launch(*known);
  const auto again = holder.beside([&] { launch(*known); });
  std::unique_ptr<Context> fresh;
  const auto opened = holder.beside([&] { fresh = open(lab, Share{Share::one / 4}); });
  const auto launched = holder.beside([&] { launch(*fresh); });
  lab.report.state("first_launches",
                   fmt::format("beside a kernel that runs, of a kernel that the device knows: launch and wait {}; in a "
                               "fraction that is new: to open it {}, then launch and wait {}",
                               again.text(), opened.text(), launched.text()),
                   {{"known_ms", again.ms},
                    {"open_ms", opened.ms},
                    {"open_waited", opened.waited},
                    {"launch_ms", launched.ms},
                    {"launch_waited", launched.waited}});
}

void check_waits(Lab& lab) {
  // Nothing says that a green context has the flags of its primary one.
  const auto whole = Holder{lab, Share::whole(1)}.busy_part();
  const auto half = Holder{lab, Share{Share::one / 2}}.busy_part();
  lab.report.judge("waits", whole <= 0.05 && half <= 0.05,
                   fmt::format("of 0.3 s for which a thread waits, it keeps a processor busy for {:.3f} on the whole "
                               "device, {:.3f} on a half",
                               whole, half),
                   "a thread that waits for long sleeps: at most 0.05", {{"whole", whole}, {"half", half}});
}

void check_pinning(Lab& lab) {
  Holder holder{lab};
  const auto bytes = lab.sized(64 * mib, mib);
  const BareContext bare{lab};
  void* block = nullptr;
  const auto pinned = holder.beside([&] { must(lab.driver.mem_host_alloc(&block, bytes, CU_MEMHOSTALLOC_PORTABLE)); });
  const auto freed = holder.beside([&] { must(lab.driver.mem_free_host(block)); });
  lab.report.state(
      "pinning",
      fmt::format("beside a kernel that runs, {} MiB: cuMemHostAlloc {}, cuMemFreeHost {}", bytes / mib, pinned.text(),
                  freed.text()),
      {{"pin_ms", pinned.ms}, {"pin_waited", pinned.waited}, {"free_ms", freed.ms}, {"free_waited", freed.waited}});
}

} // namespace gpuactors::gpu
