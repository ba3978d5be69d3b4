#include <gpuactors/actor/tensor_store.hpp>

#include <fmt/format.h>

#include <random>

namespace gpuactors {

struct Shared<Tensor>::Entry {
  std::weak_ptr<TensorStore> store;
  std::uint64_t id = 0;
  Tensor tensor;
  // For copies to other devices and to the host once the owner's stream is not at hand: the device it lies on.
  std::shared_ptr<Device> device;

  ~Entry();
};

struct TensorStore::Slot {
  std::weak_ptr<Shared<Tensor>::Entry> entry;
  // Set while a reference that was handed over is on its way.
  std::shared_ptr<Shared<Tensor>::Entry> kept;
};

namespace {

Failure owner_ended() {
  return fail(Errc::actor_died, "the tensor is lost: the task or actor that put it has ended");
}

} // namespace

Shared<Tensor>::Entry::~Entry() {
  if (const auto home = store.lock()) {
    const std::lock_guard lock{home->mutex_};
    home->slots_.erase(id);
  }
}

// -- Shared<Tensor> -------------------------------------------------------------------------------

DType Shared<Tensor>::dtype() const noexcept {
  return entry_->tensor.dtype();
}

const std::vector<std::int64_t>& Shared<Tensor>::shape() const noexcept {
  return entry_->tensor.shape();
}

std::int64_t Shared<Tensor>::size() const noexcept {
  return entry_->tensor.size();
}

v1::TensorRef Shared<Tensor>::ref() const {
  v1::TensorRef result;
  if (entry_ == nullptr)
    return result;
  result.set_dtype(static_cast<v1::DType>(dtype()));
  for (const auto dimension : shape())
    result.add_shape(dimension);
  result.set_id(entry_->id);
  if (const auto home = entry_->store.lock())
    result.set_store(home->identity_);
  return result;
}

v1::TensorRef Shared<Tensor>::hand_over() && {
  auto result = ref();
  const auto entry = std::move(entry_);
  if (entry == nullptr)
    return result;
  if (const auto home = entry->store.lock()) {
    const std::lock_guard lock{home->mutex_};
    if (const auto slot = home->slots_.find(entry->id); slot != home->slots_.end())
      slot->second.kept = entry;
  }
  return result;
}

Result<Tensor> Shared<Tensor>::view() const {
  if (entry_ == nullptr)
    return fail(Errc::invalid_argument, "the handle is empty");
  auto view = entry_->tensor.pinned();
  if (!view)
    return owner_ended();
  return view;
}

Result<Tensor> Shared<Tensor>::on(Stream& stream) const {
  GPUACTORS_LET(source, view());
  const auto& here = stream.context().device();
  const auto& there = entry_->device->info();
  if (here.uuid == there.uuid && here.kind == there.kind && here.ordinal == there.ordinal)
    return std::move(source);
  GPUACTORS_LET(copy, stream.tensor(dtype(), shape()));
  std::vector<std::uint8_t> bytes(copy.bytes());
  GPUACTORS_TRY(read(bytes.data(), dtype()));
  GPUACTORS_TRY(stream.upload(copy.raw(), bytes.data(), bytes.size()));
  GPUACTORS_TRY(stream.synchronize());
  return std::move(copy);
}

Result<void> Shared<Tensor>::read(void* values, DType wanted) const {
  GPUACTORS_LET(source, view());
  if (wanted != dtype())
    return fail(Errc::invalid_argument,
                fmt::format("the tensor holds {}, not {}", to_string(dtype()), to_string(wanted)));
  // A reader's own hold on the device: the smallest share, no memory.
  ContextOptions options;
  options.share = Share{1};
  options.holder = "reader of a shared tensor";
  GPUACTORS_LET(context, Context::open(entry_->device, options));
  GPUACTORS_TRY(context->stream().download(values, source.raw(), source.bytes()));
  return context->stream().synchronize();
}

// -- TensorStore ----------------------------------------------------------------------------------

TensorStore::TensorStore() {
  std::random_device random;
  identity_ = (std::uint64_t{random()} << 32) | random();
}

TensorStore::~TensorStore() = default;

Result<Shared<Tensor>> TensorStore::put(Tensor tensor, Stream& stream) {
  if (!tensor)
    return fail(Errc::invalid_argument, "there is no tensor to put: it is empty, moved from or reclaimed");
  GPUACTORS_TRY(stream.synchronize());
  auto entry = std::make_shared<Shared<Tensor>::Entry>();
  entry->store = weak_from_this();
  entry->tensor = std::move(tensor);
  entry->device = stream.context().device_handle();
  const std::lock_guard lock{mutex_};
  entry->id = next_id_++;
  slots_[entry->id].entry = entry;
  return Shared<Tensor>{std::move(entry)};
}

Result<Shared<Tensor>> TensorStore::get(const v1::TensorRef& ref) {
  if (ref.store() != identity_)
    return fail(Errc::not_found,
                fmt::format("tensor {} was put by another process; this one has the store {:x}", ref.id(), identity_));
  std::shared_ptr<Shared<Tensor>::Entry> entry;
  {
    const std::lock_guard lock{mutex_};
    if (const auto slot = slots_.find(ref.id()); slot != slots_.end()) {
      entry = slot->second.kept != nullptr ? std::move(slot->second.kept) : slot->second.entry.lock();
      slot->second.kept = nullptr;
    }
  }
  if (entry == nullptr)
    return fail(Errc::not_found, fmt::format("tensor {} is gone: nobody holds it any more", ref.id()));
  return Shared<Tensor>{std::move(entry)};
}

std::size_t TensorStore::size() const {
  const std::lock_guard lock{mutex_};
  return slots_.size();
}

} // namespace gpuactors
