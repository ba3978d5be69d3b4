// TeamCore: what a team of actors decides. Which of them are replaced after a failure, whether the work is called
// again, after what pause, and what all have reported. Pure: the time is an argument, and it knows neither actors nor
// threads.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/broker/core/lives.hpp>
#include <gpuactors/collective/team_options.hpp>
#include <gpuactors/wire/payload.hpp>

#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace gpuactors::detail {

/// How far an attempt was when it failed.
enum class TeamStage : std::uint8_t {
  /// Members were started.
  start,
  /// The running members were put together.
  join,
  /// They worked.
  work,
};

/// What became of one member in an attempt that failed.
struct MemberEnd {
  /// What it is called in texts.
  std::string name;
  /// Nothing for one that has done its part, or has none.
  std::optional<Error> error;
  /// Whether it answers. One that does not has an error.
  bool answers = true;
};

/// An attempt that failed.
struct FailedAttempt {
  TeamStage stage = TeamStage::start;
  /// Of all members, by rank.
  std::vector<MemberEnd> ends;
  /// An error that is no single member's; its text names whose it is.
  std::optional<Error> joint;
};

/// The lives of a team in one piece of work: an attempt is a life of all members together.
class TeamCore {
public:
  TeamCore(std::size_t size, const TeamOptions& options);

  // -- an attempt ----------------------------------------------------------------------------------

  /// The work has been called on all members.
  void begin(TimePoint now);

  /// A member has reported; the reports of all that belong together are common ones then.
  /// @returns whether there are new common ones.
  bool report(std::size_t rank, Payload report);

  /// A member's call has ended.
  void end(std::size_t rank, Result<void> result);

  [[nodiscard]] bool has_ended(std::size_t rank) const;
  /// Whether all calls have ended, and whether one of them failed.
  [[nodiscard]] bool over() const;
  [[nodiscard]] bool broken() const;
  /// Why the call of a member failed; nothing if it runs, or succeeded.
  [[nodiscard]] std::optional<Error> error_of(std::size_t rank) const;

  // -- what is known -------------------------------------------------------------------------------

  /// Attempts before this one.
  [[nodiscard]] int attempt() const noexcept {
    return attempt_;
  }

  /// The last reports that all members have made, by rank, of whichever attempt; empty before the first.
  [[nodiscard]] const std::vector<Payload>& common() const noexcept {
    return common_;
  }

  /// What each member has reported last in this attempt; an empty payload for nothing.
  [[nodiscard]] const std::vector<Payload>& last() const noexcept {
    return last_;
  }

  // -- failures ------------------------------------------------------------------------------------

  struct Again {
    /// By rank: these are replaced.
    std::vector<bool> replaced;
    Duration pause{};
    /// Whether it counts as a failure. The first time that members cannot be put together does not, after each attempt:
    /// one that was asked to end may have shown it only then.
    bool counts = true;
    /// What it was, with rank and name.
    Error error;
  };

  /// Returns which members have to be replaced before the team can go on.
  [[nodiscard]] static std::vector<bool> lost(const std::vector<MemberEnd>& ends);

  /// The attempt has failed.
  /// @returns how it goes on, or the error that ends the work.
  Result<Again> fail(const FailedAttempt& failed, TimePoint now);

private:
  /// Of errors, the one with the highest weight is the cause: others follow from it.
  [[nodiscard]] int weight(TeamStage stage, const MemberEnd& end) const;
  [[nodiscard]] bool may_retry(TeamStage stage, Errc code) const;

  TeamOptions options_;
  Lives lives_;
  int attempt_ = 0;
  /// Members could not be put together since the last attempt.
  bool rejoined_ = false;
  /// A failure was mended: members that start now are replacements, or start once more.
  bool mended_ = false;
  /// By rank: reports that others have not made yet, and how the call has ended.
  std::vector<std::deque<Payload>> ahead_;
  std::vector<std::optional<Result<void>>> ends_;
  std::vector<Payload> last_;
  std::vector<Payload> common_;
};

} // namespace gpuactors::detail
