#include <gpuactors/agent/core/memory_guard.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/units.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <tuple>

namespace gpuactors {

namespace {

/// "2 GiB", "none and has 64 MiB of host devices".
std::string with_devices(std::uint64_t bytes, std::string_view verb, std::uint64_t device_bytes) {
  auto text = bytes > 0 ? format_bytes(bytes) : std::string{"none"};
  if (device_bytes > 0)
    text += fmt::format(" and {} {} of host devices", verb, format_bytes(device_bytes));
  return text;
}

std::uint64_t excess_of(const GuardedWorker& worker) noexcept {
  return worker.used_bytes() - std::min(worker.used_bytes(), worker.granted_bytes());
}

/// The one to end; null if there is none that uses at least so much.
const GuardedWorker* choose(const std::vector<GuardedWorker>& workers, double least_bytes) {
  const GuardedWorker* chosen = nullptr;
  const auto rank = [](const GuardedWorker& worker) {
    return std::tuple{excess_of(worker), worker.used_bytes(), worker.number};
  };
  for (const auto& worker : workers)
    if (static_cast<double>(worker.used_bytes()) >= least_bytes && (chosen == nullptr || rank(worker) > rank(*chosen)))
      chosen = &worker;
  return chosen;
}

MemoryVerdict verdict_on(const GuardedWorker& worker, const std::string& because) {
  return {worker.number,
          fmt::format("{}: {} used {} of host memory, what runs in it has asked for {}, and its process was ended; ask "
                      "for what it needs (host_memory_bytes, --host-memory), or let it use less",
                      because, worker.name, format_bytes(worker.used_bytes()),
                      with_devices(worker.asked_bytes, "has", worker.device_bytes))};
}

} // namespace

std::vector<MemoryVerdict> beyond_their_own(const MemoryRules& rules, const std::vector<GuardedWorker>& workers) {
  std::vector<MemoryVerdict> verdicts;
  for (const auto& worker : workers)
    if (worker.own && worker.asked_bytes > 0 && worker.private_bytes > worker.granted_bytes())
      verdicts.push_back(
          {worker.number,
           fmt::format(
               "{} on node {} used {} of host memory, without what it shares, and had asked for {}: its process "
               "was ended; ask for more (host_memory_bytes, --host-memory), or let it use less",
               worker.name, rules.node, format_bytes(worker.private_bytes),
               with_devices(worker.asked_bytes, "had", worker.device_bytes))});
  return verdicts;
}

bool is_full(const MemoryRules& rules, const std::optional<MemoryRoom>& room) noexcept {
  return rules.has_threshold() && room && room->limit_bytes > 0
         && static_cast<double>(room->used_bytes) > rules.threshold * static_cast<double>(room->limit_bytes);
}

std::string describe(const MemoryRoom& room) {
  return fmt::format("the {} has {} of its {} of memory in use", room.of_group ? "control group" : "machine",
                     format_bytes(room.used_bytes), format_bytes(room.limit_bytes));
}

std::optional<MemoryVerdict> beyond_the_node(const MemoryRules& rules, const std::optional<MemoryRoom>& room,
                                             const std::vector<GuardedWorker>& workers) {
  std::uint64_t together = 0;
  for (const auto& worker : workers)
    together += worker.used_bytes();
  // Where the sum counts shared memory more than once, the whole machine shows it.
  const auto most = room ? room->used_bytes : together;
  const auto bound = rules.bound_bytes();
  if (bound > 0 && together > bound && most > bound)
    return verdict_on(*choose(workers, 0), fmt::format("the workers of node {} use {} together, and it offers {}",
                                                       rules.node, format_bytes(together),
                                                       with_devices(rules.offered_bytes, "has", rules.device_bytes)));
  if (!is_full(rules, room))
    return std::nullopt;
  const auto* chosen = choose(workers, limits::memory_worth * static_cast<double>(room->limit_bytes));
  if (chosen == nullptr)
    return std::nullopt;
  return verdict_on(*chosen, fmt::format("node {} ends a worker when more than {:.6g} % of memory is in use "
                                         "(--memory-threshold), and {}",
                                         rules.node, 100 * rules.threshold, describe(*room)));
}

} // namespace gpuactors
