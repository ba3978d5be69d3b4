#include <gpuactors/base/suggest.hpp>
#include <gpuactors/plan/detail/ids.hpp>
#include <gpuactors/plan/reader.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace gpuactors::plan_detail {

namespace {

constexpr std::uint64_t released_bit = 1;

// Returns the fingerprint of a name; never 0, which marks an empty slot.
std::uint64_t key_of(std::string_view name) {
  const auto key = static_cast<std::uint64_t>(std::hash<std::string_view>{}(name)) & ~released_bit;
  return key == 0 ? released_bit << 1 : key;
}

} // namespace

// -- Fingerprints ----------------------------------------------------------------------------------

std::size_t Fingerprints::slot_of(std::uint64_t key) const {
  const auto mask = slots_.size() - 1;
  auto at = static_cast<std::size_t>(key >> 1) & mask;
  while (slots_[at] != 0 && (slots_[at] & ~released_bit) != key)
    at = (at + 1) & mask;
  return at;
}

Phase Fingerprints::find(std::string_view name) const {
  const auto value = slots_.empty() ? 0 : slots_[slot_of(key_of(name))];
  return value == 0 ? Phase::unknown : (value & released_bit) != 0 ? Phase::released : Phase::over;
}

void Fingerprints::set(std::string_view name, Phase phase) {
  if (4 * (size_ + 1) > 3 * slots_.size())
    grow();
  const auto key = key_of(name);
  auto& slot = slots_[slot_of(key)];
  size_ += slot == 0 ? 1 : 0;
  slot = key | (phase == Phase::released ? released_bit : 0);
}

void Fingerprints::grow() {
  std::vector<std::uint64_t> old(std::max<std::size_t>(64, 2 * slots_.size()));
  slots_.swap(old);
  for (const auto value : old)
    if (value != 0)
      slots_[slot_of(value & ~released_bit)] = value;
}

// -- IdTable ---------------------------------------------------------------------------------------

std::uint64_t IdTable::add(const std::string& name, const std::string& place) {
  const auto [it, added] = numbers_.try_emplace(name, last_ + 1);
  if (!added || ended_.find(name) != Phase::unknown)
    throw ScenarioError(fmt::format("{} is \"{}\", which is taken: each id is used once", place, name));
  names_.emplace(++last_, &it->first);
  return last_;
}

Phase IdTable::phase_of(const std::string& name, const std::string& place) const {
  if (numbers_.count(name) > 0)
    return Phase::live;
  if (const auto phase = ended_.find(name); phase != Phase::unknown)
    return phase;
  // Sorts the names, so that the hint does not depend on a hash. Among very many names, a hint would not help.
  std::vector<std::string> known;
  if (numbers_.size() <= 1000)
    for (const auto& [candidate, number] : numbers_)
      known.push_back(candidate);
  std::sort(known.begin(), known.end());
  throw ScenarioError(
      fmt::format("{} is \"{}\", which no step before has submitted{}", place, name, did_you_mean(name, known)));
}

void IdTable::end(std::uint64_t number, Phase phase) {
  const auto it = names_.find(number);
  if (it == names_.end())
    return;
  const auto* name = it->second;
  names_.erase(it);
  ended_.set(*name, phase);
  numbers_.erase(numbers_.find(*name));
}

} // namespace gpuactors::plan_detail
