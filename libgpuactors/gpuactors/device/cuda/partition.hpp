// Which part of a device's compute a backend's streams run on.
#pragma once

#include <gpuactors/device/cuda/primary.hpp>
#include <gpuactors/device/types.hpp>

namespace gpuactors::cuda {

/// The compute of one backend. All its streams come from here, so that a set of SMs of its own (a green context) is a
/// matter of this class alone. For now every backend runs on the whole device: a fraction is `unenforced`.
class Partition {
public:
  Partition(std::shared_ptr<Primary> primary, Share share, int device_sms)
    : primary_(std::move(primary)), share_(share), sms_(device_sms) {
    // nop
  }

  /// A stream that does not wait for the NULL stream, which we never use. The context is current.
  Result<CUstream> make_stream() {
    CUstream stream = nullptr;
    GPUACTORS_TRY(primary_->check(primary_->driver().stream_create(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
    return stream;
  }

  /// SMs that the streams may run on.
  [[nodiscard]] int sms() const noexcept {
    return sms_;
  }

  [[nodiscard]] ComputeEnforcement enforcement() const noexcept {
    return share_ == Share::whole(1) ? ComputeEnforcement::exclusive : ComputeEnforcement::unenforced;
  }

private:
  std::shared_ptr<Primary> primary_;
  Share share_;
  int sms_;
};

} // namespace gpuactors::cuda
