#include "ring.hpp"

#include <algorithm>

namespace train {

Ring::Ring(std::size_t members, std::size_t rank, std::size_t elements, std::size_t most)
  : members_(members), rank_(rank), elements_(elements), most_(most) {
  for (std::size_t round = 0; round + 2 < 2 * members_; ++round)
    due_ += pieces(chunk((rank_ + 2 * members_ - 1 - round) % members_));
  taken_ = due_;
}

Ring::Chunk Ring::chunk(std::size_t index) const {
  return {elements_ * index / members_, elements_ * (index + 1) / members_};
}

std::size_t Ring::pieces(const Chunk& chunk) const {
  return (chunk.end - chunk.begin + most_ - 1) / most_;
}

std::vector<PieceSpan> Ring::begin() {
  taken_ = 0;
  std::vector<PieceSpan> result;
  if (members_ == 1)
    return result;
  const auto own = chunk(rank_);
  for (auto at = own.begin; at < own.end; at += most_)
    result.push_back({0, at, std::min(most_, own.end - at)});
  return result;
}

bool Ring::expects(const PieceSpan& piece) const {
  if (piece.round + 2 >= 2 * members_ || done())
    return false;
  const auto from = chunk((rank_ + 2 * members_ - 1 - static_cast<std::size_t>(piece.round)) % members_);
  return piece.offset >= from.begin && piece.offset < from.end && (piece.offset - from.begin) % most_ == 0
         && piece.count == std::min(most_, from.end - piece.offset);
}

template <class T>
std::optional<PieceSpan> Ring::take(const PieceSpan& piece, std::span<const T> values, std::span<T> own, bool& known) {
  known = expects(piece) && values.size() == piece.count && own.size() == elements_;
  if (!known)
    return std::nullopt;
  const auto target = own.subspan(piece.offset, piece.count);
  if (piece.round + 1 < members_)
    std::transform(values.begin(), values.end(), target.begin(), target.begin(),
                   [](T sum, T mine) { return sum + mine; });
  else
    std::copy(values.begin(), values.end(), target.begin());
  ++taken_;
  if (piece.round + 3 >= 2 * members_)
    return std::nullopt;
  return PieceSpan{piece.round + 1, piece.offset, piece.count};
}

template std::optional<PieceSpan> Ring::take(const PieceSpan&, std::span<const float>, std::span<float>, bool&);
template std::optional<PieceSpan> Ring::take(const PieceSpan&, std::span<const double>, std::span<double>, bool&);

} // namespace train
