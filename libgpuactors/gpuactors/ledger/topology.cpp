#include <gpuactors/ledger/topology.hpp>

#include <algorithm>
#include <limits>
#include <numeric>

namespace gpuactors::ledger_detail {

namespace {

// Tries all sets of `count` out of `size` in lexicographic order, and prunes those that cannot become better.
template <class Between>
class SetSearch {
public:
  SetSearch(std::size_t size, std::size_t count, Between between) : size_(size), count_(count), between_(between) {
    // nop
  }

  std::vector<std::size_t> run() {
    extend(0, 0);
    return std::move(best_);
  }

private:
  void extend(std::size_t from, std::int64_t sum) {
    if (sum >= least_)
      return;
    if (chosen_.size() == count_) {
      least_ = sum;
      best_ = chosen_;
      return;
    }
    for (auto next = from; next + (count_ - chosen_.size()) <= size_; ++next) {
      auto with = sum;
      for (const auto other : chosen_)
        with += between_(other, next);
      chosen_.push_back(next);
      extend(next + 1, with);
      chosen_.pop_back();
    }
  }

  std::size_t size_;
  std::size_t count_;
  Between between_;
  std::int64_t least_ = std::numeric_limits<std::int64_t>::max();
  std::vector<std::size_t> chosen_;
  std::vector<std::size_t> best_;
};

// Returns whether there are at most `most` ways to choose `count` of `size`.
bool few_sets(std::size_t size, std::size_t count, std::size_t most) {
  std::size_t sets = 1;
  // Each step yields a binomial coefficient, so the division is exact.
  for (std::size_t i = 1; i <= std::min(count, size - count); ++i)
    if ((sets = sets * (size - i + 1) / i) > most)
      return false;
  return true;
}

template <class Between>
std::vector<std::size_t> grow(std::size_t size, std::size_t count, Between between) {
  std::vector<std::size_t> best;
  auto least = std::numeric_limits<std::int64_t>::max();
  const auto starts = std::clamp<std::size_t>(steps_to_grow / (size * count), 1, size);
  for (std::size_t start = 0; start < starts; ++start) {
    // The distance of each device from all chosen ones; -1 for a chosen device.
    std::vector<std::int64_t> away(size, 0);
    std::vector<std::size_t> chosen;
    std::int64_t sum = 0;
    for (auto next = start; true;) {
      sum += away[next];
      away[next] = -1;
      chosen.push_back(next);
      if (chosen.size() == count || sum >= least)
        break;
      const auto last = std::exchange(next, size);
      for (std::size_t i = 0; i < size; ++i) {
        if (away[i] < 0)
          continue;
        away[i] += between(last, i);
        if (next == size || away[i] < away[next])
          next = i;
      }
    }
    if (chosen.size() < count || sum >= least)
      continue;
    least = sum;
    best = std::move(chosen);
  }
  std::sort(best.begin(), best.end());
  return best;
}

} // namespace

Topology::Topology(const NodeSpec& node) {
  const auto size = node.devices.size();
  const bool has_numa = std::any_of(node.devices.begin(), node.devices.end(),
                                    [](const DeviceSpec& device) { return device.numa_node >= 0; });
  if (node.distances.empty() && !has_numa)
    return;
  size_ = size;
  distances_.resize(size * size, 0);
  for (std::size_t a = 0; a < size; ++a)
    for (std::size_t b = 0; b < size; ++b) {
      const auto numa = node.devices[a].numa_node;
      const int derived = a == b ? 0 : numa >= 0 && numa == node.devices[b].numa_node ? 1 : 2;
      distances_[a * size + b] = static_cast<std::uint16_t>(node.distances.empty() ? derived : node.distances[a][b]);
    }
}

std::vector<std::size_t> Topology::closest(const std::vector<int>& devices, std::size_t count) const {
  if (!is_known() || count < 2 || count >= devices.size()) {
    std::vector<std::size_t> first(count);
    std::iota(first.begin(), first.end(), std::size_t{0});
    return first;
  }
  const auto between = [&](std::size_t a, std::size_t b) { return this->between(devices[a], devices[b]); };
  return few_sets(devices.size(), count, sets_to_try) ? SetSearch{devices.size(), count, between}.run()
                                                      : grow(devices.size(), count, between);
}

} // namespace gpuactors::ledger_detail
