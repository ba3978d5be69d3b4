// Which part of a device's compute a backend's streams run on.
#pragma once

#include <gpuactors/device/backend.hpp>
#include <gpuactors/device/cuda/split.hpp>
#include <gpuactors/device/types.hpp>

#include <optional>

namespace gpuactors::cuda {

/// The compute of one backend; all its streams come from here. A whole device is the primary context's, as is what
/// only copies; a fraction is a green context over groups of the device's split, or `unenforced` where there are none.
/// The thread of its backend; the primary context is current.
class Partition {
public:
  Partition(std::shared_ptr<Primary> primary, std::shared_ptr<Split> split, const BackendOptions& options,
            int device_sms)
    : primary_(std::move(primary)), split_(std::move(split)), share_(options.share), copies_only_(options.copies_only),
      device_sms_(device_sms) {
    // nop
  }
  Partition(const Partition&) = delete;
  Partition& operator=(const Partition&) = delete;
  ~Partition() = default;

  /// Takes the groups, and loads `images` for them. Without green contexts it succeeds too: `describe` says so.
  Result<void> open(Images& images);

  /// Gives the groups back; the streams are gone.
  void close() noexcept;

  /// A stream that does not wait for the NULL stream, which we never use. Any thread.
  Result<CUstream> make_stream();

  /// Ends one whose work is done. Any thread.
  void destroy_stream(CUstream stream) noexcept;

  /// An event for these streams, without a time. Any thread.
  Result<CUevent> make_event();
  void destroy_event(CUevent event) noexcept {
    (void)primary_->driver().event_destroy(event);
  }

  /// SMs that the streams may run on.
  [[nodiscard]] int sms() const noexcept {
    return part_ ? part_->sms : device_sms_ * split_->percent() / 100;
  }

  /// Whether the streams are kept to a part of the device.
  [[nodiscard]] bool is_part() const noexcept {
    return part_.has_value();
  }

  /// Fills in what a grant says of compute.
  void describe(ContextGrant& grant) const;

private:
  std::shared_ptr<Primary> primary_;
  std::shared_ptr<Split> split_;
  Share share_;
  bool copies_only_;
  int device_sms_;
  std::optional<Split::Part> part_;
};

} // namespace gpuactors::cuda
