#include <gpuactors/agent/core/start_blame.hpp>
#include <gpuactors/base/limits.hpp>

#include <algorithm>

namespace gpuactors {

bool StartBlame::is_strike(const Pair& pair) const {
  const auto found = failures_.find(pair);
  return found != failures_.end() && found->second.size() >= limits::device_losses;
}

std::vector<int> StartBlame::came_up(std::size_t program, Device device) {
  failures_.erase({program, device});
  up_.emplace(program, device);
  if (const auto trial = trials_.find(program); trial != trials_.end() && trial->second == device)
    trials_.erase(trial);
  std::vector<int> blamed;
  if (!device)
    return blamed; // it has opened no device
  for (const auto& [pair, times] : failures_)
    if (pair.first == program && pair.second && is_strike(pair))
      blamed.push_back(*pair.second);
  for (const auto index : blamed)
    failures_.erase({program, index});
  return blamed;
}

StartBlame::Judged StartBlame::failed(std::size_t program, Device device, const std::vector<int>& others,
                                      TimePoint now) {
  const Pair pair{program, device};
  up_.erase(pair);
  auto& times = failures_[pair];
  times.push_back(now);
  while (now - times.front() > limits::device_loss_window)
    times.pop_front();
  if (const auto trial = trials_.find(program); trial != trials_.end() && device && trial->second == *device) {
    trials_.erase(trial);
    times.resize(limits::device_losses, now);
  }
  if (!is_strike(pair))
    return {};
  if (!device)
    return {Verdict::program};
  const auto elsewhere = [&](const Pair& other) { return other.first == program && other.second && other != pair; };
  const auto on_this = [&](const auto& entry) {
    return entry.first.second == device && entry.first.first != program && is_strike(entry.first);
  };
  if (std::any_of(up_.begin(), up_.end(), elsewhere) || std::any_of(failures_.begin(), failures_.end(), on_this))
    return {Verdict::device};
  const bool two_strikes = std::any_of(failures_.begin(), failures_.end(), [&](const auto& entry) {
    return elsewhere(entry.first) && is_strike(entry.first);
  });
  if (two_strikes || others.empty())
    return {Verdict::program};
  const auto [trial, is_first] = trials_.try_emplace(program, others.front());
  const bool is_tried = !is_first && std::find(others.begin(), others.end(), trial->second) != others.end();
  if (is_tried)
    return {};
  // A trial on a device that has failed meanwhile tells nothing any more.
  trial->second = others.front();
  return {Verdict::trial, others.front()};
}

void StartBlame::not_tried(std::size_t program, Device device) {
  if (const auto trial = trials_.find(program); trial != trials_.end() && device == trial->second)
    trials_.erase(trial);
}

} // namespace gpuactors
