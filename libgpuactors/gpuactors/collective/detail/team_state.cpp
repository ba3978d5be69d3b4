// TeamState: one attempt after the other, until one succeeds.
#include <gpuactors/base/callback_thread.hpp>
#include <gpuactors/collective/detail/team_state.hpp>

#include <fmt/format.h>

#include <exception>
#include <string_view>
#include <system_error>
#include <utility>

namespace gpuactors::detail {

namespace {

Failure stopped_team() {
  return gpuactors::fail(Errc::cancelled, "the team was stopped");
}

/// Waits for a thread whose work is over. Whoever was told so by it may be on it.
void await_thread(std::thread thread) {
  if (thread.get_id() == std::this_thread::get_id())
    thread.detach();
  else if (thread.joinable())
    thread.join();
}

} // namespace

TeamState::TeamState(Cluster& cluster, std::string type, std::vector<PayloadMember> members, TeamOptions options)
  : options_(options), members_(cluster, std::move(type), std::move(members), std::move(options), bell_) {
  // nop
}

// -- begin and end --------------------------------------------------------------------------------

Result<std::uint64_t> TeamState::begin() {
  std::thread over;
  std::uint64_t work = 0;
  {
    const std::lock_guard lock{mutex_};
    if (works_)
      return gpuactors::fail(Errc::invalid_argument,
                             "the team works already, on one piece of work at a time: await its "
                             "end, or stop it");
    works_ = true;
    work = ++work_;
    // Here: whoever stops the team from now on means this work.
    bell_->forget_stop();
    over.swap(thread_);
  }
  await_thread(std::move(over));
  return work;
}

void TeamState::stop(std::uint64_t work) {
  const std::lock_guard lock{mutex_};
  if (works_ && work == work_)
    bell_->stop();
}

void TeamState::finish() {
  const std::lock_guard lock{mutex_};
  works_ = false;
  idle_.notify_all();
}

void TeamState::close() {
  stop();
  std::thread over;
  {
    std::unique_lock lock{mutex_};
    idle_.wait(lock, [this] { return !works_; });
    over.swap(thread_);
  }
  await_thread(std::move(over));
}

Result<std::vector<Payload>> TeamState::run(const TeamWork& work) {
  // The members' reports come by callbacks; in one process with them, so do the pieces of their collectives.
  if (is_callback_thread())
    return gpuactors::fail(
        Errc::invalid_argument,
        "Team::run was called in a callback, and would wait for ever, as its members need callbacks: "
        "call Team::run_async there");
  GPUACTORS_TRY(begin());
  auto result = work_through(work);
  finish();
  return result;
}

Future<std::vector<Payload>> TeamState::run_async(TeamWork work) {
  using Reports = std::vector<Payload>;
  const auto begun = begin();
  if (!begun)
    return Future<Reports>::ready_with(gpuactors::fail(begun.error()));
  Promise<Reports> promise;
  auto future = promise.future();
  promise.on_cancel([weak = weak_from_this(), number = *begun] {
    if (const auto self = weak.lock())
      self->stop(number);
  });
  auto working = [this, promise = std::move(promise), work = std::move(work)]() mutable {
    auto result = work_through(work);
    work = {};
    finish();
    // Nothing of this object after that: whoever waited may end it.
    promise.set(std::move(result));
  };
  try {
    const std::lock_guard lock{mutex_};
    thread_ = std::thread{std::move(working)};
  } catch (const std::system_error& error) {
    finish();
    return Future<Reports>::ready_with(
        gpuactors::fail(Errc::unavailable, fmt::format("there is no thread for the team: {}", error.what())));
  }
  return future;
}

Result<std::vector<Payload>> TeamState::work_through(const TeamWork& work) {
  const auto thrown = [](std::string_view what) {
    return gpuactors::fail(Errc::task_failed, fmt::format("a function given to a team threw an exception: {}", what));
  };
  try {
    return attempt_all(work);
  } catch (const FailedResult& failed) {
    return gpuactors::fail(failed.error());
  } catch (const std::exception& exception) {
    return thrown(exception.what());
  } catch (...) {
    return thrown("of no standard type");
  }
}

// -- attempts -------------------------------------------------------------------------------------

Result<std::vector<Payload>> TeamState::attempt_all(const TeamWork& work) {
  GPUACTORS_TRY(members_.reserve());
  // Members of earlier work may have died since. A stop ends the question, not those who were asked.
  const auto known = members_.ask();
  if (bell_->stopped())
    return stopped_team();
  members_.end(TeamCore::lost(known));
  TeamCore core{members_.size(), options_};
  for (;;) {
    GPUACTORS_LET(failed, attempt(core, work));
    if (!failed)
      return core.last();
    if (bell_->stopped())
      return stopped_team();
    if (members_.closed())
      return gpuactors::fail(Errc::unavailable, "the cluster of the team was closed");
    auto again = core.fail(*failed, Clock::now());
    if (!again) {
      members_.end(TeamCore::lost(failed->ends));
      return gpuactors::fail(again.error());
    }
    if (work.call.on_failure) {
      TeamFailure failure{again->error, {}, core.attempt(), again->pause};
      for (std::size_t rank = 0; rank < again->replaced.size(); ++rank)
        if (again->replaced[rank])
          failure.replaced.push_back(rank);
      work.call.on_failure(failure);
    }
    members_.end(again->replaced);
    pause(again->pause);
    if (bell_->stopped())
      return stopped_team();
  }
}

Result<std::optional<FailedAttempt>> TeamState::attempt(TeamCore& core, const TeamWork& work) {
  auto started = members_.start();
  for (const auto& end : started)
    if (end.error)
      return FailedAttempt{TeamStage::start, std::move(started), std::nullopt};
  if (bell_->stopped())
    return stopped_team();
  if (const auto joined = members_.join(); !joined)
    return FailedAttempt{TeamStage::join, members_.ask(), joined.error()};
  if (bell_->stopped())
    return stopped_team();
  GPUACTORS_LET(readers, begin_calls(core, work));
  read_all(core, readers, work);
  if (core.over() && !core.broken())
    return std::optional<FailedAttempt>{};
  if (bell_->stopped())
    return stopped_team();
  return FailedAttempt{TeamStage::work, look(core), std::nullopt};
}

Result<TeamState::Readers> TeamState::begin_calls(TeamCore& core, const TeamWork& work) const {
  // All requests before the first call: none of them may fail after it.
  std::vector<Payload> requests;
  for (std::size_t rank = 0; rank < members_.size(); ++rank) {
    GPUACTORS_LET(request, work.request({rank, members_.size(), core.attempt(), core.common()}));
    requests.push_back(std::move(request));
  }
  const auto members = members_.refs();
  Readers readers;
  core.begin(Clock::now());
  for (std::size_t rank = 0; rank < members.size(); ++rank)
    readers.push_back(members[rank].stream_payload(work.method, std::move(requests[rank]), work.call.deadline));
  return readers;
}

void TeamState::read_all(TeamCore& core, Readers& readers, const TeamWork& work) {
  auto until = never;
  for (bool withdrawn = false;;) {
    for (std::size_t rank = 0; rank < readers.size(); ++rank)
      if (!core.has_ended(rank))
        read(core, readers[rank], rank, work);
    if (core.over() || Clock::now() >= until)
      return;
    if (bell_->stopped() && !withdrawn) {
      withdrawn = true;
      members_.part("the team was stopped");
      for (auto& reader : readers)
        reader.cancel();
      continue;
    }
    // Who has failed by itself may have left the others in an operation.
    if (core.broken() && until == never) {
      members_.part("the work has failed at another member");
      until = deadline_after(Clock::now(), options_.answer_within);
    }
    bell_->wait(until, !withdrawn);
  }
}

void TeamState::read(TeamCore& core, StreamReader<Payload>& reader, std::size_t rank, const TeamWork& work) const {
  // One that reports as fast as it is read must not keep the others, or a stop, from being seen.
  constexpr int most_in_a_row = 64;
  for (int count = 0; count < most_in_a_row && reader.ready(); ++count) {
    auto item = reader.next(Duration::zero());
    if (!item || !*item)
      return core.end(rank, item ? Result<void>{} : gpuactors::fail(item.error()));
    if (core.report(rank, std::move(**item)) && work.call.on_reports)
      work.call.on_reports(core.common());
  }
  reader.when_ready([bell = bell_] { bell->ring(); });
}

std::vector<MemberEnd> TeamState::look(const TeamCore& core) const {
  auto ends = members_.ask();
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    auto& end = ends[rank];
    const auto own = core.error_of(rank);
    // One that was asked to stop before it ended says nothing of its end by itself.
    if (end.answers || (own && is_loss(own->code())))
      end.error = own;
    if (core.has_ended(rank))
      continue;
    end.answers = false;
    end.error = Error{Errc::unavailable, fmt::format("its call had not ended {} s after another one had failed",
                                                     to_seconds(options_.answer_within))};
  }
  return ends;
}

void TeamState::pause(Duration length) const {
  const auto until = deadline_after(Clock::now(), length);
  while (Clock::now() < until && !bell_->stopped())
    bell_->wait(until, true);
}

} // namespace gpuactors::detail
