#include <gpuactors/collective/collective.hpp>
#include <gpuactors/collective/detail/member.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

namespace gpuactors::detail {

namespace {

/// Bytes of one piece: large enough that messages cost little, small enough that the whole ring has some to work on.
constexpr std::size_t piece_bytes = std::size_t{256} << 10;

/// Pieces that a member sends before the next one has used any. It bounds what waits there for its turn.
constexpr std::size_t most_on_their_way = 16;

/// Of `max_pending_calls`: pieces, the one call that is open until the end, and some of others.
constexpr std::size_t least_pending_calls = most_on_their_way + 4;

/// How often an operation looks whether it should stop.
constexpr std::chrono::milliseconds attention_span{10};

Member::Answer to_answer(const Error& error) {
  Member::Answer answer;
  answer.set_code(static_cast<std::uint32_t>(error.code()));
  answer.set_text(error.message());
  return answer;
}

Error to_error(const Member::Answer& answer) {
  return {errc_from_number(answer.code()), answer.text()};
}

/// The answer to whoever asks about a group that this member is not in.
Member::Answer not_in_group() {
  auto answer = to_answer({Errc::stale_epoch, "the member is not in this group"});
  answer.set_elsewhere(true);
  return answer;
}

/// What a member's error is for the others: their own devices and leases stand, and their calls need no other actor.
Errc code_for_others(Errc code) {
  return is_loss(code) || code == Errc::stale_epoch ? Errc::unavailable : code;
}

Future<Member::Answer> at_once(Member::Answer answer) {
  return Future<Member::Answer>::ready_with(std::move(answer));
}

} // namespace

std::string name_of(const v1::ActorHandle& member) {
  return member.name().empty() ? fmt::format("{} #{}", member.type(), member.id()) : member.name();
}

std::string Member::who(std::size_t rank) const {
  return fmt::format("rank {} of {} ({})", rank, place_.size(), place_.names[rank]);
}

std::string Member::self() const {
  return who(place_.rank);
}

std::size_t Member::before() const {
  return (place_.rank + place_.size() - 1) % place_.size();
}

std::size_t Member::after() const {
  return (place_.rank + 1) % place_.size();
}

// -- the group ------------------------------------------------------------------------------------

Place Member::place() const {
  const std::lock_guard lock{mutex_};
  return place_;
}

std::optional<Error> Member::ended() const {
  const std::lock_guard lock{mutex_};
  return own_end_;
}

void Member::forget_group(const Error& error) {
  // What is done was done in time, whether its thread has seen it or not.
  if (running_ && !running_->done())
    running_.reset();
  for (auto& early : std::exchange(early_, {}))
    early.used.set(to_answer(error));
  for (auto& watcher : std::exchange(watchers_, {}))
    watcher.set(to_answer(error));
  changed_.notify_all();
}

void Member::break_off(const Error& error, std::optional<Error> own) {
  if (over_)
    return;
  over_ = error;
  own_end_ = own ? std::move(own) : error;
  forget_group(error);
}

void Member::join(Place place, ActorRef next) {
  const std::lock_guard lock{mutex_};
  if (place_.generation != 0)
    forget_group({Errc::cancelled, fmt::format("{} was put into another group", self())});
  place_ = std::move(place);
  next_ = std::move(next);
  started_ = false;
  over_.reset();
  own_end_.reset();
  number_ = 0;
  on_their_way_ = 0;
}

Result<void> Member::start(std::uint64_t generation) {
  ActorRef next;
  {
    const std::lock_guard lock{mutex_};
    if (generation != place_.generation)
      return fail(Errc::stale_epoch, "this member was put into another group meanwhile");
    if (std::exchange(started_, true))
      return {};
    changed_.notify_all();
    if (place_.size() == 1)
      return {};
    next = next_;
  }
  v1::CollectiveCall call;
  call.set_generation(generation);
  call.set_watch(true);
  send(next, std::move(call));
  return {};
}

Future<Member::Answer> Member::watch(std::uint64_t generation) {
  const std::lock_guard lock{mutex_};
  if (generation != place_.generation)
    return at_once(not_in_group());
  if (over_)
    return at_once(to_answer(*over_));
  return watchers_.emplace_back().future();
}

void Member::abort(std::uint64_t generation, const Error& error) {
  const std::lock_guard lock{mutex_};
  if (place_.generation != 0 && (generation == 0 || generation == place_.generation))
    break_off(error);
}

// -- pieces ---------------------------------------------------------------------------------------

Future<Member::Answer> Member::take(std::uint64_t generation, const v1::CollectivePiece& piece) {
  Lock lock{mutex_};
  if (generation != place_.generation)
    return at_once(not_in_group());
  if (over_)
    return at_once(to_answer(*over_));
  Result<void> used;
  try {
    if (piece.number() > number_) {
      used = check_early(piece);
      if (used)
        return early_.emplace_back(Early{piece, {}}).used.future();
    } else if (running_ && number_ != 0 && piece.number() == number_) {
      used = use(piece);
    } else {
      used = fail(Errc::internal, fmt::format("a piece of operation {} came to {}, which is at operation {}",
                                              piece.number(), self(), number_));
    }
  } catch (const std::bad_alloc&) {
    used =
        fail(Errc::out_of_memory, fmt::format("{} has no memory for a piece of {} B", self(), piece.values().size()));
  }
  if (!used) {
    break_off(used.error());
    return at_once(to_answer(*over_));
  }
  if (running_->done())
    changed_.notify_all();
  pump(lock);
  return at_once({});
}

Result<void> Member::check_early(const v1::CollectivePiece& piece) const {
  if (early_.size() >= 2 * most_on_their_way)
    return fail(Errc::internal, fmt::format("{} pieces came to {} before their turn, and {} are allowed",
                                            early_.size() + 1, self(), 2 * most_on_their_way));
  // Each operation has a piece at least, and the member before waits for the answers of the earlier ones.
  const auto last = number_ + most_on_their_way;
  const auto first = early_.empty() ? number_ + 1 : early_.back().piece.number();
  if (piece.values().size() > piece_bytes || piece.number() < first || piece.number() > last)
    return fail(Errc::internal,
                fmt::format("a piece of {} B of operation {} came to {} before its turn; {} B at most, of operations "
                            "{} to {}, may come now",
                            piece.values().size(), piece.number(), self(), piece_bytes, first, last));
  return {};
}

Result<void> Member::use(const v1::CollectivePiece& piece) {
  auto& running = *running_;
  GPUACTORS_LET(operation, from_message(piece.operation()));
  if (operation != running.operation)
    return fail(
        Errc::invalid_argument,
        fmt::format("the members called different operations: {} {}, {} {}; operation {} of a group must be the "
                    "same at all of its members",
                    who(before()), to_string(operation), self(), to_string(running.operation), number_));
  running.met = true;
  if (piece.count() == 0)
    return {};
  const PieceSpan span{piece.round(), static_cast<std::size_t>(piece.offset()),
                       static_cast<std::size_t>(piece.count())};
  const auto element = size_of(operation.dtype);
  const auto taken = piece.values().size() == span.count * element ? running.ring.take(span) : std::nullopt;
  if (!taken)
    return fail(Errc::internal,
                fmt::format("{} B for {} elements at {} in round {} are no piece of {}, and came to {}",
                            piece.values().size(), span.count, span.offset, span.round, to_string(operation), self()));
  auto* own = running.values.data() + span.offset * element;
  if (taken->combines)
    combine(operation.reduction, operation.dtype, piece.values().data(), own, span.count);
  else
    std::memcpy(own, piece.values().data(), piece.values().size());
  if (taken->onward)
    running.outgoing.push_back(*taken->onward);
  return {};
}

std::optional<v1::CollectiveCall> Member::next_call() {
  if (!running_ || on_their_way_ >= most_on_their_way)
    return std::nullopt;
  auto& running = *running_;
  PieceSpan span;
  if (!std::exchange(running.announces, false)) {
    if (running.outgoing.empty())
      return std::nullopt;
    span = running.outgoing.front();
    running.outgoing.pop_front();
  }
  ++on_their_way_;
  const auto element = size_of(running.operation.dtype);
  v1::CollectiveCall call;
  call.set_generation(place_.generation);
  auto& piece = *call.mutable_piece();
  piece.set_number(number_);
  *piece.mutable_operation() = to_message(running.operation);
  piece.set_round(span.round);
  piece.set_offset(span.offset);
  piece.set_count(span.count);
  piece.set_values(running.values.data() + span.offset * element, span.count * element);
  return call;
}

void Member::pump(Lock& lock) {
  // One thread after the other, so that pieces stay in order.
  if (pumping_)
    return;
  pumping_ = true;
  auto generation = place_.generation;
  try {
    while (auto call = next_call()) {
      const auto next = next_;
      generation = call->generation();
      lock.unlock();
      send(next, std::move(*call));
      lock.lock();
    }
  } catch (const std::exception& exception) {
    if (!lock.owns_lock())
      lock.lock();
    if (place_.generation == generation)
      break_off(
          {Errc::out_of_memory, fmt::format("{} could not send to the next member: {}", self(), exception.what())});
  }
  pumping_ = false;
  if (running_ && running_->done())
    changed_.notify_all();
}

void Member::send(const ActorRef& next, v1::CollectiveCall call) {
  const auto generation = call.generation();
  const bool is_piece = call.has_piece();
  // Without a deadline: the death of the neighbour is an answer as well.
  next.call(collective_method, std::move(call), Duration::max())
      .then([weak = weak_from_this(), generation, is_piece](const Result<Answer>& answer) {
        if (const auto self = weak.lock())
          self->answered(generation, is_piece, answer);
      });
}

void Member::answered(std::uint64_t generation, bool was_piece, const Result<Answer>& answer) {
  Lock lock{mutex_};
  if (generation != place_.generation || over_)
    return;
  if (!answer && answer.error().code() == Errc::queue_full)
    return break_off({Errc::unavailable, fmt::format("{} takes no more calls: {}; members of groups allow {} or more",
                                                     who(after()), answer.error().message(), least_pending_calls)});
  if (!answer)
    return break_off({Errc::unavailable, fmt::format("{} is gone: {}", who(after()), answer.error().message())});
  if (answer->elsewhere())
    return break_off({Errc::unavailable, fmt::format("{} has left this group: it was started anew, or put into another "
                                                     "group; form the group anew",
                                                     who(after()))});
  if (answer->code() != 0)
    return break_off(to_error(*answer));
  if (was_piece) {
    --on_their_way_;
    pump(lock);
  }
}

// -- operations -----------------------------------------------------------------------------------

Result<void> Member::look(const Patience& patience, const std::string& what) {
  // The stop first, as its reason may be the deadline: a caller takes its call back then.
  const bool stopped = patience.stop();
  const auto now = Clock::now();
  const bool is_in_group = number_ != 0 || !(stopped || now >= patience.call_deadline);
  if (now >= patience.deadline) {
    const Error late{Errc::deadline_exceeded,
                     fmt::format("{} came to the end of its time in {}: {}", self(), what, why_not_done())};
    if (is_in_group)
      break_off(late);
    return fail(late);
  }
  if (stopped) {
    const Error own{Errc::cancelled, fmt::format("this member, {}, was asked to stop during {}", self(), what)};
    if (is_in_group)
      break_off({Errc::unavailable, fmt::format("{} was asked to stop during {}", self(), what)}, own);
    return fail(own);
  }
  return {};
}

Result<void> Member::await(Lock& lock, std::uint64_t generation, const Patience& patience, const std::string& what,
                           const std::function<bool()>& done) {
  while (!done()) {
    if (place_.generation != generation)
      return fail(Errc::cancelled, fmt::format("the group was formed anew during {}", what));
    if (over_)
      return fail(*own_end_);
    GPUACTORS_TRY(look(patience, what));
    // Calls wait for an actor that is away until it is back, which may be never.
    if (place_.size() > 1 && next_.away()) {
      break_off({Errc::unavailable, fmt::format("{} is gone", who(after()))});
      continue;
    }
    changed_.wait_until(lock, std::min(patience.deadline, Clock::now() + attention_span));
  }
  return {};
}

std::string Member::why_not_done() const {
  if (!started_)
    return "not all members had joined";
  if (!running_)
    return "it had not begun";
  if (!running_->met)
    return fmt::format("{} had not begun", who(before()));
  if (!running_->ring.done())
    return fmt::format("{} pieces were to come from {}", running_->ring.missing(), who(before()));
  return fmt::format("{} had not taken all", who(after()));
}

Result<Place> Member::await_place(const Patience& patience) {
  Lock lock{mutex_};
  if (place_.generation == 0)
    return fail(Errc::invalid_argument,
                "this actor is in no group: its program forms one with form_collective, again after each restart");
  if (over_)
    return fail(*own_end_);
  const auto generation = place_.generation;
  if (number_ == 0 && place_.size() > 1)
    GPUACTORS_TRY(look(patience, "the first operation of its group"));
  GPUACTORS_TRY(await(lock, generation, patience, "the forming of the group",
                      [&] { return started_ && place_.generation == generation; }));
  return place_;
}

Result<void> Member::run(std::uint64_t generation, const Operation& operation, std::span<std::byte> values,
                         const Patience& patience) {
  Lock lock{mutex_};
  if (place_.generation != generation)
    return fail(Errc::cancelled, fmt::format("the group was formed anew before {}", to_string(operation)));
  if (over_)
    return fail(*own_end_);
  if (place_.size() == 1)
    return {};
  GPUACTORS_TRY(look(patience, to_string(operation)));
  ++number_;
  const Ring::Plan plan{course_of(operation.kind),
                        place_.size(),
                        place_.rank,
                        operation.elements,
                        piece_bytes / size_of(operation.dtype),
                        operation.root};
  running_.emplace(Running{operation, Ring{plan}, values, {}, false, false});
  // However this ends: the array is the caller's.
  struct End {
    std::optional<Running>& running;
    ~End() {
      running.reset();
    }
  } const end{running_};
  const auto first = running_->ring.begin();
  running_->outgoing.assign(first.begin(), first.end());
  running_->announces = first.empty();
  while (!early_.empty() && early_.front().piece.number() <= number_) {
    auto early = std::move(early_.front());
    early_.pop_front();
    if (const auto used = use(early.piece); !used) {
      early.used.set(to_answer(used.error()));
      break_off(used.error());
      return fail(used.error());
    }
    early.used.set(Answer{});
  }
  pump(lock);
  // Another group has none: only this thread begins one.
  return await(lock, generation, patience, to_string(operation), [&] { return running_ && running_->done(); });
}

Failure Member::refuse(std::uint64_t generation, std::string_view what, const Error& error) {
  const std::lock_guard lock{mutex_};
  if (place_.generation == generation)
    break_off({code_for_others(error.code()),
               fmt::format("{} could not take part in {}: {}", self(), what, error.message())});
  return fail(error);
}

} // namespace gpuactors::detail
