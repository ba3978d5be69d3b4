// From the message that a trainer is made with to the course that it holds.
#pragma once

#include "course.hpp"
#include "train.pb.h"

#include <gpuactors/gpuactors.hpp>

namespace train {

/// @returns `invalid_argument` for names that there are not.
gpuactors::Result<CourseSpec> parse_plan(const Plan& plan);

/// Turns `unavailable` into `task_failed`: a file that cannot be read or written is no death of the actor, which
/// somebody would wait to be back from.
template <class T>
gpuactors::Result<T> as_own_failure(gpuactors::Result<T> result) {
  if (!result && result.error().code() == gpuactors::Errc::unavailable)
    return gpuactors::fail(gpuactors::Errc::task_failed, result.error().message());
  return result;
}

/// Fetches the data of a plan and makes its course on the first device of an actor.
/// @returns as `parse_plan`, `Course::make` and `TensorStore::get`.
gpuactors::Result<Course> make_course(gpuactors::Actor& actor, const Plan& plan);

/// Where an actor is and how far its course is.
[[nodiscard]] Status status_of(gpuactors::Actor& actor, const Course& course);

[[nodiscard]] Evaluation to_message(const Quality& quality);

/// The scale, a power of two, that brings numbers of at most this size to 1 or below: powers of two round nothing.
[[nodiscard]] double input_scale_for(std::span<const float> features);

} // namespace train
