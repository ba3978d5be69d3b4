#include <gpuactors/plan/detail/lane.hpp>

#include <algorithm>

namespace gpuactors::plan_detail {

std::vector<Segment> Lane::take(std::int64_t units) {
  const auto whole =
      std::find_if(free_.begin(), free_.end(), [units](const Segment& gap) { return gap.high - gap.low >= units; });
  std::vector<Segment> taken;
  for (auto it = whole == free_.end() ? free_.begin() : whole; it != free_.end() && units > 0;) {
    const auto part = std::min(units, it->high - it->low);
    taken.push_back({it->low, it->low + part});
    units -= part;
    it->low += part;
    it = it->low == it->high ? free_.erase(it) : it + 1;
  }
  return taken;
}

void Lane::give_back(const std::vector<Segment>& segments) {
  free_.insert(free_.end(), segments.begin(), segments.end());
  std::sort(free_.begin(), free_.end(), [](const Segment& a, const Segment& b) { return a.low < b.low; });
  std::vector<Segment> merged;
  for (const auto& gap : free_) {
    if (!merged.empty() && merged.back().high == gap.low)
      merged.back().high = gap.high;
    else
      merged.push_back(gap);
  }
  free_ = std::move(merged);
}

} // namespace gpuactors::plan_detail
