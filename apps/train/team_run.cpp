#include "team_run.hpp"

#include "group_run.hpp"

#include <gpuactors/collective/team.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace train {

using google::protobuf::Empty;
using gpuactors::Clock;
using gpuactors::Errc;
using gpuactors::Result;

namespace {

constexpr gpuactors::ActorKind<Plan> team_member{"train_member"};
constexpr gpuactors::StreamMethod<Lesson, Progress> learn{"learn"};

/// Has functions of the team's thread run on the thread that follows, one at a time: a watcher knows one thread.
class Errands {
public:
  /// Returns when it has run, or nobody will.
  void run(std::function<void()> errand) {
    std::unique_lock lock{mutex_};
    errand_ = std::move(errand);
    changed_.notify_all();
    changed_.wait(lock, [this] { return !errand_ || closed_; });
  }

  void close() {
    const std::lock_guard lock{mutex_};
    closed_ = true;
    changed_.notify_all();
  }

  /// Runs what there is, or waits for it a while.
  void serve() {
    std::unique_lock lock{mutex_};
    if (!changed_.wait_for(lock, attention, [this] { return static_cast<bool>(errand_); }))
      return;
    // Without the lock it may take its time; who has sent it waits.
    lock.unlock();
    errand_();
    lock.lock();
    errand_ = nullptr;
    changed_.notify_all();
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> errand_;
  bool closed_ = false;
};

/// Whoever followed has gone, perhaps by an exception of a watcher.
struct Closing {
  Errands& errands;

  explicit Closing(Errands& closed) : errands(closed) {
    // nop
  }
  Closing(const Closing&) = delete;
  Closing& operator=(const Closing&) = delete;
  ~Closing() {
    errands.close();
  }
};

class TeamRun {
public:
  TeamRun(gpuactors::Cluster& cluster, const GroupSpec& spec, const Watcher& watcher)
    : spec_(spec), watcher_(watcher), team_(cluster, team_member, members_of(spec), options_of(spec)) {
    // nop
  }

  Result<GroupOutcome> train() {
    if (spec_.plan.nccl())
      watcher_.notice("gradients are summed by messages: workers may be started anew");
    const auto begin = Clock::now();
    const auto learnt = follow();
    outcome_.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    outcome_.stopped = !learnt && begun_ && watcher_.stop() && learnt.error().code() == Errc::cancelled;
    const auto ended = learnt || outcome_.stopped ? finish() : Result<void>{gpuactors::fail(learnt.error())};
    if (ended)
      return GroupOutcome{std::move(outcome_), spec_.workers};
    if (begun_)
      watcher_.fails(outcome_);
    return gpuactors::fail(ended.error());
  }

private:
  static std::vector<gpuactors::TeamMember<Plan>> members_of(const GroupSpec& spec) {
    auto plan = spec.plan;
    plan.clear_nccl();
    auto options = spec.options;
    options.max_restarts = 0;
    const auto name = group_name();
    std::vector<gpuactors::TeamMember<Plan>> members;
    for (std::size_t rank = 0; rank < spec.workers; ++rank) {
      options.name = fmt::format("{}-{}", name, rank);
      members.push_back({plan, options});
    }
    return members;
  }

  /// "worker 1 is", for people.
  static std::string who(const std::vector<std::size_t>& ranks) {
    if (ranks.empty())
      return "no worker is";
    return fmt::format("{} {} {}", ranks.size() == 1 ? "worker" : "workers", fmt::join(ranks, ", "),
                       ranks.size() == 1 ? "is" : "are");
  }

  static gpuactors::TeamOptions options_of(const GroupSpec& spec) {
    gpuactors::TeamOptions options;
    options.max_failures = spec.options.max_restarts;
    return options;
  }

  /// Has the team learn, and serves it until it is done.
  Result<void> follow() {
    gpuactors::TeamCall<Progress> call;
    call.on_reports = [this](const std::vector<Progress>& parts) { errands_.run([&] { note(parts); }); };
    call.on_failure = [this](const gpuactors::TeamFailure& failure) {
      errands_.run(
          [&] { watcher_.notice(fmt::format("{} started anew: {}", who(failure.replaced), failure.error.message())); });
    };
    const auto request = [this](const gpuactors::TeamPart<Progress>& part) -> Result<Lesson> {
      if (!introduced_ && part.rank == 0)
        GPUACTORS_TRY(begin());
      Lesson lesson;
      lesson.set_epochs(spec_.epochs);
      lesson.set_begin(part.reports.empty() ? outcome_.first_epoch : part.reports[0].epochs());
      lesson.set_saved(spec_.plan.resume() || has_saved(lesson.begin()));
      return lesson;
    };
    auto learning = team_.run_async(learn, request, call);
    const Closing closing{errands_};
    auto notice_at = Clock::now() + std::chrono::seconds{1};
    while (!learning.ready()) {
      errands_.serve();
      if (watcher_.stop())
        team_.stop();
      if (begun_ || Clock::now() < notice_at)
        continue;
      watcher_.notice(fmt::format("waiting for devices for {} workers", spec_.workers));
      notice_at = gpuactors::never;
    }
    const auto learnt = learning.get();
    if (learnt && !begun_)
      return gpuactors::fail(Errc::unavailable, "no worker has said where the training began");
    return learnt ? Result<void>{} : gpuactors::fail(learnt.error());
  }

  /// All members run for the first time, and are where the training begins. The team's thread.
  Result<void> begin() {
    for (const auto& member : team_.members()) {
      const auto first = member.call<Status>("status").get();
      if (first)
        return begin_at(*first);
      if (!is_death(first.error().code()))
        return gpuactors::fail(first.error());
    }
    // Without one that answers this attempt fails: in the next one.
    return {};
  }

  Result<void> begin_at(const Status& first) {
    introduced_ = true;
    Result<void> fine;
    errands_.run([&] {
      begun_ = true;
      outcome_.begin_at(first);
      // It speaks for itself alone yet.
      const auto whole = static_cast<std::uint64_t>(spec_.plan.batch()) * spec_.workers;
      outcome_.steps_per_epoch = (static_cast<std::uint64_t>(first.train_rows()) + whole - 1) / whole;
      epochs_ = first.epochs();
      if (first.has_last_loss())
        loss_ = first.last_loss();
      fine = watcher_.begins(first);
    });
    return fine;
  }

  /// Whether this training has written the checkpoint, when so many epochs were reported: members write it before.
  [[nodiscard]] bool has_saved(std::uint64_t reported) const {
    const auto every = std::max<std::uint64_t>(spec_.plan.checkpoint_epochs(), 1);
    return reported > outcome_.first_epoch
           && (reported == spec_.epochs || reported / every > outcome_.first_epoch / every);
  }

  void note(const std::vector<Progress>& parts) {
    if (!begun_)
      return;
    const auto whole = add_parts(outcome_, parts);
    epochs_ = whole.epochs();
    loss_.reset();
    if (!outcome_.losses.empty() && !std::isnan(outcome_.losses.back()))
      loss_ = outcome_.losses.back();
    watcher_.progress(whole, outcome_);
  }

  /// Asks the members for what a training ends with, until one has answered, from the one that has learnt most on: a
  /// stop may have come while workers were started anew, before the others had given them what was learnt.
  Result<void> finish() {
    auto result = lost();
    std::vector<std::pair<Status, gpuactors::ActorRef>> learners;
    for (const auto& member : team_.members()) {
      if (!member)
        continue;
      auto status = await_answer<Status>(member, "go_back", Empty{}, watcher_);
      if (status)
        learners.emplace_back(std::move(*status), member);
      else
        result = gpuactors::fail(status.error());
    }
    std::stable_sort(learners.begin(), learners.end(),
                     [](const auto& a, const auto& b) { return a.first.epochs() > b.first.epochs(); });
    for (const auto& [status, member] : learners) {
      if (status.epochs() < epochs_)
        return lost();
      result = finish(status, member);
      if (result || !is_death(result.error().code()))
        break;
    }
    return result;
  }

  /// No worker has what all had learnt; the checkpoint may have it, and is not overwritten with less.
  Result<void> lost() const {
    const auto* kept = spec_.plan.checkpoint().empty() ? "" : "; the checkpoint stays as it is";
    if (!outcome_.stopped)
      return gpuactors::fail(Errc::unavailable, fmt::format("no worker is left that had learnt it{}", kept));
    return gpuactors::fail(Errc::cancelled,
                           fmt::format("stopped while workers were started anew: those that had learnt {} epochs are "
                                       "lost{}",
                                       epochs_, kept));
  }

  Result<void> finish(const Status& status, const gpuactors::ActorRef& member) {
    if (outcome_.stopped && !spec_.plan.checkpoint().empty()) {
      Path path;
      path.set_path(spec_.plan.checkpoint());
      if (loss_ && status.epochs() == epochs_)
        path.set_loss(*loss_);
      GPUACTORS_TRY(await_answer<Status>(member, "save", path, watcher_));
    }
    GPUACTORS_LET(quality, await_answer<Evaluation>(member, "evaluate", Empty{}, watcher_));
    outcome_.status = status;
    outcome_.quality = quality;
    return {};
  }

  const GroupSpec& spec_;
  const Watcher& watcher_;
  Errands errands_;
  /// These are used on the thread that follows, or by what that waits for.
  bool begun_ = false;
  /// As `begun_`, for the team's thread.
  bool introduced_ = false;
  std::uint64_t epochs_ = 0;
  std::optional<double> loss_;
  Outcome outcome_;
  gpuactors::Team team_;
};

} // namespace

Result<GroupOutcome> train_team(gpuactors::Cluster& cluster, const GroupSpec& spec, const Watcher& watcher) {
  return TeamRun{cluster, spec, watcher}.train();
}

} // namespace train
