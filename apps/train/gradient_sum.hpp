// How the members of a group sum their gradients up: what a member asks of it, whoever does it.
#pragma once

#include "train.pb.h"

#include <gpuactors/gpuactors.hpp>

#include <cstdint>

namespace train {

/// Puts the sum of all members' gradients in the place of each one's own, step after step. Used on the thread of its
/// member.
///
/// Nothing in it waits for another member: what cannot go on says so, and the member asks again when a piece has come,
/// or when it is woken.
class GradientSum {
public:
  GradientSum() = default;
  GradientSum(const GradientSum&) = delete;
  GradientSum& operator=(const GradientSum&) = delete;
  /// Gives up what is under way.
  virtual ~GradientSum() = default;

  /// Begins with the gradients that the stream finds for step `step`.
  virtual gpuactors::Result<void> begin(std::uint64_t step) = 0;

  /// Whether work that is queued on the stream from now on sees the sum of what was begun; true when nothing was.
  /// @returns why the sum will never come.
  virtual gpuactors::Result<bool> ready() = 0;

  /// Whether nothing is under way any more, on the stream either, so that it can be waited for without others.
  virtual gpuactors::Result<bool> settled() = 0;

  /// Takes a piece from the member before it. @returns `invalid_argument` where none is expected.
  virtual gpuactors::Result<void> take(const Piece& piece) = 0;

  /// Gives up what is under way: the stream gets to its end, with whatever numbers. No step is begun after it.
  virtual void abandon() noexcept = 0;
};

} // namespace train
