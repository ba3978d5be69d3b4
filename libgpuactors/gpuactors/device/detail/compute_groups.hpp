// Which groups of a device's compute units each lease runs on. Pure: no device, clock or thread in it.
#pragma once

#include <gpuactors/base/units.hpp>

#include <cstdint>
#include <map>
#include <vector>

namespace gpuactors::detail {

/// Hands out the groups of one split of a device, a set for each holder.
///
/// A device's units can be held apart in equal groups only (8 SMs on Hopper), so a share is rounded to groups: to the
/// next higher number while what is left of the device can still be served, else to the next lower one. As long as the
/// shares add up to at most one device, and nobody asks for less than a group, no two holders meet, unless holders
/// that were rounded up stay when others go. Shares below a group are put together in one. When there is no other way
/// a holder gets groups that others have too, and `is_shared` says so, to both.
///
/// Packs like the ledger: the smallest gap that is large enough, then the lowest index. One thread at a time.
class ComputeGroups {
public:
  using Holder = std::uint64_t;

  /// @param count how many groups there are, at least 1.
  explicit ComputeGroups(int count);

  /// Gives groups for `share` (above 0, at most one whole device) to a new holder.
  Holder take(Share share);

  /// Gives back what `take` gave. Unknown holders are ignored.
  void give_back(Holder holder);

  /// The holder's groups, lowest first; the same until it gives them back.
  [[nodiscard]] const std::vector<int>& groups_of(Holder holder) const;

  /// Whether somebody else runs on any of the holder's groups at the moment.
  [[nodiscard]] bool is_shared(Holder holder) const;

  [[nodiscard]] int count() const noexcept {
    return static_cast<int>(slots_.size());
  }

  /// Groups that nobody has.
  [[nodiscard]] int free_count() const noexcept;

private:
  /// Parts of groups are counted in 1/Share::one of one.
  struct Held {
    std::int64_t wanted = 0;
    std::vector<int> groups;
  };

  struct Slot {
    int holders = 0;
    /// What its holders want of it, together.
    std::int64_t load = 0;
  };

  /// How many free groups a holder that wants so much may have.
  [[nodiscard]] int own_count(std::int64_t wanted) const;
  /// Adds so many free groups, from the smallest gap that is large enough.
  void add_free(int count, std::vector<int>& chosen) const;
  /// The group that bears `load` more best, beyond those already chosen.
  [[nodiscard]] int best_to_share(std::int64_t load, const std::vector<int>& chosen) const;

  std::vector<Slot> slots_;
  std::map<Holder, Held> holders_;
  std::int64_t wanted_ = 0;
  Holder last_ = 0;
};

} // namespace gpuactors::detail
