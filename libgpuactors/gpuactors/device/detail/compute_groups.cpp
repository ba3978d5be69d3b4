// Places holders on groups of compute units.
#include <gpuactors/device/detail/compute_groups.hpp>

#include <algorithm>
#include <cassert>

namespace gpuactors::detail {

namespace {

constexpr auto one = Share::one;

std::int64_t round_up(std::int64_t parts) {
  return (parts + one - 1) / one;
}

/// Returns the load that a holder puts on each of its groups.
std::int64_t load_of(std::int64_t wanted, std::size_t groups) {
  const auto count = static_cast<std::int64_t>(groups);
  return (wanted + count - 1) / count;
}

} // namespace

ComputeGroups::ComputeGroups(int count) : slots_(static_cast<std::size_t>(std::max(1, count))) {
  // nop
}

ComputeGroups::Holder ComputeGroups::take(Share share) {
  Held held;
  held.wanted = share.units() * count();
  const auto own = own_count(held.wanted);
  add_free(own, held.groups);
  const auto least = std::max<std::int64_t>(1, held.wanted / one);
  for (auto missing = least - own; missing > 0; --missing)
    held.groups.push_back(best_to_share(load_of(held.wanted, static_cast<std::size_t>(least)), held.groups));
  std::sort(held.groups.begin(), held.groups.end());
  for (const auto group : held.groups) {
    auto& slot = slots_[static_cast<std::size_t>(group)];
    ++slot.holders;
    slot.load += load_of(held.wanted, held.groups.size());
  }
  wanted_ += held.wanted;
  holders_.emplace(++last_, std::move(held));
  return last_;
}

void ComputeGroups::give_back(Holder holder) {
  const auto found = holders_.find(holder);
  if (found == holders_.end())
    return;
  const auto& held = found->second;
  for (const auto group : held.groups) {
    auto& slot = slots_[static_cast<std::size_t>(group)];
    --slot.holders;
    slot.load -= load_of(held.wanted, held.groups.size());
  }
  wanted_ -= held.wanted;
  holders_.erase(found);
}

const std::vector<int>& ComputeGroups::groups_of(Holder holder) const {
  return holders_.at(holder).groups;
}

bool ComputeGroups::is_shared(Holder holder) const {
  const auto& groups = groups_of(holder);
  return std::any_of(groups.begin(), groups.end(),
                     [this](int group) { return slots_[static_cast<std::size_t>(group)].holders > 1; });
}

int ComputeGroups::free_count() const noexcept {
  return static_cast<int>(
      std::count_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.holders == 0; }));
}

int ComputeGroups::own_count(std::int64_t wanted) const {
  const auto free = std::int64_t{free_count()};
  // Whole groups that later holders can still ask for.
  const auto to_come = std::max<std::int64_t>(0, count() * one - wanted_ - wanted) / one;
  const auto spare = std::clamp(free - to_come, wanted / one, round_up(wanted));
  return static_cast<int>(std::min(spare, free));
}

void ComputeGroups::add_free(int count, std::vector<int>& chosen) const {
  struct Gap {
    int first;
    int length;
  };
  std::vector<Gap> gaps;
  for (int i = 0; i < this->count(); ++i) {
    if (slots_[static_cast<std::size_t>(i)].holders > 0)
      continue;
    if (!gaps.empty() && gaps.back().first + gaps.back().length == i)
      ++gaps.back().length;
    else
      gaps.push_back({i, 1});
  }
  while (count > 0) {
    // Takes from the smallest gap that is large enough; if none is, takes all of the largest gap and repeats.
    auto best = gaps.end();
    for (auto gap = gaps.begin(); gap != gaps.end(); ++gap) {
      if (best == gaps.end() || (gap->length >= count && (best->length < count || gap->length < best->length))
          || (best->length < count && gap->length > best->length))
        best = gap;
    }
    assert(best != gaps.end());
    const auto taken = std::min(count, best->length);
    for (int i = 0; i < taken; ++i)
      chosen.push_back(best->first + i);
    count -= taken;
    gaps.erase(best);
  }
}

int ComputeGroups::best_to_share(std::int64_t load, const std::vector<int>& chosen) const {
  int best = -1;
  const auto load_at = [this](int group) { return slots_[static_cast<std::size_t>(group)].load; };
  const auto fits = [&](int group) { return load_at(group) + load <= one; };
  for (int group = 0; group < count(); ++group) {
    if (std::find(chosen.begin(), chosen.end(), group) != chosen.end())
      continue;
    // Prefers the fullest group in which the load fits; if it fits in none, the least full.
    const auto better = [&] {
      if (fits(group) != fits(best))
        return fits(group);
      return fits(group) ? load_at(group) > load_at(best) : load_at(group) < load_at(best);
    };
    if (best < 0 || better())
      best = group;
  }
  return best;
}

} // namespace gpuactors::detail
