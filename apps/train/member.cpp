#include "member.hpp"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>

namespace train {

using google::protobuf::Empty;
using gpuactors::Errc;
using gpuactors::Result;

namespace {

/// Bytes of one piece: large enough that messages cost little, small enough that the whole ring has some to work on.
constexpr std::size_t piece_bytes = std::size_t{256} << 10;

GPUACTORS_ACTOR("train_member", MemberActor, Plan)
    .method("join", &MemberActor::join)
    .method("epoch", &MemberActor::epoch)
    .method("pass", &MemberActor::pass)
    .method("leave", &MemberActor::leave)
    .method("evaluate", &MemberActor::evaluate)
    .method("save", &MemberActor::save_to)
    .method("status", &MemberActor::status);

} // namespace

MemberActor::MemberActor(gpuactors::Init init, const Plan& plan)
  : Actor(std::move(init)), plan_(plan), course_(make_course(*this, plan)) {
  if (!course_)
    throw std::runtime_error(gpuactors::to_string(course_.error()));
  if (plan.resume()) {
    if (const auto loaded = course_->load(plan.checkpoint()); !loaded)
      throw std::runtime_error(gpuactors::to_string(loaded.error()));
    if (course_->position() != 0)
      throw std::runtime_error(plan.checkpoint() + " is of the middle of an epoch; one worker can go on with it");
  }
}

// -- the ring ------------------------------------------------------------------------------------

Result<Status> MemberActor::join(const RingPlaces& places) {
  const auto members = static_cast<std::int64_t>(places.members_size());
  if (places.rank() < 0 || places.rank() >= members || places.generation() <= generation_)
    return gpuactors::fail(Errc::invalid_argument,
                           fmt::format("rank {} of {} and generation {} after {} make no ring", places.rank(), members,
                                       places.generation(), generation_));
  give_up({Errc::cancelled, "the ring is made anew"});
  if (course_->epochs() != places.epochs() || course_->position() != 0 || open_)
    GPUACTORS_TRY(course_->go_back());
  open_ = false;
  if (course_->epochs() != places.epochs())
    return gpuactors::fail(Errc::invalid_argument, fmt::format("this member is at the beginning of epoch {}, not {}",
                                                               course_->epochs(), places.epochs()));
  generation_ = places.generation();
  const auto next = static_cast<int>((places.rank() + 1) % members);
  if (members > 1) {
    GPUACTORS_LET(neighbour, gpuactors::Cluster::from(*this).find(places.members(next)));
    next_ = neighbour;
  }
  course_->join({places.rank(), members});
  const auto& gradient = course_->trainer().gradient();
  const auto elements = static_cast<std::size_t>(gradient.size());
  ring_.emplace(static_cast<std::size_t>(members), static_cast<std::size_t>(places.rank()), elements,
                piece_bytes / gpuactors::size_of(gradient.dtype()));
  narrow_.resize(gradient.dtype() == gpuactors::DType::f32 ? elements : 0);
  wide_.resize(gradient.dtype() == gpuactors::DType::f64 ? elements : 0);
  // What a member that joined sooner has sent already is kept; of earlier rings, nothing.
  std::erase_if(early_, [&](const Piece& piece) { return piece.generation() != generation_; });
  return status_of(*this, *course_);
}

gpuactors::Future<Progress> MemberActor::epoch(const EpochRequest& request) {
  using Answer = gpuactors::Future<Progress>;
  if (!ring_ || request.generation() != generation_)
    return Answer::ready_with(gpuactors::fail(
        Errc::invalid_argument, fmt::format("this member is in ring {}, not {}", generation_, request.generation())));
  if (promise_ != nullptr)
    return Answer::ready_with(gpuactors::fail(Errc::invalid_argument, "an epoch is under way already"));
  promise_ = std::make_shared<EpochPromise>();
  auto answer = promise_->future();
  auto going = course_->remember();
  if (going)
    going = go_on();
  if (!going)
    give_up(going.error());
  return answer;
}

Result<void> MemberActor::pass(const Piece& piece) {
  if (piece.generation() < generation_)
    return {}; // of a ring that is no more
  early_.push_back(piece);
  if (promise_ == nullptr)
    return {};
  auto going = go_on();
  if (!going)
    give_up(going.error());
  return going;
}

Result<void> MemberActor::leave(const Empty&) {
  give_up({Errc::cancelled, "the epoch was given up"});
  return {};
}

void MemberActor::give_up(const gpuactors::Error& error) {
  if (const auto promise = std::move(promise_))
    promise->set(gpuactors::fail(error));
  promise_.reset();
}

// -- steps ---------------------------------------------------------------------------------------

Result<void> MemberActor::go_on() {
  return wide_.empty() ? go_on_as<float>() : go_on_as<double>();
}

template <class T>
Result<void> MemberActor::go_on_as() {
  std::vector<T>* own = nullptr;
  if constexpr (std::is_same_v<T, float>)
    own = &narrow_;
  else
    own = &wide_;
  auto& gradient = course_->trainer().gradient();
  auto& stream = gpu().stream();
  for (;;) {
    if (!open_) {
      if (course_->position() == course_->steps_per_epoch())
        return finish_epoch();
      GPUACTORS_TRY(open_step(*own));
    }
    GPUACTORS_TRY(take_early(*own));
    if (!ring_->done())
      return {};
    GPUACTORS_TRY(stream.upload(gradient.raw(), own->data(), gradient.bytes()));
    GPUACTORS_TRY(course_->update());
    open_ = false;
  }
}

template <class T>
Result<void> MemberActor::open_step(std::vector<T>& own) {
  auto& stream = gpu().stream();
  const auto& gradient = course_->trainer().gradient();
  GPUACTORS_TRY(course_->find_gradient());
  GPUACTORS_TRY(stream.download(own.data(), gradient.raw(), gradient.bytes()));
  GPUACTORS_TRY(stream.synchronize());
  open_ = true;
  for (const auto& piece : ring_->begin())
    send(piece, own.data() + piece.offset, piece.count * sizeof(T));
  return {};
}

template <class T>
Result<void> MemberActor::take_early(std::vector<T>& own) {
  std::vector<T> values;
  for (std::size_t i = 0; i < early_.size() && !ring_->done();) {
    const auto& piece = early_[i];
    if (piece.generation() != generation_ || piece.step() != course_->steps()) {
      // Of the next ring, or the next step; of one that is over nothing can come.
      if (piece.generation() == generation_ && piece.step() != course_->steps() + 1)
        return gpuactors::fail(Errc::internal,
                               fmt::format("a piece of step {} came to step {}", piece.step(), course_->steps()));
      ++i;
      continue;
    }
    values.resize(piece.values().size() / sizeof(T));
    std::memcpy(values.data(), piece.values().data(), values.size() * sizeof(T));
    bool known = false;
    const auto onward =
        ring_->take<T>({piece.round(), static_cast<std::size_t>(piece.offset()), values.size()}, values, own, known);
    if (!known)
      return gpuactors::fail(Errc::invalid_argument,
                             fmt::format("a piece of {} B at {} in round {} is none of this ring",
                                         piece.values().size(), piece.offset(), piece.round()));
    early_.erase(early_.begin() + static_cast<std::ptrdiff_t>(i));
    if (onward)
      send(*onward, own.data() + onward->offset, onward->count * sizeof(T));
  }
  return {};
}

void MemberActor::send(const PieceSpan& piece, const void* values, std::size_t bytes) {
  Piece message;
  message.set_generation(generation_);
  message.set_step(course_->steps());
  message.set_round(piece.round);
  message.set_offset(piece.offset);
  message.set_values(values, bytes);
  // Without a deadline: the death of the neighbour is an answer as well. It fails the epoch, from another thread.
  next_.call("pass", std::move(message), gpuactors::Duration::max())
      .then([promise = std::weak_ptr{promise_}](const Result<Empty>& passed) {
        if (const auto waiting = passed ? nullptr : promise.lock())
          waiting->set(gpuactors::fail(passed.error()));
      });
}

Result<void> MemberActor::finish_epoch() {
  GPUACTORS_LET(stretch, course_->report());
  Progress progress;
  progress.set_epochs(stretch.epochs);
  progress.set_steps(stretch.steps);
  progress.mutable_losses()->Add(stretch.losses.begin(), stretch.losses.end());
  progress.set_rows(stretch.rows);
  if (const auto promise = std::move(promise_))
    promise->set(std::move(progress));
  promise_.reset();
  return {};
}

// -- as trainers ---------------------------------------------------------------------------------

Result<Evaluation> MemberActor::evaluate(const Empty&) {
  GPUACTORS_LET(quality, course_->evaluate());
  return to_message(quality);
}

Result<Status> MemberActor::save_to(const Path& path) {
  GPUACTORS_TRY(course_->save(path.path()));
  return status_of(*this, *course_);
}

Result<Status> MemberActor::status(const Empty&) {
  return status_of(*this, *course_);
}

} // namespace train
