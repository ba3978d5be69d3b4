#include <gpuactors/ledger/check.hpp>
#include <gpuactors/ledger/quotas.hpp>
#include <gpuactors/ledger/view.hpp>

#include <algorithm>

namespace gpuactors::ledger_detail {

Share sum_of(const std::vector<DeviceGrant>& devices) {
  Share sum;
  for (const auto& device : devices)
    sum += device.share;
  return sum;
}

void Quotas::set(std::string_view owner, std::optional<Share> limit) {
  if (limit)
    limits_.insert_or_assign(std::string{owner}, *limit);
  else if (const auto it = limits_.find(owner); it != limits_.end())
    limits_.erase(it);
}

void Quotas::take(const std::string& owner, const std::vector<DeviceGrant>& devices) {
  if (const auto sum = sum_of(devices); !owner.empty() && sum > Share{})
    used_[owner] += sum;
}

void Quotas::give_back(const std::string& owner, const std::vector<DeviceGrant>& devices) {
  const auto sum = sum_of(devices);
  if (owner.empty() || sum == Share{})
    return;
  const auto it = used_.find(owner);
  GPUACTORS_LEDGER_CHECK(it != used_.end() && it->second >= sum, "an owner gives back more than was counted");
  it->second -= sum;
  if (it->second == Share{})
    used_.erase(it);
}

std::optional<Share> Quotas::limit_of(std::string_view owner) const {
  if (owner.empty() || limits_.empty())
    return std::nullopt;
  auto it = limits_.find(owner);
  if (it == limits_.end())
    it = limits_.find(default_owner);
  return it == limits_.end() ? std::nullopt : std::optional{it->second};
}

Share Quotas::used_by(std::string_view owner) const {
  const auto it = used_.find(owner);
  return it == used_.end() ? Share{} : it->second;
}

std::int64_t Quotas::room_of(std::string_view owner) const {
  const auto limit = limit_of(owner);
  if (!limit)
    return unlimited;
  // A quota that was lowered may be below what is held.
  return complete_ ? std::max(*limit - used_by(owner), Share{}).units() : 0;
}

} // namespace gpuactors::ledger_detail
