#include "member.hpp"

#include <gpuactors/base/limits.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

namespace train {

using google::protobuf::Empty;
using gpuactors::Errc;
using gpuactors::Result;
using gpuactors::value_or_throw;

namespace {

/// How often who waits for NCCL looks whether the group is over.
constexpr std::chrono::milliseconds attention_to_group{10};

/// Losses that a report has room for, beside the other numbers in it.
constexpr std::uint64_t most_reported = (gpuactors::limits::payload_bytes - 1024) / sizeof(double);

GPUACTORS_ACTOR("train_member", MemberActor, Plan)
    .method("join", &MemberActor::join)
    .method("epoch", &MemberActor::epoch)
    .method("leave", &MemberActor::leave)
    .method("nccl_id", &MemberActor::nccl_id)
    .method("evaluate", &MemberActor::evaluate)
    .method("save", &MemberActor::save_to)
    .method("learn", &MemberActor::learn)
    .method("go_back", &MemberActor::go_back)
    .concurrent_method("status", &MemberActor::status);

} // namespace

MemberActor::MemberActor(gpuactors::Init init, const Plan& plan)
  : WithPeers(std::move(init)), plan_(plan), training_(value_or_throw(as_own_failure(make_training(*this, plan)))) {
  if (plan.resume())
    value_or_throw(as_own_failure(load_checkpoint()));
  note_status();
}

MemberActor::~MemberActor() {
  // Steps may be queued that read from the training's memory on the host: it goes after them.
  nccl_.reset();
  static_cast<void>(gpu().stream().synchronize());
}

// -- the group -----------------------------------------------------------------------------------

Result<Status> MemberActor::join(const Places& places) {
  if (places.rank() < 0 || places.rank() >= places.members())
    return gpuactors::fail(Errc::invalid_argument,
                           fmt::format("rank {} of {} makes no group", places.rank(), places.members()));
  nccl_.reset();
  if (training_.epochs() != places.epochs())
    GPUACTORS_TRY(training_.restore_snapshot());
  GPUACTORS_TRY(rewind());
  if (training_.epochs() != places.epochs())
    return gpuactors::fail(Errc::invalid_argument, fmt::format("this member is at the beginning of epoch {}, not {}",
                                                               training_.epochs(), places.epochs()));
  training_.join({places.rank(), places.members()});
  GPUACTORS_TRY(check_steps());
  if (!places.nccl_id().empty()) {
    NcclSum::Place place{places.nccl_id(), static_cast<int>(places.members()), static_cast<int>(places.rank())};
    // Of each layer five launches and three events; gradients and parameters besides.
    place.operations = 8 * static_cast<std::uint64_t>(plan_.sizes_size()) + 2;
    GPUACTORS_LET(nccl, NcclSum::join(gpu().stream(), training_.trainer().gradient(), place, [alarm = alarm_] {
                    const std::lock_guard lock{alarm->mutex};
                    alarm->rung = true;
                    alarm->changed.notify_one();
                  }));
    nccl_ = std::move(nccl);
  }
  return note_status();
}

Result<NcclId> MemberActor::nccl_id(const Empty&) {
  GPUACTORS_LET(made, make_nccl_id());
  NcclId id;
  id.set_id(made);
  return id;
}

Result<void> MemberActor::check_steps() const {
  const auto steps = training_.steps_per_epoch();
  if (steps <= most_reported)
    return {};
  return gpuactors::fail(Errc::invalid_argument,
                         fmt::format("an epoch has {} steps, and workers that train together report one of {} at most: "
                                     "with a --batch of {} there are so few",
                                     steps, most_reported,
                                     plan_.batch() * static_cast<std::int64_t>(steps / most_reported + 1)));
}

void MemberActor::leave(const Empty&) {
  // nop: its turn comes when an epoch has ended
}

// -- steps ---------------------------------------------------------------------------------------

Result<void> MemberActor::rewind() {
  if (training_.position() != 0 || open_)
    GPUACTORS_TRY(training_.restore_snapshot());
  open_ = false;
  return {};
}

Result<Progress> MemberActor::epoch(const Empty&) {
  return report_epoch();
}

Result<Progress> MemberActor::report_epoch() {
  GPUACTORS_TRY(training_.take_snapshot());
  if (auto learnt = learn_epoch(); !learnt) {
    // Nothing ends behind a sum that waits for the dead.
    if (nccl_ != nullptr)
      nccl_->abandon();
    return gpuactors::fail(learnt.error());
  }
  GPUACTORS_LET(report, training_.report());
  metrics_.note(report);
  note_position();
  return to_message(report);
}

Result<void> MemberActor::learn_epoch() {
  while (training_.position() != training_.steps_per_epoch()) {
    GPUACTORS_TRY(may_go_on());
    GPUACTORS_TRY(training_.compute_gradient());
    open_ = true;
    GPUACTORS_TRY(sum());
    GPUACTORS_TRY(training_.update());
    open_ = false;
    note_position();
  }
  return nccl_ != nullptr ? await(&NcclSum::settled) : Result<void>{};
}

Result<void> MemberActor::sum() {
  if (nccl_ == nullptr)
    return peers().all_reduce(gpu().stream(), training_.trainer().gradient());
  // The first time its communicator may still be in the making; later this is true at once.
  GPUACTORS_TRY(await(&NcclSum::ready));
  GPUACTORS_TRY(nccl_->begin());
  return await(&NcclSum::ready);
}

Result<void> MemberActor::may_go_on() const {
  if (stop_requested())
    return gpuactors::fail(Errc::cancelled, fmt::format("stopped after step {}", training_.steps()));
  // NCCL tells nobody of the dead.
  if (const auto ended = peers().ended())
    return gpuactors::fail(*ended);
  return {};
}

Result<void> MemberActor::await(Result<bool> (NcclSum::*question)()) {
  for (;;) {
    GPUACTORS_LET(yes, (nccl_.get()->*question)());
    if (yes)
      return {};
    GPUACTORS_TRY(may_go_on());
    std::unique_lock lock{alarm_->mutex};
    alarm_->changed.wait_for(lock, attention_to_group, [&] { return alarm_->rung; });
    alarm_->rung = false;
  }
}

// -- as one of a team ----------------------------------------------------------------------------

Result<void> MemberActor::learn(const Lesson& lesson, gpuactors::ReplyStream<Progress>& reports) {
  GPUACTORS_TRY(rewind());
  training_.join({static_cast<std::int64_t>(peers().rank()), static_cast<std::int64_t>(peers().size())});
  GPUACTORS_TRY(check_steps());
  GPUACTORS_TRY(agree(lesson));
  // Whoever writes the checkpoint may have died at it; and there is no further epoch after the last one.
  if (training_.epochs() > lesson.begin())
    GPUACTORS_TRY(end_epoch(lesson, known_progress(), reports));
  while (training_.epochs() < lesson.epochs()) {
    GPUACTORS_LET(progress, report_epoch());
    GPUACTORS_TRY(end_epoch(lesson, std::move(progress), reports));
  }
  return {};
}

Result<void> MemberActor::end_epoch(const Lesson& lesson, Progress progress,
                                    gpuactors::ReplyStream<Progress>& reports) {
  const auto every = std::max<std::uint64_t>(plan_.checkpoint_epochs(), 1);
  const bool due = progress.epochs() == lesson.epochs() || progress.epochs() % every == 0;
  if (due && !plan_.checkpoint().empty())
    GPUACTORS_TRY(write_checkpoint(progress));
  return reports.write(std::move(progress));
}

std::optional<double> MemberActor::known_loss() const {
  return loss_ && loss_epoch_ == training_.epochs() ? loss_ : training_.last_loss();
}

Progress MemberActor::known_progress() const {
  Progress progress;
  progress.set_epochs(training_.epochs());
  progress.set_steps(training_.steps());
  // All know the same one: it is the sum if the others have no part in it.
  if (const auto loss = known_loss())
    progress.add_losses(peers().rank() == 0 ? *loss : 0.0);
  return progress;
}

Result<void> MemberActor::agree(const Lesson& lesson) {
  const auto own = whole_ ? static_cast<std::int64_t>(training_.epochs()) : -1;
  GPUACTORS_LET(all, peers().all_gather(std::vector{own}));
  const auto most = std::max_element(all.begin(), all.end());
  const auto root = static_cast<std::size_t>(most - all.begin());
  const bool gives = peers().rank() == root;
  if (gives && *most < static_cast<std::int64_t>(lesson.begin()))
    GPUACTORS_TRY(as_own_failure(find_checkpoint(lesson)));
  std::vector loss{std::numeric_limits<double>::quiet_NaN()};
  if (gives)
    loss.front() = known_loss().value_or(loss.front());
  GPUACTORS_TRY(peers().broadcast(loss, root));
  if (gives)
    GPUACTORS_TRY(training_.take_snapshot());
  // What comes takes the place of what was there, in parts.
  whole_ = false;
  if (auto taken = training_.take_over(peers(), root); !taken) {
    whole_ = training_.has_snapshot() && training_.restore_snapshot();
    return taken;
  }
  whole_ = true;
  loss_.reset();
  if (!std::isnan(loss.front()))
    keep_loss(loss.front());
  note_position();
  return {};
}

Result<void> MemberActor::load_checkpoint() {
  GPUACTORS_TRY(training_.load(plan_.checkpoint()));
  if (training_.position() == 0)
    return {};
  return gpuactors::fail(Errc::task_failed,
                         plan_.checkpoint() + " is of the middle of an epoch; one worker can go on with it");
}

Result<void> MemberActor::find_checkpoint(const Lesson& lesson) {
  const auto found = [&]() -> Result<void> {
    if (plan_.checkpoint().empty())
      return gpuactors::fail(Errc::not_found, "there is no --checkpoint");
    // What is there may be of another training, and about to be overwritten.
    if (!lesson.saved())
      return gpuactors::fail(Errc::not_found, "this training has no checkpoint yet");
    return load_checkpoint();
  }();
  if (found || found.error().code() != Errc::not_found)
    return found;
  const auto lost = fmt::format("{}; what was learnt is lost with the workers that died", found.error().message());
  if (!whole_)
    return gpuactors::fail(Errc::task_failed, lost);
  std::cerr << lost << ": the training starts over\n";
  return {};
}

Result<void> MemberActor::write_checkpoint(const Progress& progress) {
  // All or none know a loss.
  if (const auto count = progress.losses_size(); count != 0) {
    GPUACTORS_LET(parts, peers().all_gather(std::vector{progress.losses(count - 1)}));
    // In the order of the ranks, as the program adds them.
    keep_loss(std::accumulate(parts.begin(), parts.end(), 0.0));
  }
  if (peers().rank() != 0)
    return {};
  return as_own_failure(training_.save(plan_.checkpoint(), known_loss()));
}

void MemberActor::keep_loss(double loss) {
  loss_ = loss;
  loss_epoch_ = training_.epochs();
}

Result<Status> MemberActor::go_back(const Empty&) {
  if (!whole_)
    return gpuactors::fail(Errc::task_failed, "this worker has received a part of what was learnt, and no more");
  GPUACTORS_TRY(rewind());
  return note_status();
}

// -- as trainers ---------------------------------------------------------------------------------

Result<Evaluation> MemberActor::evaluate(const Empty&) {
  GPUACTORS_LET(quality, training_.evaluate());
  return to_message(quality);
}

Result<Status> MemberActor::save_to(const Path& path) {
  GPUACTORS_TRY(training_.save(path.path(), path.has_loss() ? std::optional{path.loss()} : std::nullopt));
  return note_status();
}

Status MemberActor::note_status() {
  auto status = status_of(*this, training_);
  // Loads it: only where it may be used.
  if (plan_.nccl() && gpu().device().kind == gpuactors::DeviceKind::cuda)
    status.set_nccl_version(nccl_version());
  const std::lock_guard lock{mutex_};
  return status_ = std::move(status);
}

void MemberActor::note_position() {
  const std::lock_guard lock{mutex_};
  status_.set_epochs(training_.epochs());
  status_.set_steps(training_.steps());
  status_.set_position(training_.position());
}

Status MemberActor::status(const Empty&) const {
  const std::lock_guard lock{mutex_};
  return status_;
}

} // namespace train
