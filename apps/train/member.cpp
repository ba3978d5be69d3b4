#include "member.hpp"

#include "nccl_sum.hpp"
#include "ring_sum.hpp"

#include <fmt/format.h>

#include <optional>
#include <stdexcept>
#include <utility>

namespace train {

using google::protobuf::Empty;
using gpuactors::Errc;
using gpuactors::Result;
using gpuactors::value_or_throw;

namespace {

/// How long steps are made in one go while none waits for others; then messages that came meanwhile are served.
constexpr std::chrono::milliseconds longest_turn{50};

GPUACTORS_ACTOR("train_member", MemberActor, Plan)
    .method("join", &MemberActor::join)
    .method("epoch", &MemberActor::epoch)
    .method("pass", &MemberActor::pass)
    .method("wake", &MemberActor::wake)
    .method("resume", &MemberActor::resume)
    .method("leave", &MemberActor::leave)
    .method("nccl_id", &MemberActor::nccl_id)
    .method("evaluate", &MemberActor::evaluate)
    .method("save", &MemberActor::save_to)
    .method("status", &MemberActor::status);

} // namespace

MemberActor::MemberActor(gpuactors::Init init, const Plan& plan)
  : Actor(std::move(init)), plan_(plan), training_(value_or_throw(as_own_failure(make_training(*this, plan)))) {
  if (plan.resume()) {
    value_or_throw(as_own_failure(training_.load(plan.checkpoint())));
    if (training_.position() != 0)
      throw std::runtime_error(plan.checkpoint() + " is of the middle of an epoch; one worker can go on with it");
  }
}

MemberActor::~MemberActor() {
  // Steps may be queued that read from the training's memory on the host: it goes after them.
  sum_.reset();
  static_cast<void>(gpu().stream().synchronize());
}

// -- the group -----------------------------------------------------------------------------------

Result<Status> MemberActor::join(const Places& places) {
  const auto members = static_cast<std::int64_t>(places.members_size());
  if (places.rank() < 0 || places.rank() >= members || places.generation() <= generation_)
    return gpuactors::fail(Errc::invalid_argument,
                           fmt::format("rank {} of {} and generation {} after {} make no group", places.rank(), members,
                                       places.generation(), generation_));
  give_up({Errc::cancelled, "the group is made anew"});
  sum_.reset();
  if (training_.epochs() != places.epochs() || training_.position() != 0 || open_)
    GPUACTORS_TRY(training_.restore_snapshot());
  open_ = false;
  resumes_ = false; // a message of the group before, which may have been lost, is none of this one
  if (training_.epochs() != places.epochs())
    return gpuactors::fail(Errc::invalid_argument, fmt::format("this member is at the beginning of epoch {}, not {}",
                                                               training_.epochs(), places.epochs()));
  generation_ = places.generation();
  training_.join({places.rank(), members});
  GPUACTORS_TRY(make_sum(places));
  // What a member that joined sooner has sent already is taken; of earlier groups, nothing.
  for (const auto& piece : std::exchange(early_, {}))
    if (piece.generation() == generation_)
      GPUACTORS_TRY(sum_->take(piece));
  return status_of(*this, training_);
}

Result<void> MemberActor::make_sum(const Places& places) {
  auto& stream = gpu().stream();
  const auto& gradients = training_.trainer().gradient();
  const auto members = places.members_size();
  const auto rank = static_cast<int>(places.rank());
  const auto member = [&](int index) { return gpuactors::Cluster::from(*this).find(places.members(index)); };
  GPUACTORS_LET(self, member(rank));
  self_ = self;
  if (!places.nccl_id().empty()) {
    EpochRequest now;
    now.set_generation(generation_);
    NcclSum::Place place{places.nccl_id(), members, rank};
    // Of each layer five launches and three events; gradients and parameters besides.
    place.operations = 8 * static_cast<std::uint64_t>(plan_.sizes_size()) + 2;
    GPUACTORS_LET(sum, NcclSum::join(stream, gradients, place, [self, now] {
                    static_cast<void>(self.call("wake", now, gpuactors::Duration::max()));
                  }));
    sum_ = std::move(sum);
    return {};
  }
  if (members > 1) {
    GPUACTORS_LET(neighbour, member((rank + 1) % members));
    next_ = neighbour;
  }
  const auto count = static_cast<std::size_t>(members);
  const auto place = static_cast<std::size_t>(rank);
  const auto pass_on = [this](Piece piece) { send(std::move(piece)); };
  if (gradients.dtype() == gpuactors::DType::f32)
    sum_ = std::make_unique<RingSum<float>>(stream, gradients, count, place, pass_on);
  else
    sum_ = std::make_unique<RingSum<double>>(stream, gradients, count, place, pass_on);
  return {};
}

Result<NcclId> MemberActor::nccl_id(const Empty&) {
  GPUACTORS_LET(made, make_nccl_id());
  NcclId id;
  id.set_id(made);
  return id;
}

gpuactors::Future<Progress> MemberActor::epoch(const EpochRequest& request) {
  using Answer = gpuactors::Future<Progress>;
  if (sum_ == nullptr || request.generation() != generation_)
    return Answer::ready_with(gpuactors::fail(
        Errc::invalid_argument, fmt::format("this member is in group {}, not {}", generation_, request.generation())));
  if (promise_ != nullptr)
    return Answer::ready_with(gpuactors::fail(Errc::invalid_argument, "an epoch is under way already"));
  promise_ = std::make_shared<EpochPromise>();
  auto answer = promise_->future();
  if (const auto remembered = training_.take_snapshot(); !remembered)
    give_up(remembered.error());
  else
    static_cast<void>(go_on_or_give_up());
  return answer;
}

Result<void> MemberActor::pass(const Piece& piece) {
  if (piece.generation() < generation_)
    return {}; // of a group that is no more
  if (piece.generation() > generation_ || sum_ == nullptr) {
    early_.push_back(piece);
    return {};
  }
  GPUACTORS_TRY(sum_->take(piece));
  return go_on_or_give_up();
}

Result<void> MemberActor::wake(const EpochRequest& request) {
  return request.generation() == generation_ ? go_on_or_give_up() : Result<void>{};
}

Result<void> MemberActor::resume(const EpochRequest& request) {
  if (request.generation() == generation_)
    resumes_ = false;
  return wake(request);
}

Result<void> MemberActor::leave(const Empty&) {
  give_up({Errc::cancelled, "the epoch was given up"});
  return {};
}

void MemberActor::give_up(const gpuactors::Error& error) {
  // First the sum: nothing ends behind one that waits for the dead.
  if (promise_ != nullptr && sum_ != nullptr)
    sum_->abandon();
  if (const auto promise = std::move(promise_))
    promise->set(gpuactors::fail(error));
  promise_.reset();
}

// -- steps ---------------------------------------------------------------------------------------

Result<void> MemberActor::go_on_or_give_up() {
  if (promise_ == nullptr)
    return {};
  auto going = go_on();
  if (!going)
    give_up(going.error());
  return going;
}

void MemberActor::take_turns() {
  // One message at a time, however often something else wakes it in between.
  if (std::exchange(resumes_, true))
    return;
  EpochRequest later;
  later.set_generation(generation_);
  self_.call("resume", later, gpuactors::Duration::max()).then(fails_epoch());
}

Result<void> MemberActor::go_on() {
  const auto until = gpuactors::Clock::now() + longest_turn;
  for (;;) {
    // One that is alone never waits for others: whoever tells it to leave is served between two turns.
    if (gpuactors::Clock::now() > until) {
      take_turns();
      return {};
    }
    const bool over = !open_ && training_.position() == training_.steps_per_epoch();
    GPUACTORS_LET(ready, over ? sum_->settled() : sum_->ready());
    if (!ready)
      return {};
    if (over)
      return finish_epoch();
    if (open_) {
      GPUACTORS_TRY(training_.update());
    } else {
      GPUACTORS_TRY(training_.compute_gradient());
      GPUACTORS_TRY(sum_->begin(training_.steps()));
    }
    open_ = !open_;
  }
}

void MemberActor::send(Piece piece) {
  piece.set_generation(generation_);
  // Without a deadline: the death of the neighbour is an answer as well. It fails the epoch, from another thread.
  next_.call("pass", std::move(piece), gpuactors::Duration::max()).then(fails_epoch());
}

std::function<void(const Result<Empty>&)> MemberActor::fails_epoch() const {
  return [promise = std::weak_ptr{promise_}](const Result<Empty>& answer) {
    if (const auto waiting = answer ? nullptr : promise.lock())
      waiting->set(gpuactors::fail(answer.error()));
  };
}

Result<void> MemberActor::finish_epoch() {
  GPUACTORS_LET(report, training_.report());
  metrics_.note(report);
  Progress progress;
  progress.set_epochs(report.epochs);
  progress.set_steps(report.steps);
  progress.mutable_losses()->Add(report.losses.begin(), report.losses.end());
  progress.set_rows(report.rows);
  if (const auto promise = std::move(promise_))
    promise->set(std::move(progress));
  promise_.reset();
  return {};
}

// -- as trainers ---------------------------------------------------------------------------------

Result<Evaluation> MemberActor::evaluate(const Empty&) {
  GPUACTORS_LET(quality, training_.evaluate());
  return to_message(quality);
}

Result<Status> MemberActor::save_to(const Path& path) {
  GPUACTORS_TRY(training_.save(path.path(), path.has_loss() ? std::optional{path.loss()} : std::nullopt));
  return status_of(*this, training_);
}

Result<Status> MemberActor::status(const Empty&) {
  auto status = status_of(*this, training_);
  // Loads it: only where it may be used.
  if (plan_.nccl() && gpu().device().kind == gpuactors::DeviceKind::cuda)
    status.set_nccl_version(nccl_version());
  return status;
}

} // namespace train
