#include <gpuactors/trace/sampler.hpp>

#include <cmath>

namespace gpuactors {

bool Sampler::samples(const TraceContext& parent, std::uint64_t trace_low) const noexcept {
  if (by_parent && parent.valid())
    return parent.sampled;
  if (ratio >= 1)
    return true;
  // The lowest 56 bits are those that are random by W3C's Trace Context.
  constexpr int bits = 56;
  constexpr auto mask = (std::uint64_t{1} << bits) - 1;
  return static_cast<double>(trace_low & mask) < std::ldexp(ratio, bits);
}

} // namespace gpuactors
