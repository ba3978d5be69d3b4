// Streams on a part of a device, or on all of it.
#include <gpuactors/device/cuda/partition.hpp>

namespace gpuactors::cuda {

Result<void> Partition::open(Images& images) {
  if (copies_only_ || share_ == Share::whole(1))
    return {};
  auto part = split_->take(*primary_, share_, images);
  if (part) {
    part_ = std::move(*part);
    return {};
  }
  if (part.error().code() != Errc::unsupported)
    return fail(part.error());
  return {};
}

void Partition::close() noexcept {
  if (part_)
    split_->give_back(*part_);
  part_.reset();
}

Result<CUstream> Partition::make_stream() {
  if (part_)
    return split_->make_stream(*primary_, *part_);
  CUstream stream = nullptr;
  GPUACTORS_TRY(primary_->check(primary_->driver().stream_create(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
  return stream;
}

void Partition::destroy_stream(CUstream stream) noexcept {
  if (part_)
    split_->destroy_stream(primary_->driver(), stream);
  else
    (void)primary_->driver().stream_destroy(stream);
}

Result<CUevent> Partition::make_event() {
  // As for all streams of the primary context.
  return split_->make_event(*primary_, part_ ? *part_ : Split::Part{});
}

void Partition::describe(ContextGrant& grant) const {
  grant.units = sms();
  if (part_) {
    grant.compute = ComputeEnforcement::sm_groups;
    grant.groups = part_->groups;
    grant.group_count = split_->group_count();
    grant.shared = split_->is_shared(*part_);
  } else if (share_ == Share::whole(1) && split_->without_groups() != ComputeEnforcement::capped) {
    grant.compute = ComputeEnforcement::exclusive;
  } else {
    grant.compute = split_->without_groups();
    grant.reason = copies_only_ ? "it only copies" : split_->reason();
  }
}

} // namespace gpuactors::cuda
