// A dispatcher without a replica that serves: who waits for one, who does not, and what is said of that.
#include "counting.hpp"
#include "dispatcher.hpp"

#include <apps/serve/cut_text.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

namespace serve {

using gpuactors::Clock;
using gpuactors::Duration;
using gpuactors::Errc;
using gpuactors::Error;
using gpuactors::TimePoint;

// -- told by the keeper of the replicas -----------------------------------------------------------

void Dispatcher::note_start(TimePoint began) {
  const std::lock_guard lock{mutex_};
  absence_.start_began(began);
}

void Dispatcher::note_start_over(TimePoint began) {
  Actions actions;
  {
    const std::lock_guard lock{mutex_};
    absence_.start_over(began);
    // It may have been what those waited for whose patience is over.
    pump(Clock::now(), actions);
    wake_timer();
  }
  act(std::move(actions));
}

void Dispatcher::note_failed_start(const Error& why) {
  Actions actions;
  {
    const std::lock_guard lock{mutex_};
    ++failed_starts_;
    if (has_serving())
      return;
    const auto now = Clock::now();
    // An actor's constructor may say as much as it likes.
    absence_.start_failed(now, cut_text(to_string(why), longest_sentence));
    pump(now, actions);
    wake_timer();
  }
  act(std::move(actions));
}

void Dispatcher::refuse_new(std::string why) {
  Actions actions;
  {
    const std::lock_guard lock{mutex_};
    absence_.close(std::move(why));
    pump(Clock::now(), actions);
    wake_timer();
  }
  act(std::move(actions));
}

void Dispatcher::open() {
  const std::lock_guard lock{mutex_};
  absence_.open();
}

// -- asked by those who want to know --------------------------------------------------------------

bool Dispatcher::serves() const {
  const std::lock_guard lock{mutex_};
  return !absence_.is_closed() && has_serving();
}

std::string Dispatcher::why_not() const {
  const std::lock_guard lock{mutex_};
  return !absence_.is_closed() && has_serving() ? std::string{} : fmt::format("it {}", absence_.reason());
}

// -- with the lock --------------------------------------------------------------------------------

bool Dispatcher::has_serving() const {
  return std::any_of(replicas_.begin(), replicas_.end(), [](const auto& item) { return !item.second.leaving; });
}

void Dispatcher::note_gone(const std::string& why) {
  if (!has_serving())
    absence_.begin(cut_text(why, longest_sentence));
}

bool Dispatcher::is_hopeless(TimePoint now) {
  return !has_serving() && absence_.is_hopeless(now);
}

bool Dispatcher::is_refused(const Pending& pending, TimePoint now) {
  // What builds on state goes to the replica that has it, also while that leaves.
  return (absence_.is_closed() || is_hopeless(now)) && (pending.starts || !has_state(pending.request.sequence.id, now));
}

Error Dispatcher::cannot_serve() const {
  return {Errc::unavailable, fmt::format("{} {}", options_.facts.title, absence_.reason())};
}

void Dispatcher::give_up_waiting(TimePoint now, Actions& actions) {
  const auto stays = [this](const batching::Request& request) {
    return request.sequence != nullptr && options_.sequences.memory == batching::Memory::state
           && replicas_.contains(request.sequence->replica);
  };
  for (const auto& request : queue_.take_waiting(stays))
    fail(request, cannot_serve(), reason::backend, now, actions);
  note_drained();
}

Error Dispatcher::overdue(const batching::Request& request, TimePoint now) const {
  const auto& title = options_.facts.title;
  if (request.deadline <= now)
    return {Errc::deadline_exceeded, fmt::format("{} did not answer within the timeout of {}{}", title,
                                                 batching::in_milliseconds(request.deadline - request.arrived),
                                                 has_serving() ? "" : fmt::format(": it {}", absence_.reason()))};
  if (!has_serving())
    return cannot_serve();
  // Nothing of it has run: whoever asks again later does no work twice.
  return {Errc::queue_full, fmt::format("{} had no room for it within {}: ask again later", title,
                                        batching::in_milliseconds(request.begin_by - request.arrived))};
}

} // namespace serve
