// Following a trainer to its end, over the deaths of its workers.
#pragma once

#include "train.pb.h"

#include <gpuactors/gpuactors.hpp>

#include <functional>
#include <string_view>
#include <vector>

namespace train {

/// What became of a training. A plain value.
struct Outcome {
  /// Updates that had been made when it began: more than 0 if it was resumed. And the epochs that were over then, and
  /// steps of the one under way.
  std::uint64_t first_step = 0;
  std::uint64_t first_epoch = 0;
  std::uint64_t first_position = 0;
  std::uint64_t steps_per_epoch = 1;
  /// The loss before each update from then on; NaN where a worker died with what it had not told yet, infinity for one
  /// that was told as no number. And the epoch of each, counted from 1.
  std::vector<double> losses;
  std::vector<std::uint64_t> epochs;
  /// Rows that were learnt from, those that were learnt again after a death included, and seconds that it took.
  std::uint64_t rows = 0;
  double seconds = 0;
  Evaluation quality;
  Status status;
  /// It was told to stop before its end.
  bool stopped = false;

  /// Notes where it begins.
  void begin_at(const Status& first);

  /// Makes it one of `steps` updates: forgets what comes after them, and leaves open what is not known of them but the
  /// epoch.
  void set_steps(std::size_t steps);

  /// What is kept of a loss: one that is no number any more was told all the same.
  [[nodiscard]] static double told(double loss) noexcept;

  /// The mean loss of the last epoch, as far as it is known; 0 when there was no step.
  [[nodiscard]] double last_loss() const;
};

/// Who wants to know, and may stop it. All are called on the thread that follows; none may be empty.
struct Watcher {
  /// Told where it begins; an error ends it there.
  std::function<gpuactors::Result<void>(const Status& first)> begins = [](const auto&) -> gpuactors::Result<void> {
    return {};
  };
  std::function<void(const Progress& progress, const Outcome& so_far)> progress = [](const auto&, const auto&) {};
  /// One line about something unusual.
  std::function<void(std::string_view)> notice = [](std::string_view) {};
  /// Told what is known when an error ends it after its beginning.
  std::function<void(const Outcome& so_far)> fails = [](const auto&) {};
  /// Asked several times a second.
  std::function<bool()> stop = [] { return false; };
};

/// Whether an error means that somebody died, so that what had restarts left will be back.
[[nodiscard]] bool is_death(gpuactors::Errc code) noexcept;

/// How often a watcher is asked whether to stop.
inline constexpr std::chrono::milliseconds attention{100};

/// What ends a training that is told to stop while its trainer is away.
[[nodiscard]] gpuactors::Error stopped_while_away();

/// Waits for an answer however long it takes, but not for a trainer that is away when it is told to stop.
template <class Answer, class Question>
gpuactors::Result<Answer> await_answer(const gpuactors::ActorRef& trainer, std::string_view method,
                                       const Question& question, const Watcher& watcher) {
  auto asked = trainer.call<Answer>(method, question, gpuactors::Duration::max());
  for (;;) {
    auto answer = asked.get(attention);
    if (!asked.valid())
      return answer;
    if (trainer.away() && watcher.stop()) {
      asked.cancel();
      return gpuactors::fail(stopped_while_away());
    }
  }
}

/// Waits for an actor that was asked for, however long it waits for its part of a device; says so after a second.
/// @returns `cancelled` as soon as it is told to stop; the actor is withdrawn.
gpuactors::Result<gpuactors::ActorRef> await_start(gpuactors::Future<gpuactors::ActorRef> starting,
                                                   const Watcher& watcher);

/// How a trainer that died is waited for.
struct Patience {
  /// How long one question whether it is back waits for its answer. The next one follows: a trainer may wait for room
  /// on a device for hours.
  gpuactors::Duration question = gpuactors::Duration::max();
};

/// Has `trainer` run until `epochs` are over and evaluates it. When its worker dies, waits until it is back and has it
/// go on, however long it waits for a device.
/// @returns the error of the training, or of the death that it did not come back from.
gpuactors::Result<Outcome> follow(const gpuactors::ActorRef& trainer, std::uint64_t epochs, const Watcher& watcher,
                                  const Patience& patience = {});

} // namespace train
