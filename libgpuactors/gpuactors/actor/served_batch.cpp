#include <gpuactors/actor/served_batch.hpp>
#include <gpuactors/base/limits.hpp>

#include <cstdint>
#include <numeric>
#include <string>
#include <utility>

namespace gpuactors {

namespace {

/// What became of a tensor says nothing of the replica: codes that would are not passed on.
Failure of_the_batch(const Error& error) {
  const auto own = error.code() == Errc::out_of_memory || error.code() == Errc::invalid_argument;
  return fail(own ? error.code() : Errc::task_failed, error.message());
}

} // namespace

Result<ServedInputs> ServedInputs::of(const v1::ReplicaBatch& batch, TensorStore& tensors) {
  ServedInputs result;
  for (const auto& bytes : batch.inputs())
    result.views_.push_back(std::as_bytes(std::span{bytes}));
  for (const auto& ref : batch.input_tensors()) {
    auto tensor = tensors.get(ref);
    if (!tensor)
      return of_the_batch(tensor.error());
    const auto bytes = tensor->host<std::uint8_t>();
    if (!bytes)
      return of_the_batch(bytes.error());
    result.views_.push_back(std::as_bytes(*bytes));
    result.kept_.push_back(std::move(*tensor));
  }
  return result;
}

Result<ServedOutputs> ServedOutputs::make(const std::vector<std::size_t>& bytes, TensorStore& tensors) {
  ServedOutputs result;
  if (std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}) <= limits::served_message_bytes) {
    for (const auto size : bytes)
      result.reply_.add_outputs()->resize(size);
    return result;
  }
  for (const auto size : bytes) {
    auto draft = tensors.draft(DType::u8, {static_cast<std::int64_t>(size)});
    if (!draft)
      return of_the_batch(draft.error());
    result.drafts_.push_back(std::move(*draft));
  }
  return result;
}

std::span<std::byte> ServedOutputs::operator[](std::size_t i) {
  if (!drafts_.empty())
    return drafts_[i].bytes();
  return std::as_writable_bytes(std::span{*reply_.mutable_outputs(static_cast<int>(i))});
}

v1::ReplicaReply ServedOutputs::finish() && {
  for (auto& draft : drafts_)
    *reply_.add_output_tensors() = std::move(draft).share().hand_over(limits::served_hand_over);
  return std::move(reply_);
}

} // namespace gpuactors
