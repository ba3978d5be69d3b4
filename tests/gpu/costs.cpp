// What contexts, launches and completion cost.
#include <gpuactors/base/units.hpp>
#include <gpuactors/device/nvml/monitor.hpp>

#include <fmt/format.h>
#include <gpu/kernels.hpp>
#include <gpu/lab.hpp>

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

namespace gpuactors::gpu {

namespace {

double median_open(Lab& lab, Share share) {
  std::vector<double> times;
  for (int i = 0; i < lab.sized(20, 3); ++i)
    times.push_back(milliseconds([&] { (void)open(lab, share, std::uint64_t{64} << 20); }));
  return quantile(std::move(times), 0.5);
}

/// How many green contexts of one group the bare driver makes beside those that there are, up to a bound, and what each
/// takes of the device's memory: nothing documents either.
std::pair<int, std::size_t> count_greens(Lab& lab, const BareContext& bare) {
  const auto& driver = lab.driver;
  const auto group = one_group(driver, bare.device());
  std::vector<CUgreenCtx> made;
  const auto free_bytes = [&] {
    std::size_t free = 0;
    std::size_t total = 0;
    must(driver.mem_get_info(&free, &total));
    return free;
  };
  const auto before = free_bytes();
  try {
    for (int i = 0; i < lab.sized(100, 3); ++i)
      made.push_back(make_green(driver, bare.device(), group));
  } catch (const Trouble&) {
    // It makes no more: so many there are.
  }
  const auto taken = before - std::min(before, free_bytes());
  for (auto* context : made)
    (void)driver.green_ctx_destroy(context);
  return {static_cast<int>(made.size()), taken / std::max<std::size_t>(1, made.size())};
}

/// Lets each context compute on a thread of its own: many of them share a green context. @returns how many were right.
int compute_on_all(const std::vector<std::unique_ptr<Context>>& contexts) {
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (const auto& context : contexts)
    threads.emplace_back([&right, one = context.get()] {
      auto& stream = one->stream();
      for (int i = 0; i < 20; ++i) {
        auto side = one->make_stream();
        auto words = stream.tensor_from(std::vector<std::int32_t>(256, i), {256});
        if (!side || !words || !stream.launch(nothing, 1) || !side->wait(stream)
            || !side->fill_bytes(words->raw(), 0, sizeof(std::int32_t)) || !stream.wait(*side))
          return;
        const auto back = stream.to_host<std::int32_t>(*words);
        if (!back || (*back)[0] != 0 || (*back)[255] != i)
          return;
      }
      ++right;
    });
  for (auto& thread : threads)
    thread.join();
  return right;
}

/// How a device is split into groups of the least size: as it is done here, and if kernels with clusters of more than
/// two blocks are given up.
std::string describe_splits(Lab& lab, const BareContext& bare) {
  const auto& driver = lab.driver;
  CUdevResource all{};
  must(driver.device_get_dev_resource(bare.device(), &all, CU_DEV_RESOURCE_TYPE_SM));
  std::string text;
  for (const unsigned flags : {0U, static_cast<unsigned>(CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING)}) {
    unsigned count = 0;
    if (driver.dev_sm_resource_split(nullptr, &count, &all, nullptr, flags, 1) != CUDA_SUCCESS || count == 0)
      continue;
    std::vector<CUdevResource> groups(count);
    CUdevResource rest{};
    must(driver.dev_sm_resource_split(groups.data(), &count, &all, &rest, flags, 1));
    text += fmt::format("{}{} of {} SMs with {} left{}", text.empty() ? "" : ", ", count, groups[0].sm.smCount,
                        rest.sm.smCount, flags == 0 ? "" : " without clusters");
  }
  return text;
}

template <class F>
double median_us(int count, F&& f) {
  std::vector<double> times;
  for (int i = 0; i < count; ++i)
    times.push_back(1000 * milliseconds(f));
  return quantile(std::move(times), 0.5);
}

} // namespace

void measure_costs(Lab& lab) {
  const auto whole = median_open(lab, Share::whole(1));
  const auto half = median_open(lab, Share{Share::one / 2});
  std::vector<std::unique_ptr<Context>> many;
  std::string stopped;
  for (int i = 0; i < 64; ++i) {
    auto next = Context::open(lab.device, {Share{Share::one / 64}, std::uint64_t{1} << 20, "verify", nullptr});
    if (!next) {
      stopped = " (" + next.error().message() + ")";
      break;
    }
    many.push_back(std::move(*next));
  }
  // It has the whole device as its limit.
  if (!lab.first_open_trouble.empty())
    stopped += " (the first: " + lab.first_open_trouble + ")";
  const auto right = compute_on_all(many);
  lab.report.judge("contexts", stopped.empty() && right == static_cast<int>(many.size()),
                   fmt::format("first {:.0f} ms; then a whole device {:.2f} ms, a half {:.2f} ms; {} alive at once{}, "
                               "{} of them right with a thread each",
                               lab.first_open_ms, whole, half, many.size(), stopped, right),
                   "64 alive at once, which work at once",
                   {{"first_ms", lab.first_open_ms}, {"whole_ms", whole}, {"half_ms", half}, {"alive", many.size()}});
  const auto sharing = many.size();
  many.clear();
  const BareContext bare{lab};
  if (lab.driver.missing_for_green != nullptr)
    return lab.report.skip("green contexts", "the driver has none");
  const auto [greens, bytes_each] = count_greens(lab, bare);
  lab.report.state(
      "green contexts",
      fmt::format(
          "groups: {}; the driver makes {} green contexts of one group at once{}, with {} of memory each; {} contexts "
          "of ours had those of their groups",
          describe_splits(lab, bare), greens, greens == lab.sized(100, 3) ? " and more" : "", format_bytes(bytes_each),
          sharing),
      {{"bare", greens}, {"bytes_each", bytes_each}});
}

void measure_launches(Lab& lab) {
  const auto context = open(lab, Share::whole(1));
  auto& stream = context->stream();
  constexpr int warm_up = 100;
  const auto count = lab.sized(5000, 20);
  const auto many = lab.sized(100'000, 100);
  const auto launch_ours = [&] { must(stream.launch(nothing, 1)); };
  for (int i = 0; i < warm_up; ++i)
    launch_ours();
  must(stream.synchronize());
  // Before the bare part, which makes the device's context the thread's current one: for an actor's thread it is not.
  const auto one_ours = median_us(count, [&] {
    launch_ours();
    must(stream.synchronize());
  });
  const auto told = median_us(count, [&] {
    launch_ours();
    std::promise<void> done;
    must(stream.notify([&](Result<void>) { done.set_value(); }));
    done.get_future().get();
  });
  const auto row_ours = milliseconds([&] {
    for (int i = 0; i < many; ++i)
      launch_ours();
    must(stream.synchronize());
  });
  const BareContext bare{lab};
  CUstream bare_stream = nullptr;
  must(lab.driver.stream_create(&bare_stream, CU_STREAM_NON_BLOCKING));
  const BareKernel kernel{lab};
  const auto launch_bare = [&] { kernel.launch(lab.driver, bare_stream); };
  const auto wait = [&] { wait_bare(lab.driver, bare_stream); };
  for (int i = 0; i < warm_up; ++i)
    launch_bare();
  wait();
  const auto one_bare = median_us(count, [&] {
    launch_bare();
    wait();
  });
  const auto row_bare = milliseconds([&] {
    for (int i = 0; i < many; ++i)
      launch_bare();
    wait();
  });
  (void)lab.driver.stream_destroy(bare_stream);
  const auto rate = many / row_ours * 1000;
  lab.report.judge(
      "launches", one_ours <= one_bare + 10 && rate >= 100'000,
      fmt::format("launch and wait {:.1f} us, bare {:.1f} us; launch and be told {:.1f} us; in a row {:.0f} "
                  "a second, bare {:.0f}",
                  one_ours, one_bare, told, rate, many / row_bare * 1000),
      "at most 10 us above bare, 100000 a second",
      {{"one_us", one_ours}, {"bare_us", one_bare}, {"told_us", told}, {"per_second", rate}});
}

void measure_fetch(Lab& lab) {
  const auto context = open(lab, Share::whole(1));
  auto& stream = context->stream();
  const auto count = lab.sized(5000, 20);
  auto word = must(stream.tensor(DType::i32, {1}));
  must(stream.zero(word));
  must(stream.launch(nothing, 1));
  (void)must(stream.to_host<std::int32_t>(word));
  const auto ours = median_us(count, [&] {
    must(stream.launch(nothing, 1));
    (void)must(stream.to_host<std::int32_t>(word));
  });
  const BareContext bare{lab};
  CUstream raw = nullptr;
  must(lab.driver.stream_create(&raw, CU_STREAM_NON_BLOCKING));
  void* block = nullptr;
  must(lab.driver.mem_host_alloc(&block, sizeof(std::int32_t), CU_MEMHOSTALLOC_PORTABLE));
  const BareKernel kernel{lab};
  const auto fetch = [&](void* host) {
    kernel.launch(lab.driver, raw);
    must(lab.driver.memcpy_async(reinterpret_cast<CUdeviceptr>(host), reinterpret_cast<CUdeviceptr>(word.raw()),
                                 word.bytes(), raw));
    wait_bare(lab.driver, raw);
  };
  fetch(block);
  const auto pinned = median_us(count, [&] { fetch(block); });
  std::int32_t ordinary = 0;
  const auto pageable = median_us(count, [&] { fetch(&ordinary); });
  must(lab.driver.mem_free_host(block));
  (void)lab.driver.stream_destroy(raw);
  lab.report.judge("fetch", ours <= pinned + 10,
                   fmt::format("an empty kernel and 4 B to the host: {:.1f} us; by the bare driver to pinned memory "
                               "{:.1f} us, to ordinary memory {:.1f} us",
                               ours, pinned, pageable),
                   "at most 10 us above the bare driver with pinned memory",
                   {{"ours_us", ours}, {"pinned_us", pinned}, {"pageable_us", pageable}});
}

void check_source(Lab& lab) {
  if (lab.smoke) {
    for (const auto* row : {"source", "source arguments"})
      lab.report.skip(row, "needs a chip");
    return;
  }
  const auto context = open(lab, Share{Share::one / 2});
  auto& stream = context->stream();
  // A number in it that changes, so that no cache has it.
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  const KernelSource source{"template <class T> __global__ void scale(T* x, T by, unsigned n) {\n"
                            "  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                            "  if (i < n) x[i] *= by;\n"
                            "}\n",
                            "scale<float>",
                            {fmt::format("-DNOW={}", now)}};
  auto kernel = Result<RuntimeKernel>{RuntimeKernel{}};
  const auto first = milliseconds([&] { kernel = context->compile(source); });
  if (!kernel && kernel.error().code() == Errc::unsupported)
    return lab.report.skip("source", kernel.error().message());
  const auto loaded = must(std::move(kernel));
  const auto second = milliseconds([&] { must(context->compile(source)); });
  auto x = must(stream.tensor_from(std::vector<float>(1000, 3.0F), {1000}));
  must(stream.launch(loaded, {{4, 1, 1}, {256, 1, 1}, 0}, {x.data<float>(), 2.0F, 1000U}));
  const auto right = must(stream.to_host<float>(x)) == std::vector<float>(1000, 6.0F);
  lab.report.judge("source", right,
                   fmt::format("a kernel from source is {}; compiled in {:.1f} ms, found again in {:.3f} ms",
                               right ? "right" : "WRONG", first, second),
                   "it computes what it says", {{"compile_ms", first}, {"again_ms", second}});
  const auto& arguments = loaded.loaded().arguments;
  const auto refused = stream.launch(loaded, {{4, 1, 1}, {256, 1, 1}, 0}, {x.data<float>(), 2.0F});
  lab.report.judge("source arguments",
                   arguments == std::vector<std::size_t>{8, 4, 4} && !refused && stream.synchronize(),
                   arguments ? fmt::format("the driver says [{}] B; two of three arguments are {}",
                                           fmt::join(*arguments, ", "), refused ? "TAKEN" : "refused")
                             : std::string{"the driver does not say what the arguments are"},
                   "8, 4 and 4 B, and nothing else is started");
}

void check_management(Lab& lab) {
  const auto monitor = nvml::Monitor::get();
  if (!monitor)
    return lab.report.skip("nvml", monitor.error().message());
  const auto gpus = must((*monitor)->list());
  const auto& uuid = lab.device->info().uuid;
  const auto status = (*monitor)->status(uuid);
  std::string far;
  for (const auto& gpu : gpus)
    if (const auto distance = (*monitor)->distance(uuid, gpu.uuid))
      far += fmt::format(" {}", *distance);
  std::string known = "not known to it";
  if (status)
    known = fmt::format("memory {} MiB, use {} %", status->memory_total >> 20, status->gpu_percent.value_or(-1));
  lab.report.judge("nvml", status.has_value(),
                   fmt::format("{} GPUs; {}: {}; distances{}", gpus.size(), uuid, known, far),
                   "it knows the device under CUDA's UUID");
}

} // namespace gpuactors::gpu
