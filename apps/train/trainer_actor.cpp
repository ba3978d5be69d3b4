#include "trainer_actor.hpp"

#include <gpuactors/base/limits.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <numeric>
#include <utility>

namespace train {

using google::protobuf::Empty;
using gpuactors::Clock;
using gpuactors::Errc;
using gpuactors::Result;
using gpuactors::value_or_throw;

namespace {

/// A report of steps that is waited for once is made longer until it takes this long, and shorter beyond the second.
constexpr std::chrono::milliseconds least_wait{50};
constexpr std::chrono::milliseconds most_wait{200};
/// So that a stop is seen after the first step, however long that takes.
constexpr std::uint64_t first_ahead = 1;
/// Steps of one report, and of all that are kept.
constexpr std::uint64_t most_ahead = 16'384;
/// Those that may be on their way to a reader, and the one that was not sent any more.
constexpr std::size_t most_kept = gpuactors::limits::stream_window + 1;
static_assert(most_ahead * sizeof(double) < gpuactors::limits::saved_bytes / 3 * 2, "actors save them with a name");

GPUACTORS_ACTOR("trainer", TrainerActor, Plan)
    .method("run", &TrainerActor::run)
    .method("step", &TrainerActor::step)
    .method("evaluate", &TrainerActor::evaluate)
    .method("save", &TrainerActor::save_to)
    .method("load", &TrainerActor::load_from)
    .concurrent_method("status", &TrainerActor::status)
    .method("stop", &TrainerActor::stop);

} // namespace

TrainerActor::TrainerActor(gpuactors::Init init, const Plan& plan)
  : Actor(std::move(init)), plan_(plan), training_(value_or_throw(as_own_failure(make_training(*this, plan)))) {
  value_or_throw(as_own_failure(find_beginning()));
  status_ = with_untold(note_status());
}

TrainerActor::~TrainerActor() {
  // Copies to and from the training's memory on the host may be queued: it goes after them, also where a run has
  // failed.
  static_cast<void>(gpu().stream().synchronize());
}

Status TrainerActor::note_status() {
  auto status = status_of(*this, training_);
  const std::lock_guard lock{mutex_};
  return status_ = std::move(status);
}

Result<void> TrainerActor::find_beginning() {
  GPUACTORS_LET(saved, saved<Saved>());
  if (!saved)
    return plan_.resume() ? training_.load(plan_.checkpoint()) : Result<void>{};
  noted_ = true;
  auto loaded = training_.load(saved->checkpoint());
  if (loaded)
    recent_.assign(saved->untold().begin(), saved->untold().end());
  if (!loaded && loaded.error().code() == Errc::not_found) {
    // Another machine, without the file: what was learnt is learnt again.
    std::cerr << fmt::format("{}; the training starts over\n", loaded.error().message());
    return {};
  }
  return loaded;
}

Result<void> TrainerActor::write_checkpoint() {
  if (plan_.checkpoint().empty())
    return {};
  GPUACTORS_TRY(as_own_failure(training_.save(plan_.checkpoint())));
  // The name stays; only what is in the file changes.
  return noted_ ? Result<void>{} : note_checkpoint();
}

Result<void> TrainerActor::note_checkpoint() {
  Saved saved;
  saved.set_checkpoint(plan_.checkpoint());
  saved.mutable_untold()->Add(recent_.begin(), recent_.end());
  GPUACTORS_TRY(save(saved));
  noted_ = true;
  return {};
}

Result<void> TrainerActor::stop_here() {
  // Its node is being emptied, perhaps: there is time left for this, and the next life goes on from here. It is to tell
  // the last reports, too.
  noted_ = false;
  const auto written = write_checkpoint();
  return gpuactors::fail(Errc::cancelled,
                         fmt::format("stopped after step {}{}", training_.steps(),
                                     written ? "" : "; its checkpoint: " + to_string(written.error())));
}

Result<void> TrainerActor::run(const RunRequest& request, gpuactors::ReplyStream<Progress>& events) {
  auto ahead = first_ahead;
  const auto every = std::max<std::uint64_t>(plan_.checkpoint_epochs(), 1);
  recent_.clear(); // this reader begins here
  while (training_.epochs() < request.epochs()) {
    if (stop_requested())
      return stop_here();
    const auto epoch = training_.epochs();
    // Several short epochs in one go, as far as nothing has to be written in between.
    const auto next_checkpoint = (epoch / every + 1) * every;
    const auto last = plan_.checkpoint().empty() ? request.epochs() : std::min(next_checkpoint, request.epochs());
    const auto begin = Clock::now();
    GPUACTORS_LET(report, training_.advance(ahead, last));
    metrics_.note(report);
    note_status();
    const auto taken = Clock::now() - begin;
    if (taken < least_wait && report.losses.size() == ahead)
      ahead = std::min(2 * ahead, most_ahead);
    else if (taken > most_wait && ahead > 1)
      ahead /= 2;
    // Told first: after a death between the two, what is told twice is the same, and what is not told is lost.
    auto progress = to_message(report);
    keep(progress);
    if (auto told = events.write(std::move(progress)); !told)
      return stop_requested() ? stop_here() : told;
    if (report.epochs > epoch && report.epochs == last)
      GPUACTORS_TRY(write_checkpoint());
  }
  return {};
}

void TrainerActor::keep(const Progress& report) {
  recent_.push_back(report);
  const auto losses = [this] {
    return std::accumulate(recent_.begin(), recent_.end(), std::uint64_t{0}, [](std::uint64_t sum, const auto& one) {
      return sum + static_cast<std::uint64_t>(one.losses_size());
    });
  };
  while (recent_.size() > most_kept || losses() > most_ahead)
    recent_.pop_front();
}

Status TrainerActor::with_untold(Status status) const {
  status.mutable_untold()->Add(recent_.begin(), recent_.end());
  return status;
}

Result<Loss> TrainerActor::step(const Rows& rows) {
  GPUACTORS_LET(loss, training_.step_on({rows.features().data(), static_cast<std::size_t>(rows.features_size())},
                                        {rows.labels().data(), static_cast<std::size_t>(rows.labels_size())}));
  metrics_.note({training_.epochs(), training_.steps(), {loss}, static_cast<std::uint64_t>(rows.labels_size())});
  note_status();
  Loss reply;
  reply.set_loss(loss);
  return reply;
}

Result<Evaluation> TrainerActor::evaluate(const Empty&) {
  GPUACTORS_LET(quality, training_.evaluate());
  return to_message(quality);
}

Result<Status> TrainerActor::save_to(const Path& path) {
  if (path.path().empty() && plan_.checkpoint().empty())
    return gpuactors::fail(Errc::invalid_argument, "there is no path to save to, and the plan has no checkpoint");
  GPUACTORS_TRY(path.path().empty() ? write_checkpoint() : as_own_failure(training_.save(path.path())));
  return note_status();
}

Result<Status> TrainerActor::load_from(const Path& path) {
  GPUACTORS_TRY(training_.load(path.path()));
  return note_status();
}

Status TrainerActor::status(const Empty&) const {
  const std::lock_guard lock{mutex_};
  return status_;
}

Result<Status> TrainerActor::stop(const Empty&) {
  GPUACTORS_TRY(write_checkpoint());
  return with_untold(note_status());
}

} // namespace train
