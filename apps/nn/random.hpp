// Random numbers that are the same on every machine and in every build, for initial weights, splits and shuffles.
#pragma once

#include <cstdint>

namespace nn {

/// SplitMix64: a sequence that its seed decides. A plain value.
class Random {
public:
  explicit Random(std::uint64_t seed) : state_(seed) {
    // nop
  }

  /// A sequence of its own for each pair, so that epoch 7 can be drawn without the six before it.
  Random(std::uint64_t seed, std::uint64_t stream) : state_(seed) {
    state_ = next() ^ (stream * 0xD1342543DE82EF95U);
  }

  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15U;
    auto z = state_;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }

  /// Uniform in [0, 1).
  double uniform() {
    constexpr double unit = 1.0 / 9007199254740992.0; // 2^-53
    return static_cast<double>(next() >> 11U) * unit;
  }

  /// Uniform in [0, bound), which is at least 1.
  std::uint64_t below(std::uint64_t bound) {
    // Numbers beyond the last whole multiple of the bound would favour the small ones.
    const auto limit = ~std::uint64_t{0} - ~std::uint64_t{0} % bound;
    auto value = next();
    while (value >= limit)
      value = next();
    return value % bound;
  }

private:
  std::uint64_t state_;
};

/// Shuffles a vector in place.
template <class Vector>
void shuffle(Vector& values, Random& random) {
  for (auto left = values.size(); left > 1; --left) {
    const auto pick = static_cast<decltype(left)>(random.below(left));
    const auto kept = values[left - 1];
    values[left - 1] = values[pick];
    values[pick] = kept;
  }
}

} // namespace nn
