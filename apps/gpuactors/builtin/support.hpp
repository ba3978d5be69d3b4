// Shared by the built-in types: checks of their input, messages that describe where they run, and lines to print.
#pragma once

#include <gpuactors/builtin/v1/builtin.pb.h>
#include <gpuactors/gpuactors.hpp>

#include <string_view>

namespace gpuactors::builtin {

/// Checks the number of rows and columns of a square matrix.
/// @returns `invalid_argument` below 1, and if 63 bits cannot count the bytes of a matrix with elements of
///          `element_bytes`.
Result<std::int64_t> check_order(std::int64_t n, std::size_t element_bytes);

/// Checks a number of units of `unit_bytes` each: elements of 4 bytes, or bytes.
/// @returns `invalid_argument` below 1, and if 63 bits cannot count their bytes. `field` is the name of the number in
///          the text.
Result<std::size_t> check_count(std::string_view field, std::int64_t count, std::size_t unit_bytes);

/// Checks that the lease of `what` has devices.
/// @returns `invalid_argument` that says how to ask for a device if `gpus` is 0.
Result<void> check_device(std::string_view what, std::size_t gpus);

/// Returns the i-th device of a lease as a message.
[[nodiscard]] v1::DeviceShare describe(const LeaseInfo& lease, Context& gpu, std::size_t i = 0);

/// Adds all devices of the lease of `holder`, a TaskContext or an Actor, to a message.
template <class Holder, class Message>
void describe_all(Holder& holder, Message& message) {
  for (std::size_t i = 0; i < holder.gpu_count(); ++i)
    *message.add_devices() = describe(holder.lease(), holder.gpu(i), i);
}

/// Adds the units of accelerators other than GPUs that the lease of `holder` has to a message.
template <class Holder, class Message>
void describe_accelerators(Holder& holder, Message& message) {
  for (const auto& [kind, ids] : holder.lease().accelerators) {
    auto& units = *message.add_accelerators();
    units.set_kind(kind);
    units.mutable_ids()->Add(ids.begin(), ids.end());
  }
}

/// Writes lines to an output of the process.
/// @returns `invalid_argument` for an unknown output, and for a negative number of lines.
Result<v1::Said> say(const v1::Say& in);

/// Measures the seconds since its construction.
class Stopwatch {
public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }

private:
  TimePoint start_ = Clock::now();
};

} // namespace gpuactors::builtin
