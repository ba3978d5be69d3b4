// What a device and its driver make of sizes: what is rounded, what is left behind, what is too much.
#include <gpuactors/base/units.hpp>

#include <dlfcn.h>
#include <fmt/format.h>
#include <gpu/lab.hpp>

#include <algorithm>

namespace gpuactors::gpu {

namespace {

std::size_t ask(CUmemoryPool pool, CUmemPool_attribute attribute) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  static const auto get =
      reinterpret_cast<CUresult (*)(CUmemoryPool, CUmemPool_attribute, void*)>(dlsym(library, "cuMemPoolGetAttribute"));
  if (get == nullptr)
    throw Trouble{"the driver has no cuMemPoolGetAttribute"};
  cuuint64_t value = 0;
  must(get(pool, attribute, &value));
  return value;
}

/// What the pool that this memory is from has of the device.
std::size_t reserved_by_pool_of(Lab& lab, const Tensor& tensor) {
  if (lab.driver.pointer_get_attribute == nullptr)
    throw Trouble{"the driver has no cuPointerGetAttribute"};
  const BareContext bare{lab};
  CUmemoryPool pool = nullptr;
  must(lab.driver.pointer_get_attribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
                                        reinterpret_cast<CUdeviceptr>(tensor.raw())));
  return ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
}

/// A pool like that of a context, by the driver alone.
class BarePool {
public:
  explicit BarePool(Lab& lab) : lab_(lab) {
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
    return ask(pool_, attribute);
  }

  Lab& lab_;
  CUmemoryPool pool_ = nullptr;
  CUstream stream_ = nullptr;
  std::size_t most_reserved_ = 0;
};

/// A kernel from source with so much shared memory of its blocks' choice: each writes a word at its end.
Result<RuntimeKernel> compile(Context& context, const std::string& name, const std::string& more = {}) {
  return context.compile({"extern \"C\" __global__ void " + name
                              + "(unsigned* out, unsigned words) {\n"
                                "  extern __shared__ unsigned shared[];\n"
                                "  if (words > 0) shared[words - 1] = 7;\n"
                                "  __syncthreads();\n"
                                "  if (threadIdx.x == 0) out[blockIdx.x] = words > 0 ? shared[words - 1] : 7;\n"
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
  // Of each context one, by which its pool is found.
  std::vector<Tensor> tensors;
  std::string text;
  std::uint64_t most = 0;
  nlohmann::json values = nlohmann::json::object();
  for (const std::size_t count : {1, 8, 32}) {
    while (contexts.size() < count) {
      auto context = must(Context::open(lab.device, {Share{Share::one / 64}, 32 * mib, "verify", nullptr}));
      auto& stream = context->stream();
      const auto a = must(stream.tensor_from(std::vector<float>(64, 1.0F), {8, 8}));
      auto c = must(stream.tensor(DType::f32, {8, 8}));
      must(stream.gemm(a, a, c));
      must(stream.synchronize());
      tensors.push_back(std::move(c));
      contexts.push_back(std::move(context));
    }
    const auto used = memory.total_bytes - free_bytes(lab);
    // Pools take whole chunks of a size that is the driver's own affair: so they are asked.
    std::uint64_t reserved = 0;
    for (const auto& tensor : tensors)
      reserved += reserved_by_pool_of(lab, tensor);
    const auto beside = used - std::min(used, reserved);
    most = std::max(most, beside);
    text += fmt::format("{} with {}, ", format_bytes(beside), count);
    values[fmt::format("contexts_{}", count)] = beside;
    values[fmt::format("reserved_{}", count)] = reserved;
  }
  tensors.clear();
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
  int own = 0;
  {
    const BareContext bare{lab};
    must(lab.driver.device_get_attribute(&most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, bare.device()));
    // The kernel declares none, and the compiler may still have some for itself.
    must(lab.driver.kernel_get_attribute(&own, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
                                         static_cast<CUkernel>(kernel->loaded().native), bare.device()));
  }
  const auto left = static_cast<unsigned>(most - own);
  const auto all = start(256, left);
  const auto too_much = start(256, left + 1);
  const auto after = start(256, 0);
  const bool wide_alone = !wide && wide.error().code() == Errc::launch_failed && after_wide;
  const bool shared = much && right && all && !too_much && too_much.error().code() == Errc::invalid_argument && after;
  const auto tell = [](const Result<void>& outcome) {
    return outcome ? std::string{"runs"} : to_string(outcome.error());
  };
  lab.report.judge(
      "limits", wide_alone && shared,
      fmt::format("blocks of 2048: {}, the next: {}; 100 KiB of shared memory: {}; {} B beside its own {} B: "
                  "{}; 1 B more: {}",
                  tell(wide), tell(after_wide), tell(much), left, own, tell(all), tell(too_much)),
      "what is too much fails alone, and all that there is can be had", {{"shared_most", most}, {"shared_own", own}});
}

} // namespace gpuactors::gpu
