// Lives: the rule by which actors are restarted.
#include <gpuactors/base/limits.hpp>
#include <gpuactors/broker/core/lives.hpp>

#include <algorithm>
#include <utility>

namespace gpuactors {

std::optional<Duration> Lives::end(const RestartRule& rule, LifeEnd why, TimePoint now) {
  const auto began = std::exchange(since_, std::nullopt);
  const auto length = began ? now - *began : Duration::zero();
  const bool moves = std::exchange(is_moving_, false);
  if (rule.window > Duration::zero() && length >= rule.window)
    forgiven_ = restarts_ + (moves ? 1 : 0);
  if (rule.most >= 0 && restarts_ - forgiven_ >= rule.most)
    return std::nullopt;
  ++restarts_;
  if (length >= limits::restart_calm)
    pause_ = Duration::zero();
  if (why != LifeEnd::crash)
    return Duration::zero();
  // An actor that lives for `a_while` before it crashes is of use meanwhile: its pause is no longer than that.
  constexpr std::chrono::seconds a_while{1};
  const auto wait = length >= a_while ? std::min<Duration>(pause_, a_while) : pause_;
  pause_ = std::clamp<Duration>(2 * wait, limits::restart_pause, limits::restart_pause_most);
  return wait;
}

} // namespace gpuactors
