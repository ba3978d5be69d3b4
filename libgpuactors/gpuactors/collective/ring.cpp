#include <gpuactors/collective/ring.hpp>

#include <algorithm>

namespace gpuactors {

Ring::Ring(const Plan& plan) : plan_(plan) {
  plan_.most = std::max<std::size_t>(plan_.most, 1);
  for (std::uint64_t round = 0; round < rounds(); ++round) {
    first_of_round_.push_back(due_);
    due_ += pieces_of(incoming(round));
  }
  taken_ = due_;
}

std::uint64_t Ring::rounds() const {
  return plan_.course == Course::reduce ? 2 * (plan_.members - 1) : plan_.members - 1;
}

std::uint64_t Ring::combining_rounds() const {
  return plan_.course == Course::reduce ? plan_.members - 1 : 0;
}

std::size_t Ring::hops_from_root() const {
  return (plan_.rank + plan_.members - plan_.root) % plan_.members;
}

Ring::Chunk Ring::chunk(std::size_t rank) const {
  return {plan_.elements * rank / plan_.members, plan_.elements * (rank + 1) / plan_.members};
}

Ring::Chunk Ring::incoming(std::uint64_t round) const {
  if (plan_.course == Course::broadcast)
    return round + 1 == hops_from_root() ? Chunk{0, plan_.elements} : Chunk{};
  return chunk((plan_.rank + 2 * plan_.members - 1 - static_cast<std::size_t>(round)) % plan_.members);
}

std::vector<PieceSpan> Ring::cut(const Chunk& chunk) const {
  std::vector<PieceSpan> pieces;
  for (auto at = chunk.begin; at < chunk.end; at += plan_.most)
    pieces.push_back({0, at, std::min(plan_.most, chunk.end - at)});
  return pieces;
}

std::size_t Ring::pieces_of(const Chunk& chunk) const {
  const auto elements = chunk.end - chunk.begin;
  return elements / plan_.most + (elements % plan_.most != 0 ? 1 : 0);
}

std::vector<PieceSpan> Ring::begin() {
  taken_ = 0;
  came_.assign(due_, false);
  if (plan_.members == 1)
    return {};
  if (plan_.course != Course::broadcast)
    return cut(chunk(plan_.rank));
  return hops_from_root() == 0 ? cut({0, plan_.elements}) : std::vector<PieceSpan>{};
}

std::optional<Ring::Taken> Ring::take(const PieceSpan& piece) {
  if (done() || piece.round >= rounds())
    return std::nullopt;
  const auto from = incoming(piece.round);
  if (piece.offset < from.begin || piece.offset >= from.end || (piece.offset - from.begin) % plan_.most != 0
      || piece.count != std::min(plan_.most, from.end - piece.offset))
    return std::nullopt;
  const auto index = first_of_round_[static_cast<std::size_t>(piece.round)] + (piece.offset - from.begin) / plan_.most;
  if (came_[index])
    return std::nullopt;
  came_[index] = true;
  ++taken_;
  Taken taken;
  taken.combines = piece.round < combining_rounds();
  if (piece.round + 1 < rounds())
    taken.onward = PieceSpan{piece.round + 1, piece.offset, piece.count};
  return taken;
}

} // namespace gpuactors
