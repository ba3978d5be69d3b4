// KeptLeases: the leases for tasks that clients may keep for their next tasks. Internal to the layer.
#pragma once

#include <gpuactors/base/ids.hpp>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace gpuactors {

/// Leases that nobody has asked back yet, by their owner and by their key, as in `TaskLease`: whatever has to wait
/// looks only at those that it could ask for.
class KeptLeases {
public:
  void add(const std::string& owner, const std::string& key, LeaseId lease) {
    leases_[owner][key].insert(lease);
  }

  void remove(const std::string& owner, const std::string& key, LeaseId lease) {
    const auto of_owner = leases_.find(owner);
    if (of_owner == leases_.end())
      return;
    const auto alike = of_owner->second.find(key);
    if (alike == of_owner->second.end())
      return;
    alike->second.erase(lease);
    if (alike->second.empty())
      of_owner->second.erase(alike);
    if (of_owner->second.empty())
      leases_.erase(of_owner);
  }

  /// Those with another key; an empty key: all.
  [[nodiscard]] std::vector<LeaseId> others(const std::string& key) const {
    std::vector<LeaseId> result;
    for (const auto& [owner, by_key] : leases_)
      add_others(by_key, key, result);
    return result;
  }

  /// The same of one owner.
  [[nodiscard]] std::vector<LeaseId> others_of(const std::string& owner, const std::string& key) const {
    std::vector<LeaseId> result;
    if (const auto found = leases_.find(owner); found != leases_.end())
      add_others(found->second, key, result);
    return result;
  }

private:
  using ByKey = std::map<std::string, std::set<LeaseId>>;

  static void add_others(const ByKey& by_key, const std::string& key, std::vector<LeaseId>& result) {
    for (const auto& [other, leases] : by_key)
      if (key.empty() || other != key)
        result.insert(result.end(), leases.begin(), leases.end());
  }

  std::map<std::string, ByKey> leases_;
};

} // namespace gpuactors
