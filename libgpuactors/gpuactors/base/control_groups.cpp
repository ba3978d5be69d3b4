#include <gpuactors/base/control_groups.hpp>

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>
#include <thread>

namespace gpuactors {

namespace {

namespace fs = std::filesystem;

/// The whole number at the beginning of a text, and the rest behind it.
std::optional<std::uint64_t> take_number(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{})
    return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

/// The first line; empty without the file.
std::string line_of(const fs::path& file) {
  std::ifstream in{file};
  std::string line;
  std::getline(in, line);
  return line;
}

/// The group of version 2, or of version 1's controller, in a line of /proc/self/cgroup, "NUMBER:CONTROLLERS:PATH".
std::optional<ControlGroup> group_in(std::string_view line, std::string_view controller) {
  const auto first = line.find(':');
  const auto second = line.find(':', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos)
    return std::nullopt;
  auto controllers = line.substr(first + 1, second - first - 1);
  const auto path = line.substr(second + 1);
  if (controllers.empty())
    return ControlGroup{path, 2};
  while (!controllers.empty()) {
    const auto end = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, end) == controller)
      return ControlGroup{path, 1};
    controllers.remove_prefix(std::min(end + 1, controllers.size()));
  }
  return std::nullopt;
}

/// How many processors a group's quota is worth; nothing if it has none.
std::optional<unsigned> quota_of(const ControlGroup& group) {
  std::optional<std::uint64_t> quota;
  std::optional<std::uint64_t> period;
  if (group.version == 2) {
    const auto line = line_of(group.folder / "cpu.max");
    std::string_view text{line};
    quota = take_number(text);
    period = take_number(text);
  } else {
    quota = number_of(group.folder / "cpu.cfs_quota_us");
    period = number_of(group.folder / "cpu.cfs_period_us");
  }
  if (!quota || !period || *period == 0)
    return std::nullopt;
  return static_cast<unsigned>(std::min<std::uint64_t>(1U << 20, (*quota + *period - 1) / *period));
}

} // namespace

std::optional<std::uint64_t> number_of(const fs::path& file) {
  const auto line = line_of(file);
  std::string_view text{line};
  return take_number(text);
}

std::vector<ControlGroup> control_groups(std::string_view controller, const fs::path& root) {
  std::vector<ControlGroup> result;
  std::ifstream groups{root / "proc/self/cgroup"};
  for (std::string line; std::getline(groups, line);) {
    const auto group = group_in(line, controller);
    if (!group)
      continue;
    // Each group around it may have a limit. In a container the path may be that of the machine, and the group itself
    // be at the mount.
    const auto mount = group->version == 2 ? root / "sys/fs/cgroup" : root / "sys/fs/cgroup" / controller;
    for (auto at = group->folder.relative_path();; at = at.parent_path()) {
      result.push_back({mount / at, group->version});
      if (at.empty())
        break;
    }
  }
  return result;
}

unsigned usable_cpus(const fs::path& root) {
  cpu_set_t set;
  CPU_ZERO(&set);
  const auto allowed = ::sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<unsigned>(CPU_COUNT(&set)) : 0U;
  auto result = allowed > 0 ? allowed : std::thread::hardware_concurrency();
  for (const auto& group : control_groups("cpu", root))
    if (const auto quota = quota_of(group))
      result = std::min(result, *quota);
  return std::max(1U, result);
}

std::uint64_t usable_memory(const fs::path& root) {
  std::uint64_t result = 0;
  std::ifstream machine{root / "proc/meminfo"};
  for (std::string line; std::getline(machine, line);)
    if (constexpr std::string_view total = "MemTotal:"; line.starts_with(total)) {
      auto text = std::string_view{line}.substr(total.size());
      result = take_number(text).value_or(0) * 1024;
    }
  for (const auto& group : control_groups("memory", root))
    // A limit that the machine does not have is none.
    if (const auto limit = number_of(group.folder / (group.version == 2 ? "memory.max" : "memory.limit_in_bytes")))
      result = std::min(result, *limit);
  return result;
}

} // namespace gpuactors
