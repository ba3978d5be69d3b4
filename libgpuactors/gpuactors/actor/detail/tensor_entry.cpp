#include <gpuactors/actor/detail/tensor_table.hpp>
#include <gpuactors/device/shape.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

namespace gpuactors::detail {

namespace {

Failure lost_tensor() {
  return fail(Errc::actor_died, "the tensor is lost: the task or actor that put it has ended");
}

/// Opens a reader's own context on a device, with the smallest share. It only copies: to set up a part of the compute
/// would wait for all kernels of this process.
Result<std::unique_ptr<Context>> open_reader(const std::shared_ptr<Device>& device) {
  ContextOptions options;
  options.share = Share{1};
  options.holder = "reader of a shared tensor";
  options.copies_only = true;
  return Context::open(device, std::move(options));
}

} // namespace

Result<std::size_t> shared_bytes(DType dtype, const std::vector<std::int64_t>& shape) {
  // `tensor_bytes` refuses dimensions of 0. Replacing them with 1 lets it check everything else.
  auto filled = shape;
  std::replace(filled.begin(), filled.end(), std::int64_t{0}, std::int64_t{1});
  GPUACTORS_LET(bytes, tensor_bytes(dtype, filled));
  return filled == shape ? bytes : 0;
}

// -- TensorEntry ----------------------------------------------------------------------------------

TensorEntry::~TensorEntry() {
  lose();
  if (const auto home = table.lock())
    home->forget(*this);
}

Mark Coming::mark() const {
  const std::lock_guard lock{mutex_};
  return mark_;
}

void Coming::set(Result<void> outcome) {
  const std::lock_guard lock{mutex_};
  outcome_ = std::move(outcome);
  // Gives the mark's event back for the next mark of the stream: the tensor may live for long.
  mark_ = Mark{};
  done_.notify_all();
}

Result<void> Coming::wait() const {
  std::unique_lock lock{mutex_};
  done_.wait(lock, [this] { return outcome_.has_value(); });
  return *outcome_;
}

Result<Tensor> TensorEntry::view_on(Stream& stream) const {
  if (borrowed)
    return borrowed_on(stream);
  Mark mark;
  // Failed work on CUDA loses the device, so everything that waits for the mark fails as well. On a host device it does
  // not: the caller has to wait and get the error.
  if (coming != nullptr && device->info().kind == DeviceKind::cuda)
    mark = coming->mark();
  if (coming != nullptr && !mark)
    GPUACTORS_TRY(coming->wait());
  GPUACTORS_LET(result, pinned_for(stream));
  if (!result)
    return lost_tensor();
  if (mark)
    GPUACTORS_TRY(stream.wait(mark));
  return std::move(result);
}

Result<Tensor> TensorEntry::view() const {
  if (device == nullptr)
    return fail(Errc::unsupported, "the tensor lies in host memory: on() brings it to a device, host() reads it there");
  if (borrowed)
    return fail(Errc::unsupported, "the tensor lies in memory of another process: on() opens it for a stream");
  if (coming != nullptr)
    GPUACTORS_TRY(coming->wait());
  const std::lock_guard guard{place};
  auto result = tensor.pinned();
  if (!result)
    return lost_tensor();
  return result;
}

Result<Tensor> TensorEntry::pinned_for(Stream& stream) const {
  const std::lock_guard guard{place};
  return tensor.pinned(stream);
}

Result<std::shared_ptr<SharedMemory>> TensorEntry::memory() const {
  const std::lock_guard guard{place};
  if (opened == nullptr)
    return lost_tensor();
  return opened;
}

Result<Tensor> TensorEntry::borrowed_on(Stream& stream) const {
  GPUACTORS_LET(source, memory());
  if (near)
    return stream.attach(std::move(source), dtype, shape);
  // The memory is on a peer device. Every read would cross the link between the devices; the copy crosses it once.
  GPUACTORS_LET(copy, stream.tensor(dtype, shape));
  GPUACTORS_TRY(stream.copy(copy.raw(), source->data(), bytes));
  GPUACTORS_TRY(stream.synchronize());
  return std::move(copy);
}

Result<TensorEntry::Source> TensorEntry::source() const {
  Source result;
  if (borrowed) {
    GPUACTORS_LET(found, memory());
    result.address = found->data();
    result.lent = std::move(found);
  } else {
    GPUACTORS_LET(found, view());
    result.address = found.raw();
    result.tensor = std::move(found);
  }
  return result;
}

Result<Tensor> TensorEntry::copy_to(Stream& stream) {
  GPUACTORS_LET(copy, stream.tensor(dtype, shape));
  GPUACTORS_LET(from, source());
  std::vector<std::byte> through;
  auto copied = stream.copy_from(*device, copy.raw(), from.address, bytes);
  if (!copied && copied.error().code() == Errc::unsupported) {
    through.resize(bytes);
    GPUACTORS_TRY(read(through.data()));
    copied = stream.upload(copy.raw(), through.data(), bytes);
  }
  // Synchronizes after a failure as well: a part of the copy may be in flight.
  GPUACTORS_TRY(stream.synchronize());
  if (!copied)
    return fail(copied.error());
  return std::move(copy);
}

Result<std::shared_ptr<SharedMemory>> TensorEntry::device_bytes(std::function<void()> on_end) {
  const std::lock_guard lock{mutex};
  if (borrowed)
    return fail(Errc::unsupported, "the tensor is borrowed, and goes through the host");
  GPUACTORS_LET(source, view());
  // Memory that another process made has no descriptor, even if it is open here.
  if (auto shared = source.shared_memory(); shared != nullptr && shared->descriptor() >= 0)
    return shared;
  GPUACTORS_LET(context, open_reader(device));
  // Copies `tensor`, not the pinned `source`: a copy of that would not be freed with its owner.
  GPUACTORS_LET(copy, tensor.shareable(context->stream(), std::move(on_end)));
  auto shared = copy.shared_memory();
  {
    // The shareable copy replaces the tensor; the original memory is freed with its last reader.
    const std::lock_guard guard{place};
    std::swap(tensor, copy);
  }
  if (shared == nullptr)
    return lost_tensor();
  return shared;
}

void TensorEntry::lose() {
  std::shared_ptr<SharedMemory> gone;
  {
    const std::lock_guard guard{place};
    gone.swap(opened);
  }
  // Unmapping may take long, so the device does it and not this thread.
  if (gone != nullptr)
    device->dispose(std::move(gone));
}

Result<SharedRegion> TensorEntry::host_bytes() {
  const std::lock_guard lock{mutex};
  if (device == nullptr)
    return region;
  if (borrowed)
    GPUACTORS_TRY(memory());
  else
    GPUACTORS_TRY(view());
  if (region)
    return region;
  const auto home = table.lock();
  if (home == nullptr)
    return fail(Errc::unavailable, "the store of the tensor has ended");
  GPUACTORS_LET(draft, home->make(bytes));
  GPUACTORS_TRY(read(draft.data()));
  region = std::move(draft).seal();
  return region;
}

Result<void> TensorEntry::read(void* target) {
  if (device == nullptr) {
    if (bytes > 0)
      std::memcpy(target, region.data(), bytes);
    return {};
  }
  GPUACTORS_LET(from, source());
  GPUACTORS_LET(context, open_reader(device));
  GPUACTORS_TRY(context->stream().download(target, from.address, bytes));
  return context->stream().synchronize();
}

} // namespace gpuactors::detail
