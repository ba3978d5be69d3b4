// Quotas: how much of devices the leases and groups of each owner may hold together, and how much they do.
#pragma once

#include <gpuactors/ledger/lease.hpp>

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuactors::ledger_detail {

/// Returns what the devices count in a quota.
[[nodiscard]] Share sum_of(const std::vector<DeviceGrant>& devices);

/// Returns whether a lease counts in its owner's quota itself: what is lent or in a group counts as what it comes from.
[[nodiscard]] inline bool counts_in_quota(const Lease& lease) {
  return !lease.parent && !lease.group;
}

/// The quotas by owner, and what each owner holds. An owner without a name has no quota, and is not counted.
class Quotas {
public:
  static constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();

  /// Sets the quota of an owner, or removes it; for the owner `default_owner`, that of all who have none of their own.
  void set(std::string_view owner, std::optional<Share> limit);

  /// Count what an owner gets, or gives back.
  void take(const std::string& owner, const std::vector<DeviceGrant>& devices);
  void give_back(const std::string& owner, const std::vector<DeviceGrant>& devices);

  /// Returns the quota that applies to the owner; nothing if none does.
  [[nodiscard]] std::optional<Share> limit_of(std::string_view owner) const;

  /// Returns whether a quota is set for this very owner.
  [[nodiscard]] bool names(std::string_view owner) const {
    return limits_.find(owner) != limits_.end();
  }

  [[nodiscard]] Share used_by(std::string_view owner) const;

  /// While not all that is held is known, nobody with a quota has room.
  void set_complete(bool complete) {
    complete_ = complete;
  }

  [[nodiscard]] bool is_complete() const {
    return complete_;
  }

  /// Returns how many units the owner may still get: `unlimited` without a quota.
  [[nodiscard]] std::int64_t room_of(std::string_view owner) const;

  /// Returns the owner if a quota applies to it, else none: requests of others need not be told apart.
  [[nodiscard]] std::string bounded(const std::string& owner) const {
    return limit_of(owner) ? owner : std::string{};
  }

  [[nodiscard]] const std::map<std::string, Share, std::less<>>& limits() const {
    return limits_;
  }

  /// Returns what each owner holds that holds anything.
  [[nodiscard]] const std::map<std::string, Share, std::less<>>& used() const {
    return used_;
  }

private:
  std::map<std::string, Share, std::less<>> limits_;
  std::map<std::string, Share, std::less<>> used_;
  bool complete_ = true;
};

} // namespace gpuactors::ledger_detail
