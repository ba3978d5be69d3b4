// Memory that processes share, and copies between devices.
#include <gpuactors/base/descriptor.hpp>
#include <gpuactors/device/cuda_module.hpp>
#include <gpuactors/device/reservation.hpp>

#include <dlfcn.h>
#include <fmt/format.h>
#include <gpu/child.hpp>
#include <gpu/lab.hpp>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <tuple>

namespace gpuactors::gpu {

namespace {

constexpr std::uint8_t mark = 0x5a;

bool is_marked(const std::vector<std::uint8_t>& values) {
  return std::all_of(values.begin(), values.end(), [](std::uint8_t value) { return value == mark; });
}

/// What the driver says may be done with memory at this address.
std::string access_of(Lab& lab, void* address) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  const auto get = reinterpret_cast<CUresult (*)(unsigned long long*, const CUmemLocation*, CUdeviceptr)>(
      dlsym(library, "cuMemGetAccess"));
  if (get == nullptr)
    return "not told";
  const BareContext bare{lab};
  CUmemLocation location{};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = lab.device->info().ordinal;
  unsigned long long flags = 0;
  if (const auto code = get(&flags, &location, reinterpret_cast<CUdeviceptr>(address)); code != CUDA_SUCCESS)
    return fmt::format("not told (error {})", static_cast<int>(code));
  return flags == CU_MEM_ACCESS_FLAGS_PROT_READ ? "reading only" : "reading and writing";
}

/// Whether the driver lets `reader` use that pool's memory itself; nothing if it cannot be asked.
std::optional<bool> may_use(Lab& lab, CUdevice reader, const void* memory) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  const auto get = reinterpret_cast<CUresult (*)(CUmemAccess_flags*, CUmemoryPool, CUmemLocation*)>(
      dlsym(library, "cuMemPoolGetAccess"));
  if (get == nullptr)
    return std::nullopt;
  const BareContext current{lab};
  CUmemoryPool pool = nullptr;
  must(lab.driver.pointer_get_attribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
                                        reinterpret_cast<CUdeviceptr>(memory)));
  CUmemLocation where{};
  where.type = CU_MEM_LOCATION_TYPE_DEVICE;
  where.id = reader;
  CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  must(get(&flags, pool, &where));
  return flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

} // namespace

int lend(std::size_t bytes) {
  try {
    const auto device = must(find_device());
    const auto half = must(Context::open(device, {Share{Share::one / 2}, 3 * bytes, "lender", nullptr}));
    auto& stream = half->stream();
    const auto tensor = must(stream.tensor(DType::u8, {static_cast<std::int64_t>(bytes)}));
    must(stream.fill_bytes(tensor.raw(), mark, bytes));
    must(stream.synchronize());
    const auto shared = must(tensor.shareable(stream, {}));
    send_descriptor(STDOUT_FILENO, shared.shared_memory()->descriptor());
    // Until it is killed, or the other side is gone.
    char end = 0;
    while (read(STDIN_FILENO, &end, 1) > 0) {
    }
    return 0;
  } catch (const Trouble& trouble) {
    (void)!write(STDOUT_FILENO, trouble.text.data(), trouble.text.size());
    return 1;
  }
}

void check_sharing(Lab& lab) {
  const auto bytes = lab.sized(1024 * mib, 4 * mib);
  const auto before = free_bytes(lab);
  bool right = false;
  bool right_later = false;
  double opened_ms = 0;
  double read_rate = 0;
  double own_rate = 0;
  {
    const auto context = open(lab, Share{Share::one / 2}, 4 * bytes);
    auto& stream = context->stream();
    Child child{fmt::format("lend:{}", bytes)};
    std::string instead;
    const gpuactors::detail::Descriptor descriptor{receive_descriptor(child.socket(), instead)};
    if (!descriptor)
      throw Trouble{"the lender says: " + instead + child.output()};
    auto tensor = Tensor{};
    opened_ms = milliseconds([&] {
      auto memory = must(lab.device->open_shared_memory(descriptor.get(), bytes));
      tensor = must(stream.attach(std::move(memory), DType::u8, {static_cast<std::int64_t>(bytes)}));
    });
    right = is_marked(must(stream.to_host<std::uint8_t>(tensor)));
    const auto copy = must(stream.tensor(DType::u8, {static_cast<std::int64_t>(bytes)}));
    const auto own = must(stream.tensor(DType::u8, {static_cast<std::int64_t>(bytes)}));
    const auto take = [&](const Tensor& from) {
      must(stream.copy(copy.raw(), from.raw(), bytes));
      must(stream.synchronize());
    };
    std::tie(read_rate, own_rate) = best_rates(
        bytes, [&] { take(tensor); }, [&] { take(own); });
    lab.report.state("shared access", access_of(lab, tensor.raw()));
    child.kill();
    child.wait();
    // The process that made it is gone, and with it all that it had but this.
    right_later = is_marked(must(stream.to_host<std::uint8_t>(tensor)));
    must(stream.copy(copy.raw(), tensor.raw(), bytes));
    must(stream.synchronize());
  }
  const auto after = free_bytes(lab);
  const bool back = after + 64 * mib >= before;
  lab.report.judge("shared", right && right_later && back && read_rate >= 0.8 * own_rate,
                   fmt::format("{} of another process opened in {:.2f} ms and {}; copied from at {:.0f} GB/s (own "
                               "memory {:.0f}); {} after its owner was killed; {} MiB less free than before",
                               format_bytes(bytes), opened_ms, right ? "right" : "WRONG", read_rate, own_rate,
                               right_later ? "still right" : "WRONG",
                               (static_cast<std::int64_t>(before) - static_cast<std::int64_t>(after))
                                   / static_cast<std::int64_t>(mib)),
                   "right, also without its owner, at 0.8 of the rate of own memory; then back on the device",
                   {{"open_ms", opened_ms}, {"gb_s", read_rate}, {"own_gb_s", own_rate}});
}

void check_lending(Lab& lab) {
  const auto bytes = lab.sized(1024 * mib, 4 * mib);
  const auto limit = 2 * bytes + 64 * mib;
  const auto context = must(Context::open(lab.device, {Share{Share::one / 2}, limit, "verify", nullptr}));
  auto& stream = context->stream();
  const auto before = free_bytes(lab);
  // The pool then keeps twice as much as the block takes, and has to give some back.
  (void)must(stream.allocate(2 * bytes));
  must(stream.synchronize());
  auto tensor = must(stream.tensor(DType::u8, {static_cast<std::int64_t>(bytes)}));
  must(stream.fill_bytes(tensor.raw(), mark, bytes));
  must(stream.synchronize());
  auto shared = Tensor{};
  const auto ms = milliseconds([&] { shared = must(tensor.shareable(stream, {})); });
  tensor = Tensor{};
  must(stream.synchronize());
  const auto lent = before - std::min(before, free_bytes(lab));
  const bool right = is_marked(must(stream.to_host<std::uint8_t>(shared)));
  shared = Tensor{};
  // More than the limit has beside it: so it is unmapped by now.
  (void)must(stream.allocate(2 * bytes));
  const auto left = before - std::min(before, free_bytes(lab));
  // The pool keeps what the limit has room for beside what is shared.
  lab.report.judge("lending", right && lent <= limit + 64 * mib && left <= limit + 64 * mib,
                   fmt::format("{} moved into memory that can be shared in {:.2f} ms and {}; of {} the device has {} "
                               "less while it is lent, {} afterwards",
                               format_bytes(bytes), ms, right ? "right" : "WRONG", format_bytes(limit),
                               format_bytes(lent), format_bytes(left)),
                   "never more than the lease", {{"ms", ms}, {"lent_bytes", lent}, {"left_bytes", left}});
}

void check_relatives(Lab& lab) {
  const auto limit = lab.device->info().memory_bytes;
  const auto lease = must(Context::open(lab.device, {Share{Share::one / 2}, limit, "lease", nullptr}));
  const auto child = must(Context::open(lab.device, {Share{Share::one / 2}, limit, "child", lease->quota()}));
  // Of which the device has not twice as much, and neither waits for what it has freed.
  const auto most = free_bytes(lab) / 5 * 3;
  std::string refused;
  const auto use = [&](Context& context) {
    return milliseconds([&] {
      auto buffer = context.stream().allocate(most);
      if (!buffer)
        refused += (&context == lease.get() ? " the lease: " : " the child: ") + buffer.error().message();
      else
        must(context.stream().fill_bytes(buffer->data(), mark, mib));
    });
  };
  const auto first = use(*lease);
  const auto second = use(*child);
  const auto third = use(*lease);
  must(lease->stream().synchronize());
  const auto reserved = Reservation::of(child->quota(), most);
  if (!reserved)
    refused += " RESERVATION: " + reserved.error().message();
  const auto left = free_bytes(lab);
  lab.report.judge(
      "relatives", refused.empty() && reserved && left >= most,
      fmt::format("{} allocated in a lease in {:.2f} ms, then by its child in {:.2f}, then in the lease in "
                  "{:.2f}{}; with as much reserved for libraries the device has {}",
                  format_bytes(most), first, second, third, refused.empty() ? "" : "; REFUSED:" + refused,
                  format_bytes(left)),
      "each gets what the other one has freed, and libraries what is reserved",
      {{"first_ms", first}, {"second_ms", second}, {"third_ms", third}, {"left_bytes", left}});
}

void measure_peers(Lab& lab) {
  const auto module = must(load_cuda_module());
  const auto devices = must(module->devices());
  if (devices.size() < 2)
    return lab.report.skip("peers", "one device is visible");
  const auto other = must(module->device(devices[1]));
  const auto bytes = lab.sized(256 * mib, 4 * mib);
  const auto here = open(lab, Share::whole(1));
  const auto there = must(Context::open(other, {Share::whole(1), 2 * bytes, "verify", nullptr}));
  const auto count = static_cast<std::int64_t>(bytes);
  const auto source = must(there->stream().tensor(DType::u8, {count}));
  must(there->stream().fill_bytes(source.raw(), mark, bytes));
  must(there->stream().synchronize());
  auto target = must(here->stream().tensor(DType::u8, {count}));
  const auto gb_s = best_rate(bytes, [&] {
    must(here->stream().copy_from(*other, target.raw(), source.raw(), bytes));
    must(here->stream().synchronize());
  });
  const bool right = is_marked(must(here->stream().to_host<std::uint8_t>(target)));
  const auto values = must(there->host_buffer(bytes));
  const auto through = best_rate(bytes, [&] {
    must(there->stream().download(values.data(), source.raw(), bytes));
    must(there->stream().synchronize());
    must(here->stream().upload(target.raw(), values.data(), bytes));
    must(here->stream().synchronize());
  });
  // Where there is a link, the copies must have gone over it: the driver's own way through the host is fast, too.
  int linked = 0;
  CUdevice reader = 0;
  CUdevice owner = 0;
  must(lab.driver.device_get(&reader, lab.device->info().ordinal));
  must(lab.driver.device_get(&owner, other->info().ordinal));
  must(lab.driver.device_can_access_peer(&linked, reader, owner));
  const bool shown = linked == 0 || may_use(lab, reader, source.raw()).value_or(lab.smoke);
  lab.report.judge(
      "peers", right && shown && gb_s >= through,
      fmt::format("from {} to {}: {:.1f} GB/s, through pinned memory of the host {:.1f}; {}; the bytes are "
                  "{}",
                  other->info().uuid, lab.device->info().uuid, gb_s, through,
                  linked == 0 ? "there is no link"
                  : shown     ? "over a link"
                              : "NOT over the link that there is",
                  right ? "right" : "WRONG"),
      "right, faster than through the host, and over a link if there is one",
      {{"gb_s", gb_s}, {"through_host_gb_s", through}});
}

} // namespace gpuactors::gpu
