#include "ring_sum.hpp"

#include <fmt/format.h>

#include <cstring>
#include <optional>

namespace train {

using gpuactors::Errc;
using gpuactors::Result;

namespace {

/// Bytes of one piece: large enough that messages cost little, small enough that the whole ring has some to work on.
constexpr std::size_t piece_bytes = std::size_t{256} << 10;

} // namespace

template <class T>
RingSum<T>::RingSum(gpuactors::Stream& stream, const gpuactors::Tensor& gradients, std::size_t members,
                    std::size_t rank, Send send)
  : stream_(stream), gradients_(gradients), send_(std::move(send)),
    ring_(members, rank, static_cast<std::size_t>(gradients.size()), piece_bytes / sizeof(T)),
    own_(static_cast<std::size_t>(gradients.size())) {
  // nop
}

template <class T>
Result<void> RingSum<T>::begin(std::uint64_t step) {
  GPUACTORS_TRY(stream_.download(own_, gradients_));
  GPUACTORS_TRY(stream_.synchronize());
  step_ = step;
  open_ = true;
  for (const auto& piece : ring_.begin())
    send(piece);
  return {};
}

template <class T>
Result<bool> RingSum<T>::ready() {
  if (!open_)
    return true;
  GPUACTORS_TRY(work());
  if (!ring_.done())
    return false;
  GPUACTORS_TRY(stream_.upload(gradients_.raw(), own_.data(), gradients_.bytes()));
  open_ = false;
  return true;
}

template <class T>
Result<bool> RingSum<T>::settled() {
  return ready();
}

template <class T>
Result<void> RingSum<T>::take(const Piece& piece) {
  early_.push_back(piece);
  return {};
}

template <class T>
void RingSum<T>::abandon() noexcept {
  open_ = false;
  early_.clear();
}

template <class T>
Result<void> RingSum<T>::work() {
  std::vector<T> values;
  for (std::size_t i = 0; i < early_.size() && !ring_.done();) {
    const auto& piece = early_[i];
    if (piece.step() != step_) {
      // Of the next step; of one that is over nothing can come.
      if (piece.step() != step_ + 1)
        return gpuactors::fail(Errc::internal, fmt::format("a piece of step {} came to step {}", piece.step(), step_));
      ++i;
      continue;
    }
    values.resize(piece.values().size() / sizeof(T));
    std::memcpy(values.data(), piece.values().data(), values.size() * sizeof(T));
    bool known = false;
    const auto onward =
        ring_.take<T>({piece.round(), static_cast<std::size_t>(piece.offset()), values.size()}, values, own_, known);
    if (!known)
      return gpuactors::fail(Errc::invalid_argument,
                             fmt::format("a piece of {} B at {} in round {} is none of this ring",
                                         piece.values().size(), piece.offset(), piece.round()));
    early_.erase(early_.begin() + static_cast<std::ptrdiff_t>(i));
    if (onward)
      send(*onward);
  }
  return {};
}

template <class T>
void RingSum<T>::send(const PieceSpan& piece) {
  Piece message;
  message.set_step(step_);
  message.set_round(piece.round);
  message.set_offset(piece.offset);
  message.set_values(own_.data() + piece.offset, piece.count * sizeof(T));
  send_(std::move(message));
}

template class RingSum<float>;
template class RingSum<double>;

} // namespace train
