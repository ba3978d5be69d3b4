#include <gpuactors/actor/holder_table.hpp>
#include <gpuactors/base/units.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace gpuactors {

void HolderTable::add(std::string name, const std::shared_ptr<HolderControl>& control) {
  const std::lock_guard lock{mutex_};
  if (entries_.size() >= full_) {
    std::erase_if(entries_, [](const Entry& entry) { return entry.control.expired(); });
    full_ = std::max(full_, 2 * entries_.size());
  }
  entries_.push_back({std::move(name), control});
}

std::vector<std::string> HolderTable::still_there(TimePoint now) const {
  std::vector<std::string> busy;
  std::vector<std::string> others;
  const std::lock_guard lock{mutex_};
  for (const auto& entry : entries_) {
    const auto control = entry.control.lock();
    // Who waits for an answer that somebody may still give keeps the control of one that has ended.
    if (control == nullptr || control->has_ended())
      continue;
    if (const auto what = control->busy())
      busy.push_back(fmt::format("{} {} for {:.1f} s", entry.name.empty() ? "task" : entry.name + " in", what->what,
                                 to_seconds(now - what->since)));
    else
      others.push_back(entry.name.empty() ? "a task that begins or ends" : entry.name);
  }
  busy.insert(busy.end(), others.begin(), others.end());
  return busy;
}

} // namespace gpuactors
