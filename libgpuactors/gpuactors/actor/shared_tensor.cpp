// Shared<Tensor>: reading a shared tensor, and naming it for others.
#include <gpuactors/actor/detail/tensor_table.hpp>
#include <gpuactors/actor/tensor_store.hpp>

#include <fmt/format.h>

namespace gpuactors {

namespace {

Failure empty_handle() {
  return fail(Errc::invalid_argument, "the handle is empty");
}

} // namespace

DType Shared<Tensor>::dtype() const noexcept {
  return entry_->dtype;
}

const std::vector<std::int64_t>& Shared<Tensor>::shape() const noexcept {
  return entry_->shape;
}

std::int64_t Shared<Tensor>::size() const noexcept {
  return entry_ == nullptr ? 0 : static_cast<std::int64_t>(entry_->bytes / size_of(entry_->dtype));
}

v1::TensorRef Shared<Tensor>::ref() const {
  v1::TensorRef result;
  if (entry_ == nullptr)
    return result;
  result.set_dtype(static_cast<v1::DType>(dtype()));
  for (const auto dimension : shape())
    result.add_shape(dimension);
  result.set_id(entry_->id);
  if (const auto home = entry_->table.lock()) {
    result.set_store(home->identity());
    result.set_address(home->address());
  }
  if (entry_->device != nullptr && entry_->device->info().kind == DeviceKind::cuda && !entry_->borrowed
      && entry_->bytes >= limits::device_shared_from)
    result.set_device(entry_->device->info().uuid);
  return result;
}

v1::TensorRef Shared<Tensor>::hand_over(Duration keep) && {
  auto result = ref();
  if (entry_ == nullptr)
    return result;
  if (const auto home = entry_->table.lock())
    result.set_hand_over(home->hand_over(entry_, keep));
  entry_ = nullptr;
  return result;
}

Result<Tensor> Shared<Tensor>::view() const {
  if (entry_ == nullptr)
    return empty_handle();
  return entry_->view();
}

Result<Tensor> Shared<Tensor>::on(Stream& stream) const {
  if (entry_ == nullptr)
    return empty_handle();
  if (entry_->device == nullptr) {
    GPUACTORS_LET(copy, stream.tensor(dtype(), shape()));
    GPUACTORS_LET(region, entry_->host_bytes());
    GPUACTORS_TRY(stream.upload(copy.raw(), region.data(), region.size()));
    GPUACTORS_TRY(stream.synchronize());
    return std::move(copy);
  }
  const auto& here = stream.context().device();
  const auto& there = entry_->device->info();
  if (here.uuid == there.uuid && here.kind == there.kind && here.ordinal == there.ordinal)
    return entry_->view_on(stream);
  return entry_->copy_to(stream);
}

Result<void> Shared<Tensor>::check(DType wanted) const {
  if (entry_ == nullptr)
    return empty_handle();
  if (wanted != dtype())
    return fail(Errc::invalid_argument,
                fmt::format("the tensor holds {}, not {}", to_string(dtype()), to_string(wanted)));
  return {};
}

Result<void> Shared<Tensor>::read(void* values, DType wanted) const {
  GPUACTORS_TRY(check(wanted));
  return entry_->read(values);
}

Result<const void*> Shared<Tensor>::host(DType wanted) const {
  GPUACTORS_TRY(check(wanted));
  GPUACTORS_LET(region, entry_->host_bytes());
  return static_cast<const void*>(region.data());
}

} // namespace gpuactors
