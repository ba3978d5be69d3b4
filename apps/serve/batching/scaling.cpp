#include "scaling.hpp"

#include <algorithm>

namespace serve::batching {

using gpuactors::TimePoint;

bool Scaling::is_short(TimePoint now, const ScalingLook& look) {
  if (look.refused > refused_)
    refused_at_ = now;
  refused_ = look.refused;
  if (refused_at_ && now - *refused_at_ < limits_.grow_after / 2)
    return true;
  return look.waiting > 0
         && std::all_of(look.replicas.begin(), look.replicas.end(), [](const auto& replica) { return replica.busy; });
}

ScalingStep Scaling::decide(TimePoint now, const ScalingLook& look) {
  const auto& replicas = look.replicas;
  if (!is_short(now, look))
    short_since_.reset();
  else if (!short_since_)
    short_since_ = now;

  ScalingStep step;
  const auto coming = replicas.size() + look.starting;
  const auto idle = longest_idle(now, look);
  // Nor is one owed where others would go because nobody needs them.
  if (replicas.size() >= owed_ || idle)
    owed_ = 0;
  const auto least = std::max(limits_.min_replicas, owed_);
  if (replicas.size() < least) {
    step.needed = replicas.size() < limits_.min_replicas;
    if (coming < least && may_start(now, step.needed))
      step.start = least - coming;
    return step;
  }
  if (short_since_ && now - *short_since_ >= limits_.grow_after) {
    if (look.starting == 0 && replicas.size() < limits_.max_replicas && may_start(now, false)) {
      step.start = 1;
      short_since_ = now; // the next one has to be earned again
    }
    return step;
  }
  if (replicas.size() > limits_.min_replicas)
    step.stop = idle;
  return step;
}

std::optional<std::uint64_t> Scaling::longest_idle(TimePoint now, const ScalingLook& look) const {
  const auto longest = std::min_element(look.replicas.begin(), look.replicas.end(), [](const auto& a, const auto& b) {
    return a.busy != b.busy ? b.busy : a.idle_since < b.idle_since;
  });
  if (longest == look.replicas.end() || longest->busy || now - longest->idle_since < limits_.idle_after)
    return std::nullopt;
  return longest->id;
}

void Scaling::give_up_beyond(std::size_t replicas) {
  owed_ = 0;
  limits_.min_replicas = std::min(limits_.min_replicas, replicas);
  limits_.max_replicas = std::min(limits_.max_replicas, replicas);
}

void Scaling::take_back(std::size_t replicas) {
  limits_ = whole_;
  owed_ = std::min(replicas, limits_.max_replicas);
}

void Scaling::start_failed(TimePoint now, bool needed) {
  auto& pause = needed ? needed_ : wished_;
  pause.time = std::clamp(2 * pause.time, limits_.retry_shortest, limits_.retry_longest);
  pause.not_before = now + pause.time;
}

void Scaling::start_succeeded() {
  needed_ = {};
  wished_ = {};
}

} // namespace serve::batching
