// Tensors: shapes, and the transfers that know about element types.
#include <gpuactors/device/detail/context_state.hpp>
#include <gpuactors/device/shape.hpp>

#include <fmt/format.h>

namespace gpuactors {

namespace detail {

std::string format_shape(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

Result<std::size_t> tensor_bytes(DType dtype, const std::vector<std::int64_t>& shape) {
  if (size_of(dtype) == 0)
    return fail(
        Errc::invalid_argument,
        fmt::format("{} is no element type; there are f32, f64, f16, bf16, i32, i64 and u8", static_cast<int>(dtype)));
  if (shape.empty() || shape.size() > limits::tensor_rank)
    return fail(Errc::invalid_argument,
                fmt::format("a tensor has 1 to {} dimensions, not {}", limits::tensor_rank, shape.size()));
  // Sizes stay below 2^63, so that they are also valid as signed numbers.
  constexpr auto most = std::size_t{1} << 63;
  std::size_t bytes = size_of(dtype);
  for (auto dimension : shape) {
    if (dimension < 1)
      return fail(Errc::invalid_argument, fmt::format("the shape {} has a dimension below 1", format_shape(shape)));
    if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(dimension), &bytes) || bytes >= most)
      return fail(Errc::invalid_argument, fmt::format("a tensor of shape {} and type {} has 2^63 B or more",
                                                      format_shape(shape), to_string(dtype)));
  }
  return bytes;
}

} // namespace detail

std::int64_t Tensor::size() const noexcept {
  if (shape_.empty())
    return 0;
  std::int64_t count = 1;
  for (auto dimension : shape_)
    count *= dimension;
  return count;
}

Result<Tensor> Stream::tensor(DType dtype, std::vector<std::int64_t> shape) {
  GPUACTORS_LET(bytes, detail::tensor_bytes(dtype, shape));
  GPUACTORS_LET(buffer, allocate(bytes));
  return Tensor{std::move(buffer), dtype, std::move(shape)};
}

Result<Tensor> Stream::tensor_from(const void* values, std::size_t count, DType dtype,
                                   std::vector<std::int64_t> shape) {
  GPUACTORS_LET(bytes, detail::tensor_bytes(dtype, shape));
  if (bytes / size_of(dtype) != count)
    return fail(Errc::invalid_argument, fmt::format("{} values do not fill a tensor of shape {}, which has {}", count,
                                                    detail::format_shape(shape), bytes / size_of(dtype)));
  GPUACTORS_LET(made, tensor(dtype, std::move(shape)));
  GPUACTORS_TRY(upload(made.raw(), values, bytes));
  GPUACTORS_TRY(synchronize());
  return std::move(made);
}

namespace {

/// Why a tensor has no memory.
Failure no_memory(const Tensor& tensor) {
  if (tensor.shape().empty())
    return fail(Errc::invalid_argument, "the tensor is empty: it was moved from, or never made");
  return fail(Errc::lease_expired, "the memory of this tensor was reclaimed");
}

Failure other_type(const Tensor& tensor, DType dtype) {
  return fail(Errc::invalid_argument,
              fmt::format("the tensor holds {}, not {}", to_string(tensor.dtype()), to_string(dtype)));
}

} // namespace

Result<Tensor> Tensor::part(std::size_t offset, std::vector<std::int64_t> shape) const {
  if (!*this)
    return no_memory(*this);
  Tensor result{Buffer{buffer_.block_}, dtype_, std::move(shape)};
  result.offset_ = offset_ + offset;
  return result;
}

Result<Tensor> Tensor::rows(std::int64_t first, std::int64_t count) const {
  if (shape_.empty())
    return no_memory(*this);
  if (first < 0 || count < 1 || first > shape_[0] - count)
    return fail(Errc::invalid_argument,
                fmt::format("{} rows from row {} on were asked for, of a tensor of shape {}: rows 0 to {} are there",
                            count, first, detail::format_shape(shape_), shape_[0] - 1));
  auto shape = shape_;
  shape[0] = count;
  const auto row_bytes = bytes() / static_cast<std::size_t>(shape_[0]);
  return part(static_cast<std::size_t>(first) * row_bytes, std::move(shape));
}

Result<Tensor> Tensor::reshaped(std::vector<std::int64_t> shape) const {
  GPUACTORS_LET(wanted, detail::tensor_bytes(dtype_, shape));
  if (!shape_.empty() && wanted != bytes())
    return fail(Errc::invalid_argument,
                fmt::format("a tensor of shape {} cannot have the shape {}: it has {} elements, and not {}",
                            detail::format_shape(shape_), detail::format_shape(shape), size(),
                            wanted / size_of(dtype_)));
  return part(0, std::move(shape));
}

KernelArgument::KernelArgument(const Tensor& tensor) : KernelArgument(tensor.raw()) {
  is_missing_ = tensor.raw() == nullptr;
}

Result<void> Stream::check_memory(const Tensor& tensor) {
  return tensor ? Result<void>{} : no_memory(tensor);
}

Result<void> Stream::check_values(const Tensor& tensor, DType dtype, std::size_t count) {
  if (dtype != tensor.dtype())
    return other_type(tensor, dtype);
  GPUACTORS_TRY(check_memory(tensor));
  if (count != static_cast<std::size_t>(tensor.size()))
    return fail(Errc::invalid_argument, fmt::format("{} values are given for a tensor of shape {}, which has {}", count,
                                                    detail::format_shape(tensor.shape()), tensor.size()));
  return {};
}

Result<void> Stream::check_bytes(const Tensor& tensor, std::size_t bytes) {
  GPUACTORS_TRY(check_memory(tensor));
  if (bytes != tensor.bytes())
    return fail(Errc::invalid_argument,
                fmt::format("{} B are given for a tensor of {} {}, which has {} B", bytes, to_string(tensor.dtype()),
                            detail::format_shape(tensor.shape()), tensor.bytes()));
  return {};
}

Result<void> Stream::refuse(const KernelInfo& kernel, std::initializer_list<TensorArgument> arguments) {
  int number = 0;
  for (const auto& argument : arguments) {
    ++number;
    if (argument.unusable == nullptr)
      continue;
    const auto why =
        *argument.unusable ? other_type(*argument.unusable, argument.expected) : no_memory(*argument.unusable);
    return fail(why.error().code(),
                fmt::format("argument {} of kernel {}: {}", number, kernel.name, why.error().message()));
  }
  return {};
}

Result<void> Stream::zero(Tensor& target) {
  return fill_bytes(target, 0);
}

Result<void> Stream::fill_bytes(Tensor& target, std::uint8_t value) {
  GPUACTORS_TRY(check_memory(target));
  return fill_bytes(target.raw(), value, target.bytes());
}

Result<void> Stream::copy(Tensor& target, const Tensor& source) {
  if (target.dtype() != source.dtype() || target.size() != source.size())
    return fail(Errc::invalid_argument, fmt::format("a tensor of {} {} cannot be copied to one of {} {}",
                                                    to_string(source.dtype()), detail::format_shape(source.shape()),
                                                    to_string(target.dtype()), detail::format_shape(target.shape())));
  GPUACTORS_TRY(check_memory(target));
  GPUACTORS_TRY(check_memory(source));
  return copy(target.raw(), source.raw(), target.bytes());
}

Result<Tensor> Stream::attach(std::shared_ptr<SharedMemory> memory, DType dtype, std::vector<std::int64_t> shape) {
  GPUACTORS_TRY(backend());
  GPUACTORS_LET(bytes, detail::tensor_bytes(dtype, shape));
  if (memory == nullptr || bytes > memory->footprint())
    return fail(Errc::invalid_argument, fmt::format("a tensor of {} B does not lie in shared memory of {} B", bytes,
                                                    memory == nullptr ? 0 : memory->footprint()));
  auto& ground = *state_->ground;
  GPUACTORS_TRY(ground.reserve(memory->footprint()));
  auto charge = std::make_shared<detail::SharedCharge>(ground.quota, memory->footprint());
  GPUACTORS_TRY(ground.backend->attach(memory->footprint()));
  charge->memory = std::move(memory);
  auto block = detail::attach(state_->ground, handle_, state_->blocks, std::move(charge), bytes);
  return Tensor{Buffer{std::move(block)}, dtype, std::move(shape)};
}

Result<Tensor> Tensor::shareable(Stream& through, std::function<void()> on_end) const {
  const auto storage = buffer_.storage();
  if (storage == nullptr)
    return Tensor{};
  const auto& home = storage->ground;
  // Reserves before it allocates, so that a lease without room takes nothing from the device either. Does not wait for
  // memory that is being released, because that release may be queued behind a kernel.
  GPUACTORS_LET(footprint, home->device->shared_footprint(bytes()));
  GPUACTORS_TRY(home->quota->reserve(footprint));
  auto charge = std::make_shared<detail::SharedCharge>(home->quota, footprint);
  GPUACTORS_TRY(home->backend->attach(footprint));
  auto memory = home->device->make_shared_memory(bytes());
  if (!memory) {
    home->backend->detach(footprint);
    return fail(memory.error());
  }
  charge->memory = std::move(*memory);
  Tensor copy{Buffer{detail::attach(home, storage->stream, buffer_.block_->registry, charge, bytes())}, dtype_, shape_};
  // `target` and `storage` keep both memories while the copy runs, even if the context ends meanwhile.
  const auto target = copy.buffer_.storage();
  if (target == nullptr)
    return Tensor{};
  GPUACTORS_TRY(through.copy(target->pointer, static_cast<std::byte*>(storage->pointer) + offset_, bytes()));
  GPUACTORS_TRY(through.synchronize());
  // A context that ends takes the blocks that are in its registry by then. If it has taken this tensor, it may have
  // missed the copy, so the copy is dropped.
  if (!*this)
    return Tensor{};
  // Set last, because nobody knew the copy before and its end needed no report.
  charge->on_end = std::move(on_end);
  return copy;
}

std::shared_ptr<SharedMemory> Tensor::shared_memory() const {
  const auto storage = buffer_.storage();
  // Those who open it see all of it.
  return storage != nullptr && storage->bytes == bytes() ? storage->shared : nullptr;
}

} // namespace gpuactors
