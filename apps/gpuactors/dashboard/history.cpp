#include "history.hpp"

namespace gpuactors::cli::dashboard {

void History::add(TimePoint now, const Sample& sample) {
  const auto number = number_of(now);
  if (!all_.empty() && all_.back().number == number) {
    auto& last = all_.back().sample;
    last.granted_percent = sample.granted_percent;
    last.waiting = sample.waiting;
    last.seconds += sample.seconds;
    last.calls += sample.calls;
    last.failed += sample.failed;
  } else {
    all_.push_back({number, sample});
  }
  while (all_.front().number <= number - slots)
    all_.pop_front();
}

} // namespace gpuactors::cli::dashboard
