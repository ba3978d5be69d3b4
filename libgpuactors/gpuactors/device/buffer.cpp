// Buffer: owns device memory; Tensor: how the memory of another owner is kept readable.
#include <gpuactors/device/detail/context_state.hpp>

namespace gpuactors {

void* Buffer::data() const noexcept {
  return block_ != nullptr ? block_->pointer.load(std::memory_order_acquire) : nullptr;
}

std::size_t Buffer::bytes() const noexcept {
  return block_ != nullptr ? block_->bytes : 0;
}

void* Buffer::release() noexcept {
  const auto block = std::move(block_);
  block_.reset();
  if (block == nullptr)
    return nullptr;
  std::lock_guard guard{block->registry->mutex};
  if (block->storage == nullptr)
    return nullptr;
  block->registry->released.push_back(block);
  return block->storage->pointer;
}

std::shared_ptr<detail::Storage> Buffer::storage() const {
  if (block_ == nullptr)
    return nullptr;
  const std::lock_guard guard{block_->registry->mutex};
  return block_->storage;
}

Tensor Tensor::viewed(std::shared_ptr<detail::Storage> storage) const {
  if (storage == nullptr)
    return {};
  // The view has a registry of its own, so that no context takes its block away.
  auto view = std::make_shared<detail::Block>(std::make_shared<detail::BlockRegistry>(), std::move(storage));
  Tensor result{Buffer{std::move(view)}, dtype_, shape_};
  result.offset_ = offset_;
  return result;
}

Tensor Tensor::pinned() const {
  return viewed(buffer_.storage());
}

Result<Tensor> Tensor::pinned(Stream& reader) const {
  GPUACTORS_TRY(reader.backend());
  auto storage = buffer_.storage();
  if (storage == nullptr)
    return Tensor{};
  GPUACTORS_LET(kept, reader.state_->read(std::move(storage), reader.handle_));
  return viewed(std::move(kept));
}

} // namespace gpuactors
