// What a device and its driver make of sizes: what is rounded, what is left behind, what is too much.
#include <gpuactors/base/units.hpp>

#include <dlfcn.h>
#include <fmt/format.h>
#include <gpu/kernels.hpp>
#include <gpu/lab.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>

namespace gpuactors::gpu {

namespace {

/// A pool like that of a context, by the driver alone.
class BarePool {
public:
  explicit BarePool(Lab& lab) : lab_(lab) {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    get_ = reinterpret_cast<CUresult (*)(CUmemoryPool, CUmemPool_attribute, void*)>(
        dlsym(library, "cuMemPoolGetAttribute"));
    if (get_ == nullptr)
      throw Trouble{"the driver has no cuMemPoolGetAttribute"};
    CUmemPoolProps props{};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.location.id = lab.device->info().ordinal;
    props.maxSize = std::size_t{1} << 30;
    must(lab.driver.mem_pool_create(&pool_, &props));
    must(lab.driver.stream_create(&stream_, CU_STREAM_NON_BLOCKING));
  }
  BarePool(const BarePool&) = delete;
  BarePool& operator=(const BarePool&) = delete;

  ~BarePool() {
    (void)lab_.driver.stream_synchronize(stream_);
    (void)lab_.driver.stream_destroy(stream_);
    (void)lab_.driver.mem_pool_destroy(pool_);
  }

  /// By how much an allocation of so many bytes makes what is in use grow.
  std::size_t growth(std::size_t bytes) {
    const auto before = get(CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
    CUdeviceptr pointer = 0;
    must(lab_.driver.mem_alloc_from_pool_async(&pointer, bytes, pool_, stream_));
    const auto result = get(CU_MEMPOOL_ATTR_USED_MEM_CURRENT) - before;
    most_reserved_ = std::max(most_reserved_, get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    must(lab_.driver.mem_free_async(pointer, stream_));
    must(lab_.driver.stream_synchronize(stream_));
    return result;
  }

  [[nodiscard]] std::size_t most_reserved() const noexcept {
    return most_reserved_;
  }

private:
  std::size_t get(CUmemPool_attribute attribute) const {
    cuuint64_t value = 0;
    must(get_(pool_, attribute, &value));
    return value;
  }

  Lab& lab_;
  CUresult (*get_)(CUmemoryPool, CUmemPool_attribute, void*) = nullptr;
  CUmemoryPool pool_ = nullptr;
  CUstream stream_ = nullptr;
  std::size_t most_reserved_ = 0;
};

/// A kernel from source with so much shared memory of its blocks' choice: each writes a word at its end.
Result<RuntimeKernel> compile(Context& context, const std::string& name, const std::string& more = {}) {
  return context.compile({"extern \"C\" __global__ void " + name
                              + "(unsigned* out, unsigned words) {\n"
                                "  extern __shared__ unsigned all[];\n"
                                "  if (words > 0) all[words - 1] = 7;\n"
                                "  __syncthreads();\n"
                                "  if (threadIdx.x == 0) out[blockIdx.x] = words > 0 ? all[words - 1] : 7;\n"
                                "}\n"
                              + more,
                          name,
                          {}});
}

} // namespace

void check_rounding(Lab& lab) {
  const auto context = open(lab, Share{Share::one / 2});
  auto backend = must(lab.device->open({Share{Share::one / 2}, 32 * mib, nullptr}));
  const BareContext bare{lab};
  BarePool pool{lab};
  bool enough = true;
  bool same = true;
  std::string text;
  for (const auto bytes : {std::size_t{1}, std::size_t{511}, std::size_t{512}, std::size_t{513}, std::size_t{4096},
                           mib - 1, 2 * mib, 2 * mib + 1, 64 * mib - 100}) {
    const auto grown = pool.growth(bytes);
    const auto counted = backend->footprint(bytes);
    enough = enough && counted >= grown;
    same = same && counted == grown;
    if (counted != grown)
      text += fmt::format(" {} B count as {} and take {};", bytes, counted, grown);
  }
  lab.report.judge(
      "rounding", enough,
      fmt::format("{};{} a pool that held at most 64 MiB reserved {}",
                  same ? "what is counted is what the driver counts" : "they differ", text,
                  format_bytes(pool.most_reserved())),
      "never less is counted than the driver takes; nothing documents it: a failure means that the pool's own "
      "limit ends a lease before ours does",
      {{"same", same}, {"reserved", pool.most_reserved()}});
}

void check_leavings(Lab& lab) {
  { // What a first one leaves for later is not a leak.
    const auto first = open(lab, Share{Share::one / 2}, 64 * mib);
    (void)must(first->stream().allocate(48 * mib)).release();
  }
  const auto before = free_bytes(lab);
  const int rounds = lab.sized(100, 5);
  for (int i = 0; i < rounds; ++i) {
    const auto context = open(lab, Share{Share::one / 2}, 64 * mib);
    for (int j = 0; j < 4; ++j)
      (void)must(context->stream().allocate(12 * mib)).release();
  }
  const auto after = free_bytes(lab);
  const auto less = before > after ? before - after : 0;
  lab.report.judge("leavings", less <= 8 * mib,
                   fmt::format("{} contexts that ended with 48 MiB each left {} less free", rounds, format_bytes(less)),
                   "at most 8 MiB; nothing documents it: a failure means that the driver keeps memory that leases are "
                   "told they have",
                   {{"less_bytes", less}});
}

void measure_overhead(Lab& lab) {
  const auto memory = must(lab.device->memory());
  const auto kept = memory.total_bytes - lab.device->info().memory_bytes;
  std::vector<std::unique_ptr<Context>> contexts;
  std::string text;
  std::uint64_t most = 0;
  nlohmann::json values = nlohmann::json::object();
  for (const std::size_t count : {1, 8, 32}) {
    while (contexts.size() < count) {
      // In a pool memory is taken by whole chunks: so much, that the quota is what it takes.
      auto context = must(Context::open(lab.device, {Share{Share::one / 64}, 32 * mib, "verify", nullptr}));
      auto& stream = context->stream();
      const auto a = must(stream.tensor_from(std::vector<float>(64, 1.0F), {8, 8}));
      auto c = must(stream.tensor(DType::f32, {8, 8}));
      must(stream.gemm(a, a, c));
      must(stream.synchronize());
      contexts.push_back(std::move(context));
    }
    const auto used = memory.total_bytes - free_bytes(lab);
    const auto beside = used - std::min<std::uint64_t>(used, count * 32 * mib);
    most = std::max(most, beside);
    text += fmt::format("{} with {}, ", format_bytes(beside), count);
    values[fmt::format("contexts_{}", count)] = beside;
  }
  lab.report.judge(
      "overhead", most <= kept,
      fmt::format("taken beside the leases, by all processes: {}{} are kept out of them", text, format_bytes(kept)),
      "no more than what is kept out, on a GPU that nobody else uses", values);
}

void check_launch_limits(Lab& lab) {
  if (lab.smoke)
    return lab.report.skip("limits", "needs a chip");
  const auto context = open(lab, Share{Share::one / 2});
  auto& stream = context->stream();
  const auto kernel = compile(*context, "words");
  if (!kernel)
    return lab.report.skip("limits", kernel.error().message());
  const auto out = must(stream.tensor(DType::i32, {1}));
  const auto start = [&](unsigned threads, unsigned shared_bytes) {
    auto started = stream.launch(*kernel, {{1, 1, 1}, {threads, 1, 1}, shared_bytes},
                                 {out.data<std::int32_t>(), static_cast<unsigned>(shared_bytes / sizeof(unsigned))});
    return started ? stream.synchronize() : started;
  };
  const auto wide = start(2048, 0);
  const auto after_wide = start(256, 0);
  const auto much = start(256, 100 << 10);
  const bool right = must(stream.to_host<std::int32_t>(out))[0] == 7;
  int most = 0;
  {
    const BareContext bare{lab};
    must(lab.driver.device_get_attribute(&most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, bare.device()));
  }
  const auto all = start(256, static_cast<unsigned>(most));
  const auto too_much = start(256, static_cast<unsigned>(most) + 1);
  const auto after = start(256, 0);
  const bool wide_alone = !wide && wide.error().code() == Errc::launch_failed && after_wide;
  const bool shared = much && right && all && !too_much && too_much.error().code() == Errc::invalid_argument && after;
  const auto tell = [](const Result<void>& outcome) {
    return outcome ? std::string{"runs"} : to_string(outcome.error());
  };
  lab.report.judge("limits", wide_alone && shared,
                   fmt::format("blocks of 2048: {}, the next: {}; 100 KiB of shared memory: {}; {} B: {}; 1 B more: {}",
                               tell(wide), tell(after_wide), tell(much), most, tell(all), tell(too_much)),
                   "what is too much fails alone, and all that there is can be had", {{"shared_most", most}});
}

void check_unloading(Lab& lab) {
  if (lab.smoke)
    return lab.report.skip("unloading", "needs a chip");
  const auto slow = open(lab, Share{Share::one / 2});
  const auto context = open(lab, Share{Share::one / 2});
  const auto flag = must(slow->stream().tensor_from(std::vector<std::int32_t>{0, 0}, {2}));
  const auto out = must(context->stream().tensor(DType::i32, {1}));
  const auto start = [&](const RuntimeKernel& kernel) {
    must(context->stream().launch(kernel, {{1, 1, 1}, {32, 1, 1}, 0}, {out.data<std::int32_t>(), 0U}));
    return must(context->stream().to_host<std::int32_t>(out))[0] == 7;
  };
  const auto first = compile(*context, "first");
  if (!first)
    return lab.report.skip("unloading", first.error().message());
  auto side = must(slow->make_stream());
  // What is loaded when it is first launched is loaded before anything is held: loading may wait.
  bool right = start(*first);
  must(slow->stream().launch(nothing, 1));
  auto* const word = reinterpret_cast<std::uint32_t*>(flag.data<std::int32_t>());
  // Each holds on for some seconds at most: the first until it is told, those behind it would be for a slow compiler.
  for (int i = 0; i < 8; ++i)
    must(slow->stream().launch(hold, 1, word));
  const auto ended = std::make_shared<std::atomic<bool>>(false);
  must(slow->stream().notify([ended](const Result<void>&) { *ended = true; }));
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  const auto ms = milliseconds([&] {
    for (int i = 0; i < 300; ++i) {
      const auto kernel = must(compile(*context, fmt::format("k{}_{}", now, i)));
      right = start(kernel) && right;
    }
  });
  const bool beside = !*ended;
  must(side.fill(flag.raw(), 1, sizeof(std::int32_t)));
  must(side.synchronize());
  must(slow->stream().synchronize());
  lab.report.judge("unloading", right && beside,
                   fmt::format("300 kernels from source, one after the other, beside one that {}: {:.1f} ms each, {}",
                               beside ? "runs" : "HAD ENDED BY THEN", ms / 300, right ? "all right" : "WRONG"),
                   "each computes what it says, and none waits for what runs", {{"each_ms", ms / 300}});
}

} // namespace gpuactors::gpu
