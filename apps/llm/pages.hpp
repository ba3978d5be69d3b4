// Pages: which parts of the cache of keys and values belong to which text. Pure.
#pragma once

#include <apps/llm/kernels.hpp>

#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

namespace llm {

/// Returns how many pages so many positions take.
[[nodiscard]] constexpr std::int64_t pages_for(std::int64_t positions) {
  return (positions + page_tokens - 1) / page_tokens;
}

/// Pages 1 to `count`, each free or taken. Page 0 belongs to nobody: what is computed for nobody is written there.
class Pages {
public:
  explicit Pages(std::int64_t count) : free_(static_cast<std::size_t>(count)) {
    // The lowest is taken first.
    std::iota(free_.rbegin(), free_.rend(), 1);
  }

  [[nodiscard]] std::int64_t free() const noexcept {
    return static_cast<std::int64_t>(free_.size());
  }

  /// Returns `count` pages, or nothing if there are fewer.
  std::optional<std::vector<std::int32_t>> take(std::int64_t count) {
    if (count > free())
      return {};
    const auto begin = free_.end() - count;
    std::vector<std::int32_t> taken(free_.rbegin(), free_.rbegin() + count);
    free_.erase(begin, free_.end());
    return taken;
  }

  void give_back(const std::vector<std::int32_t>& pages) {
    free_.insert(free_.end(), pages.rbegin(), pages.rend());
  }

private:
  /// The last is taken next.
  std::vector<std::int32_t> free_;
};

} // namespace llm
