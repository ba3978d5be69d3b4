#include "session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

namespace train {

using namespace std::chrono_literals;
using gpuactors::Clock;
using gpuactors::Errc;
using gpuactors::Result;

namespace {

/// The pauses between two looks at a trainer that died.
constexpr auto look_again = 50ms;
/// Looks at an actor that is said to be gone: a restart that has just begun may say so. And looks that end with any
/// death: a minute of them. A question that waits for its answer is none, since the trainer may wait for its device.
constexpr int looks_at_the_gone = 20;
constexpr int looks_at_the_dead = 1'200;

/// Waits until a trainer that died is back, or somebody asks to stop: nothing is lost then that the dead one had not
/// lost.
Result<Status> await_return(const gpuactors::ActorRef& trainer, const Watcher& watcher, const Patience& patience) {
  int gone = 0;
  int dead = 0;
  for (;;) {
    auto asked = trainer.call<Status>("status", google::protobuf::Empty{}, patience.question);
    auto status = asked.get(attention);
    while (asked.valid() && !watcher.stop())
      status = asked.get(attention);
    const bool waits = !asked.valid() && !status && status.error().code() == Errc::deadline_exceeded;
    if (!asked.valid() && !waits && (status || !is_death(status.error().code())))
      return status;
    if (watcher.stop())
      return gpuactors::fail(stopped_while_away());
    if (waits)
      continue;
    gone += status.error().code() == Errc::actor_died ? 1 : 0;
    if (gone == looks_at_the_gone || ++dead == looks_at_the_dead)
      return status;
    std::this_thread::sleep_for(look_again);
  }
}

void note(Outcome& outcome, const Progress& progress) {
  const auto count = static_cast<std::uint64_t>(progress.losses_size());
  outcome.rows += progress.rows();
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto step = progress.steps() - count + i;
    if (step < outcome.first_step)
      continue;
    const auto at = static_cast<std::size_t>(step - outcome.first_step);
    if (outcome.losses.size() <= at)
      outcome.set_steps(at + 1);
    outcome.losses[at] = Outcome::told(progress.losses(static_cast<int>(i)));
  }
}

/// The reports that a trainer has made and its stream has not brought.
void note_untold(Outcome& outcome, const Status& status) {
  for (const auto& progress : status.untold())
    if (progress.steps() > outcome.first_step + outcome.losses.size())
      note(outcome, progress);
}

/// Reads what a run tells until its end: true when that is the end of the training.
Result<bool> read_events(const gpuactors::ActorRef& trainer, std::uint64_t epochs, const Watcher& watcher,
                         Outcome& outcome) {
  RunRequest request;
  request.set_epochs(epochs);
  auto events = trainer.stream<Progress>("run", request);
  if (outcome.stopped)
    events.cancel(); // asked for before a death
  for (;;) {
    auto progress = events.next(attention);
    if (!outcome.stopped && watcher.stop()) {
      outcome.stopped = true;
      events.cancel(); // it ends after the steps that are under way
    }
    if (!progress) {
      if (progress.error().code() == Errc::deadline_exceeded)
        continue;
      // Unless it was asked for here, the trainer is being moved from its node, or ended.
      const bool cancelled = progress.error().code() == Errc::cancelled;
      if (outcome.stopped && cancelled)
        return true;
      if (!cancelled && !is_death(progress.error().code()))
        return gpuactors::fail(progress.error());
      watcher.notice(fmt::format("the trainer died ({}); waiting for its restart", progress.error().message()));
      return false;
    }
    if (!*progress)
      return true;
    note(outcome, **progress);
    watcher.progress(**progress, outcome);
  }
}

/// Asks for what a training ends with, a last checkpoint included; false when the trainer died over it, or is back from
/// a death after its last step with less than it had learnt.
Result<bool> finish(const gpuactors::ActorRef& trainer, std::uint64_t epochs, const Watcher& watcher,
                    Outcome& outcome) {
  const google::protobuf::Empty nothing;
  auto status = await_answer<Status>(trainer, outcome.stopped ? "stop" : "status", nothing, watcher);
  auto quality = status ? await_answer<Evaluation>(trainer, "evaluate", nothing, watcher)
                        : Result<Evaluation>{gpuactors::fail(status.error())};
  if (status) {
    note_untold(outcome, *status);
    status->clear_untold();
  }
  if (!quality && is_death(quality.error().code()))
    return false;
  GPUACTORS_TRY(quality);
  if (!outcome.stopped && status->epochs() < epochs)
    return false;
  outcome.status = *status;
  outcome.quality = *quality;
  return true;
}

} // namespace

void Outcome::begin_at(const Status& first) {
  first_step = first.steps();
  first_epoch = first.epochs();
  first_position = first.position();
  steps_per_epoch = first.steps_per_epoch();
}

void Outcome::set_steps(std::size_t steps) {
  losses.resize(steps, std::numeric_limits<double>::quiet_NaN());
  epochs.resize(std::min(epochs.size(), steps));
  while (epochs.size() < steps)
    epochs.push_back(first_epoch + (first_position + epochs.size()) / steps_per_epoch + 1);
}

double Outcome::told(double loss) noexcept {
  return std::isnan(loss) ? std::numeric_limits<double>::infinity() : loss;
}

double Outcome::last_loss() const {
  const auto count = static_cast<std::ptrdiff_t>(std::min<std::size_t>(losses.size(), steps_per_epoch));
  double sum = 0;
  std::size_t known = 0;
  for (auto loss = losses.end() - count; loss != losses.end(); ++loss) {
    if (std::isnan(*loss))
      continue;
    sum += *loss;
    ++known;
  }
  return known == 0 ? 0 : sum / static_cast<double>(known);
}

gpuactors::Error stopped_while_away() {
  return {Errc::cancelled, "stopped while the trainer was away"};
}

bool is_death(Errc code) noexcept {
  return gpuactors::is_loss(code) || code == Errc::unavailable;
}

Result<gpuactors::ActorRef> await_start(gpuactors::Future<gpuactors::ActorRef> starting, const Watcher& watcher) {
  const auto notice_at = Clock::now() + 1s;
  for (bool said = false;;) {
    auto actor = starting.get(attention);
    if (!starting.valid())
      return actor;
    if (watcher.stop()) {
      starting.cancel();
      return gpuactors::fail(Errc::cancelled, "stopped before it began");
    }
    if (!said && Clock::now() > notice_at) {
      watcher.notice("waiting for a device");
      said = true;
    }
  }
}

Result<Outcome> follow(const gpuactors::ActorRef& trainer, std::uint64_t epochs, const Watcher& watcher,
                       const Patience& patience) {
  Outcome outcome;
  const auto begin = Clock::now();
  GPUACTORS_LET(first, await_return(trainer, watcher, patience));
  outcome.begin_at(first);
  GPUACTORS_TRY(watcher.begins(first));
  const auto go_on = [&]() -> Result<void> {
    for (;;) {
      GPUACTORS_LET(ended, read_events(trainer, epochs, watcher, outcome));
      outcome.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      if (ended) {
        GPUACTORS_LET(complete, finish(trainer, epochs, watcher, outcome));
        if (complete)
          return {};
      }
      GPUACTORS_LET(status, await_return(trainer, watcher, patience));
      note_untold(outcome, status);
      watcher.notice(
          fmt::format("the trainer is back on node {}; it goes on after step {}", status.node(), status.steps()));
    }
  };
  if (const auto done = go_on(); !done) {
    watcher.fails(outcome);
    return gpuactors::fail(done.error());
  }
  return outcome;
}

} // namespace train
