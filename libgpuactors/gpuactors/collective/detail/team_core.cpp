// TeamCore: what a team decides after reports, ends and failures.
#include <gpuactors/collective/detail/team_core.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace gpuactors::detail {

namespace {

/// Whether a member has to be replaced before the team can go on.
bool is_lost(const MemberEnd& end) {
  return !end.answers || (end.error && is_loss(end.error->code()));
}

} // namespace

TeamCore::TeamCore(std::size_t size, const TeamOptions& options)
  : options_(options), ahead_(size), ends_(size), last_(size) {
  // nop
}

// -- an attempt -----------------------------------------------------------------------------------

void TeamCore::begin(TimePoint now) {
  lives_.began(now);
  rejoined_ = false;
  const auto size = ends_.size();
  ahead_.assign(size, {});
  ends_.assign(size, std::nullopt);
  last_.assign(size, {});
}

bool TeamCore::report(std::size_t rank, Payload report) {
  last_[rank] = report;
  ahead_[rank].push_back(std::move(report));
  if (std::any_of(ahead_.begin(), ahead_.end(), [](const auto& reports) { return reports.empty(); }))
    return false;
  common_.clear();
  for (auto& reports : ahead_) {
    common_.push_back(std::move(reports.front()));
    reports.pop_front();
  }
  return true;
}

void TeamCore::end(std::size_t rank, Result<void> result) {
  ends_[rank] = std::move(result);
}

bool TeamCore::has_ended(std::size_t rank) const {
  return ends_[rank].has_value();
}

bool TeamCore::over() const {
  return std::all_of(ends_.begin(), ends_.end(), [](const auto& end) { return end.has_value(); });
}

bool TeamCore::broken() const {
  return std::any_of(ends_.begin(), ends_.end(), [](const auto& end) { return end && !*end; });
}

std::optional<Error> TeamCore::error_of(std::size_t rank) const {
  const auto& end = ends_[rank];
  return end && !*end ? std::optional{end->error()} : std::nullopt;
}

// -- failures -------------------------------------------------------------------------------------

std::vector<bool> TeamCore::lost(const std::vector<MemberEnd>& ends) {
  std::vector<bool> lost;
  lost.reserve(ends.size());
  for (const auto& end : ends)
    lost.push_back(is_lost(end));
  return lost;
}

bool TeamCore::may_retry(TeamStage stage, Errc code) const {
  const auto& also = options_.retry_errors;
  if (is_loss(code) || std::find(also.begin(), also.end(), code) != also.end())
    return true;
  switch (stage) {
  case TeamStage::start:
    // What succeeded once may do so again: a file system is not mounted yet, a node was away for a moment.
    return mended_
           && (remedy_of(code) == Remedy::fail_task || code == Errc::unavailable || code == Errc::deadline_exceeded);
  case TeamStage::join:
    return code != Errc::not_found && code != Errc::invalid_argument;
  case TeamStage::work:
    // What the others get when one is lost. Here all live: one could not be reached for a moment.
    return code == Errc::unavailable;
  }
  return false;
}

int TeamCore::weight(TeamStage stage, const MemberEnd& end) const {
  // What others make of the loss of a member may be any error.
  if (is_lost(end))
    return 4;
  if (!end.error)
    return 0;
  // The team ends the operations of all with this one after the first error.
  if (end.error->code() == Errc::cancelled)
    return 1;
  return may_retry(stage, end.error->code()) ? 2 : 3;
}

Result<TeamCore::Again> TeamCore::fail(const FailedAttempt& failed, TimePoint now) {
  const auto& ends = failed.ends;
  const auto lighter = [&](const auto& a, const auto& b) { return weight(failed.stage, a) < weight(failed.stage, b); };
  const auto cause = std::max_element(ends.begin(), ends.end(), lighter);
  const auto error = [&]() -> Error {
    if (failed.joint)
      return *failed.joint;
    return {cause->error->code(), fmt::format("rank {} of {} ({}): {}", cause - ends.begin(), ends.size(), cause->name,
                                              cause->error->message())};
  }();
  if (!is_lost(*cause) && !may_retry(failed.stage, error.code()))
    return gpuactors::fail(error);
  Again again{lost(ends), {}, true, error};
  if (options_.replace == Replace::all)
    again.replaced.assign(ends.size(), true);
  if (failed.stage == TeamStage::join && !std::exchange(rejoined_, true)) {
    again.counts = false;
    mended_ = true;
    return again;
  }
  const auto most = options_.max_failures;
  const auto pause = lives_.end({most, options_.failure_window.value_or(Duration::zero())}, LifeEnd::crash, now);
  if (!pause)
    return gpuactors::fail(error.code(), fmt::format("{}; it was failure {} of the team, and max_failures is {}",
                                                     error.message(), attempt_ + 1, most));
  ++attempt_;
  mended_ = true;
  again.pause = *pause;
  return again;
}

} // namespace gpuactors::detail
