// Sums of gradients around a ring of messages, in host memory: for members on any devices.
#pragma once

#include "gradient_sum.hpp"
#include "ring.hpp"

#include <deque>
#include <functional>
#include <vector>

namespace train {

/// `T` is the type of the network, float or double.
template <class T>
class RingSum final : public GradientSum {
public:
  /// Has a piece brought to the next member; step, round, offset and values are set.
  using Send = std::function<void(Piece)>;

  /// The stream and the gradients on it must outlive the sum.
  RingSum(gpuactors::Stream& stream, const gpuactors::Tensor& gradients, std::size_t members, std::size_t rank,
          Send send);

  gpuactors::Result<void> begin(std::uint64_t step) override;
  gpuactors::Result<bool> ready() override;
  gpuactors::Result<bool> settled() override;
  gpuactors::Result<void> take(const Piece& piece) override;
  void abandon() noexcept override;

private:
  void send(const PieceSpan& piece);
  /// Works on what has come of the step under way.
  gpuactors::Result<void> work();

  gpuactors::Stream& stream_;
  const gpuactors::Tensor& gradients_;
  const Send send_;
  Ring ring_;
  std::vector<T> own_;
  std::uint64_t step_ = 0;
  bool open_ = false;
  /// Pieces of the step under way, or of the next one when the member before is ahead.
  std::deque<Piece> early_;
};

} // namespace train
