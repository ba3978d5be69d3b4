// What the built-in types share: checks of their input, where they run as a message, and lines to print.
#pragma once

#include <gpuactors/builtin/v1/builtin.pb.h>
#include <gpuactors/gpuactors.hpp>

#include <string_view>

namespace gpuactors::builtin {

/// Rows and columns of a square matrix.
/// @returns `invalid_argument` below 1, and when a matrix of `element_bytes` each cannot be counted in 63 bits.
Result<std::int64_t> check_order(std::int64_t n, std::size_t element_bytes);

/// A number of things of `unit_bytes` each: elements of 4 bytes, or bytes.
/// @returns `invalid_argument` below 1, and when their bytes cannot be counted in 63 bits. `field` names it in the
/// text.
Result<std::size_t> check_count(std::string_view field, std::int64_t count, std::size_t unit_bytes);

/// @returns `invalid_argument` that says how to ask for a device, when the lease of `what` has `gpus` = 0 of them.
Result<void> check_device(std::string_view what, std::size_t gpus);

/// The i-th device of a lease as a message.
[[nodiscard]] v1::DeviceShare describe(const LeaseInfo& lease, Context& gpu, std::size_t i = 0);

/// All devices of the lease of `holder`, a TaskContext or an Actor.
template <class Holder, class Message>
void describe_all(Holder& holder, Message& message) {
  for (std::size_t i = 0; i < holder.gpu_count(); ++i)
    *message.add_devices() = describe(holder.lease(), holder.gpu(i), i);
}

/// The units of accelerators other than GPUs that the lease of `holder` has.
template <class Holder, class Message>
void describe_accelerators(Holder& holder, Message& message) {
  for (const auto& [kind, ids] : holder.lease().accelerators) {
    auto& units = *message.add_accelerators();
    units.set_kind(kind);
    units.mutable_ids()->Add(ids.begin(), ids.end());
  }
}

/// Writes lines to an output of the process.
/// @returns `invalid_argument` for an output that there is not, and for a number of lines that is negative.
Result<v1::Said> say(const v1::Say& in);

/// Seconds since it was made.
class Stopwatch {
public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }

private:
  TimePoint start_ = Clock::now();
};

} // namespace gpuactors::builtin
