// Memory: whether a quota holds, and what copies cost.
#include <gpuactors/base/units.hpp>

#include <dlfcn.h>
#include <fmt/format.h>
#include <gpu/lab.hpp>

namespace gpuactors::gpu {

namespace {

/// Allocates steps until one fails. @returns the bytes that went.
std::size_t fill_up(Context& context, std::size_t step, std::vector<Buffer>& held) {
  std::size_t total = 0;
  for (;;) {
    auto buffer = context.stream().allocate(step);
    if (!buffer)
      return total;
    total += step;
    held.push_back(std::move(*buffer));
  }
}

/// Pinned host memory by the driver.
class Pinned {
public:
  explicit Pinned(std::size_t bytes) {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    const auto allocate = reinterpret_cast<CUresult (*)(void**, std::size_t)>(dlsym(library, "cuMemAllocHost_v2"));
    free_ = reinterpret_cast<CUresult (*)(void*)>(dlsym(library, "cuMemFreeHost"));
    if (allocate == nullptr || free_ == nullptr)
      throw Trouble{"the driver has no cuMemAllocHost"};
    must(allocate(&data_, bytes));
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

  ~Pinned() {
    (void)free_(data_);
  }

  [[nodiscard]] void* data() const noexcept {
    return data_;
  }

private:
  CUresult (*free_)(void*) = nullptr;
  void* data_ = nullptr;
};

} // namespace

void check_quota(Lab& lab) {
  const auto limit = std::uint64_t{64} * mib;
  const auto half = open(lab, Share{Share::one / 2}, limit);
  std::vector<Buffer> held;
  const auto by_steps = fill_up(*half, mib, held);
  held.clear();
  // With holes: every second one is freed, and larger ones asked for.
  must(half->stream().synchronize());
  (void)fill_up(*half, mib, held);
  std::vector<Buffer> kept;
  for (std::size_t i = 0; i < held.size(); i += 2)
    kept.push_back(std::move(held[i]));
  held.clear();
  const auto after_holes = fill_up(*half, 2 * mib, held);
  const auto peak = half->memory_peak();
  // Steps that do not divide what the driver takes from the device at a time.
  held.clear();
  kept.clear();
  must(half->stream().synchronize());
  const auto by_20 = fill_up(*half, 20 * mib, held);
  held.clear();
  must(half->stream().synchronize());
  const auto by_33 = fill_up(*half, 33 * mib, held) + fill_up(*half, mib, held);
  held.clear();
  must(half->stream().synchronize());
  // What the pool itself lets pass when nobody counts before it.
  auto backend = must(lab.device->open({Share{Share::one / 2}, 32 * mib, nullptr}));
  auto stream = must(backend->make_stream());
  std::vector<void*> raw;
  for (auto next = backend->allocate(mib, stream); next; next = backend->allocate(mib, stream))
    raw.push_back(*next);
  const auto by_pool = raw.size();
  for (auto* pointer : raw)
    backend->free(pointer, stream);
  backend->destroy_stream(stream);
  lab.report.judge(
      "quota", by_steps == limit && peak <= limit && by_20 == 60 * mib && by_33 == limit,
      fmt::format("64 MiB: {} in steps of 1 MiB, {} more of 2 MiB into holes, {} in steps of 20 MiB, {} in one of 33 "
                  "MiB and then of 1 MiB; a pool of 32 MiB gives {} MiB",
                  format_bytes(by_steps), format_bytes(after_holes), format_bytes(by_20), format_bytes(by_33), by_pool),
      "as many as the limit has room for, and never more",
      {{"by_steps", by_steps},
       {"after_holes", after_holes},
       {"by_20", by_20},
       {"by_33", by_33},
       {"by_pool_mib", by_pool}});
}

void measure_copies(Lab& lab) {
  const auto bytes = lab.sized(256 * mib, mib);
  const auto context = open(lab, Share::whole(1));
  auto& stream = context->stream();
  auto buffer = must(stream.allocate(bytes));
  const BareContext bare{lab};
  CUstream bare_stream = nullptr;
  must(lab.driver.stream_create(&bare_stream, CU_STREAM_NON_BLOCKING));
  const Pinned pinned{bytes};
  std::vector<std::uint8_t> ordinary(bytes, 1);
  const auto ours = must(context->host_buffer(bytes));
  const auto device = reinterpret_cast<CUdeviceptr>(buffer.data());
  const auto host = reinterpret_cast<CUdeviceptr>(pinned.data());
  must(stream.synchronize());
  const auto bare_copy = [&](CUdeviceptr to, CUdeviceptr from) {
    must(lab.driver.memcpy_async(to, from, bytes, bare_stream));
    wait_bare(lab.driver, bare_stream);
  };
  const auto upload = [&](const void* from) {
    must(stream.upload(buffer.data(), from, bytes));
    must(stream.synchronize());
  };
  const auto download = [&](void* to) {
    must(stream.download(to, buffer.data(), bytes));
    must(stream.synchronize());
  };
  const auto [bare_up, up] = best_rates(
      bytes, [&] { bare_copy(device, host); }, [&] { upload(ours.data()); });
  const auto [bare_down, down] = best_rates(
      bytes, [&] { bare_copy(host, device); }, [&] { download(ours.data()); });
  const auto plain_up = best_rate(bytes, [&] { upload(ordinary.data()); });
  const auto plain_down = best_rate(bytes, [&] { download(ordinary.data()); });
  (void)lab.driver.stream_destroy(bare_stream);
  lab.report.judge("copies", up >= 0.95 * bare_up && down >= 0.95 * bare_down,
                   fmt::format("GB/s up and down: bare pinned {:.1f} {:.1f}, ours pinned {:.1f} {:.1f}, "
                               "ours from ordinary memory {:.1f} {:.1f}",
                               bare_up, bare_down, up, down, plain_up, plain_down),
                   "pinned at least 0.95 of bare",
                   {{"bare_up", bare_up},
                    {"bare_down", bare_down},
                    {"up", up},
                    {"down", down},
                    {"ordinary_up", plain_up},
                    {"ordinary_down", plain_down}});
}

} // namespace gpuactors::gpu
