// HolderTable: the tasks' and actors' holders of a process, for whoever waits for their end.
#pragma once

#include <gpuactors/actor/holder_control.hpp>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace gpuactors {

/// Any thread.
class HolderTable {
public:
  /// Adds one, which is there until it has ended.
  /// @param name for people: "actor trainer"; empty for tasks, which are known by what they run.
  void add(std::string name, const std::shared_ptr<HolderControl>& control);

  /// Returns in words what of them is still there, those in user code first: "actor trainer in fit for 12.3 s", "task
  /// square for 0.2 s".
  [[nodiscard]] std::vector<std::string> still_there(TimePoint now) const;

private:
  struct Entry {
    std::string name;
    std::weak_ptr<const HolderControl> control;
  };

  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  /// At this number of entries, those that are gone are taken out.
  std::size_t full_ = 16;
};

} // namespace gpuactors
