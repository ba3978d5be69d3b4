// EmptyingPace: how often the broker looks at nodes that are being emptied. Pure. Internal to the layer.
#pragma once

#include <gpuactors/base/clock.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

namespace gpuactors {

/// Soon again after something has left them, or come to be emptied, otherwise less often.
class EmptyingPace {
public:
  /// @returns the pause before the next look: a wake-up is to be asked for. Nothing if one has been.
  [[nodiscard]] std::optional<Duration> plan() {
    return std::exchange(is_planned_, true) ? std::nullopt : std::optional{pause_};
  }

  /// The look that was planned is here.
  void look() noexcept {
    is_planned_ = false;
  }

  /// @param left how many leases are still on such nodes.
  void note(std::size_t left) {
    pause_ = left == left_ ? std::min<Duration>(2 * pause_, longest) : shortest;
    left_ = left;
  }

private:
  static constexpr Duration shortest = std::chrono::milliseconds{200};
  static constexpr Duration longest = std::chrono::seconds{1};

  bool is_planned_ = false;
  Duration pause_ = shortest;
  std::size_t left_ = 0;
};

} // namespace gpuactors
