// From the message that a trainer is made with to the training that it holds.
#pragma once

#include "train.pb.h"
#include "training_run.hpp"

#include <gpuactors/gpuactors.hpp>

namespace train {

/// @returns `invalid_argument` for names that there are not.
gpuactors::Result<TrainingSpec> parse_plan(const Plan& plan);

/// Turns `unavailable` into `task_failed`: a file that cannot be read or written is no death of the actor, which
/// somebody would wait to be back from.
template <class T>
gpuactors::Result<T> as_own_failure(gpuactors::Result<T> result) {
  if (!result && result.error().code() == gpuactors::Errc::unavailable)
    return gpuactors::fail(gpuactors::Errc::task_failed, result.error().message());
  return result;
}

/// Fetches the data of a plan and makes its training on the first device of an actor.
/// @returns as `parse_plan`, `TrainingRun::make` and `TensorStore::get`.
gpuactors::Result<TrainingRun> make_training(gpuactors::Actor& actor, const Plan& plan);

/// Where an actor is and how far its training is.
[[nodiscard]] Status status_of(gpuactors::Actor& actor, const TrainingRun& training);

[[nodiscard]] Evaluation to_message(const Quality& quality);
[[nodiscard]] Progress to_message(const StepReport& report);

/// The scale, a power of two, that brings numbers of at most this size to 1 or below: powers of two round nothing.
[[nodiscard]] double input_scale_for(std::span<const float> features);

} // namespace train
