// Which of two versions gets the next request, so that each gets its share of them.
#pragma once

#include <cstdint>

namespace serve::batching {

/// Deals requests out, one after the other, without chance: of the first n, the second version gets n times its share,
/// rounded down. A share that changes counts from then on. No lock: whoever owns it guards it.
class TrafficSplit {
public:
  /// @param share  from 0 to 1, in millionths.
  void set(double share) noexcept;

  /// The same for another pair of versions, to which nothing is owed yet.
  void restart(double share) noexcept;

  [[nodiscard]] double share() const noexcept;

  /// Whether the next request goes to the second version.
  [[nodiscard]] bool next() noexcept;

private:
  std::uint32_t millionths_ = 0;
  /// What the second version has not got yet of whole requests.
  std::uint32_t owed_ = 0;
};

} // namespace serve::batching
