// Assigns groups of a device's compute units to leases. Pure: uses no device, clock or thread.
#pragma once

#include <gpuactors/base/units.hpp>

#include <cstdint>
#include <map>
#include <vector>

namespace gpuactors::detail {

/// Assigns a set of groups, of one split of a device, to each holder.
///
/// A device's units can be separated in equal groups only (8 SMs on Hopper), so a share is rounded to groups: up while
/// the rest of the device can still serve later holders, else down. As long as the shares add up to at most one device
/// and none is below a group, no two holders share a group, unless holders that were rounded up stay when others leave.
/// Shares below a group are packed into one group. If there is no other way, a holder gets groups that others have too,
/// and `is_shared` is then true for both.
///
/// Packs like the ledger: the smallest gap that is large enough, then the lowest index. One thread at a time.
class ComputeGroups {
public:
  using Holder = std::uint64_t;

  /// @param count how many groups there are, at least 1.
  explicit ComputeGroups(int count);

  /// Assigns groups for `share` (above 0, at most one whole device) to a new holder.
  Holder take(Share share);

  /// Returns the holder's groups. Unknown holders are ignored.
  void give_back(Holder holder);

  /// Returns the holder's groups, lowest first; they do not change until `give_back`.
  [[nodiscard]] const std::vector<int>& groups_of(Holder holder) const;

  /// Returns whether another holder has any of the holder's groups now.
  [[nodiscard]] bool is_shared(Holder holder) const;

  [[nodiscard]] int count() const noexcept {
    return static_cast<int>(slots_.size());
  }

  /// Returns the number of groups without a holder.
  [[nodiscard]] int free_count() const noexcept;

private:
  /// Amounts (`wanted`, `load`) are in units of 1/`Share::one` of a group.
  struct Held {
    std::int64_t wanted = 0;
    std::vector<int> groups;
  };

  struct Slot {
    int holders = 0;
    /// The sum of what the holders want of this group.
    std::int64_t load = 0;
  };

  /// Returns how many free groups a holder that wants this amount may have.
  [[nodiscard]] int own_count(std::int64_t wanted) const;
  /// Adds `count` free groups to `chosen`, from the smallest gap that is large enough.
  void add_free(int count, std::vector<int>& chosen) const;
  /// Returns the group that can best take `load` more, except those in `chosen`.
  [[nodiscard]] int best_to_share(std::int64_t load, const std::vector<int>& chosen) const;

  std::vector<Slot> slots_;
  std::map<Holder, Held> holders_;
  std::int64_t wanted_ = 0;
  Holder last_ = 0;
};

} // namespace gpuactors::detail
