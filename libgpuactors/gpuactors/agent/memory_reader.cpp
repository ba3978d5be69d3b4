#include <gpuactors/agent/memory_reader.hpp>
#include <gpuactors/base/control_groups.hpp>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace gpuactors {

namespace {

namespace fs = std::filesystem;

/// The whole number at the beginning of a text, behind blanks.
std::optional<std::uint64_t> number_in(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  std::uint64_t value = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc{})
    return std::nullopt;
  return value;
}

using Fields = std::map<std::string, std::uint64_t, std::less<>>;

/// The numbers of lines such as "RssAnon:  144 kB" or "inactive_file 4096".
Fields fields_of(const fs::path& file) {
  Fields fields;
  std::ifstream in{file};
  for (std::string line; std::getline(in, line);) {
    const auto end = line.find_first_of(": \t");
    if (end == std::string::npos)
      continue;
    const auto rest = line.find_first_not_of(": \t", end);
    if (rest == std::string::npos)
      continue;
    if (const auto value = number_in(std::string_view{line}.substr(rest)))
      fields.emplace(line.substr(0, end), line.ends_with(" kB") ? *value * 1024 : *value);
  }
  return fields;
}

std::uint64_t value_of(const Fields& fields, std::string_view name) {
  const auto it = fields.find(name);
  return it == fields.end() ? 0 : it->second;
}

/// The names of what a version of control groups has.
struct GroupFiles {
  const char* limit;
  const char* used;
  const char* cached[2];
};

constexpr GroupFiles version_2{"memory.max", "memory.current", {"inactive_file", "active_file"}};
constexpr GroupFiles version_1{
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}};

std::optional<MemoryRoom> room_of(const ControlGroup& group) {
  const auto& files = group.version == 2 ? version_2 : version_1;
  const auto limit = number_of(group.folder / files.limit);
  const auto used = number_of(group.folder / files.used);
  if (!limit || !used)
    return std::nullopt;
  // Cached files go before anything is ended. What is in memory only, such as shared memory, is not among them.
  const auto fields = fields_of(group.folder / "memory.stat");
  const auto cached = value_of(fields, files.cached[0]) + value_of(fields, files.cached[1]);
  return MemoryRoom{*used - std::min(*used, cached), *limit, true};
}

} // namespace

MemoryReader::MemoryReader(fs::path root) : root_(std::move(root)) {
  // nop
}

template <class Visit>
void MemoryReader::each_room(Visit&& visit) const {
  const auto machine = fields_of(root_ / "proc/meminfo");
  const auto total = value_of(machine, "MemTotal");
  if (total == 0)
    return;
  visit(MemoryRoom{total - std::min(total, value_of(machine, "MemAvailable")), total, false});
  for (const auto& group : control_groups("memory", root_))
    // A limit that the machine does not have is none.
    if (const auto room = room_of(group); room && room->limit_bytes < total)
      visit(*room);
}

std::uint64_t MemoryReader::limit_bytes() const {
  return usable_memory(root_);
}

std::optional<MemoryRoom> MemoryReader::room() const {
  std::optional<MemoryRoom> fullest;
  const auto part = [](const MemoryRoom& room) {
    return static_cast<double>(room.used_bytes) / static_cast<double>(std::max<std::uint64_t>(1, room.limit_bytes));
  };
  each_room([&](const MemoryRoom& room) {
    if (!fullest || part(room) > part(*fullest))
      fullest = room;
  });
  return fullest;
}

std::optional<WorkerMemory> MemoryReader::memory_of(const MemoryQuery::Process& process) const {
  const auto fields = fields_of(root_ / "proc" / std::to_string(process.pid) / "status");
  // A process that has ended, and was not reaped, has a status without sizes.
  if (fields.find("RssAnon") == fields.end())
    return std::nullopt;
  return WorkerMemory{process.worker, value_of(fields, "RssAnon") + value_of(fields, "VmSwap"),
                      value_of(fields, "RssShmem")};
}

std::optional<std::uint64_t> MemoryReader::part_of_shared(std::uint32_t pid) const {
  const auto fields = fields_of(root_ / "proc" / std::to_string(pid) / "smaps_rollup");
  const auto it = fields.find("Pss_Shmem");
  return it == fields.end() ? std::nullopt : std::optional{it->second};
}

MemoryLook MemoryReader::look(const MemoryQuery& query) const {
  MemoryLook result{room(), {}};
  std::uint64_t most = 0;
  for (const auto& process : query.processes)
    if (const auto memory = memory_of(process)) {
      most += memory->private_bytes + memory->shared_bytes;
      result.workers.push_back(*memory);
    }
  // Processes cannot use more together than all do.
  const auto used = result.room ? result.room->used_bytes : most;
  const bool full =
      result.room && static_cast<double>(used) > query.threshold * static_cast<double>(result.room->limit_bytes);
  const bool beyond = query.bound_bytes > 0 && most > query.bound_bytes && used > query.bound_bytes;
  if (!beyond && !(full && query.threshold > 0))
    return result;
  for (auto& memory : result.workers) {
    const auto process = std::find_if(query.processes.begin(), query.processes.end(),
                                      [&](const auto& one) { return one.worker == memory.worker; });
    if (memory.shared_bytes > 0)
      memory.shared_bytes = part_of_shared(process->pid).value_or(memory.shared_bytes);
  }
  return result;
}

} // namespace gpuactors
