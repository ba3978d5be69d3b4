// The sum of an array over the members of a ring, piece by piece: what each member does with what comes from the one
// before it. Pure: it knows neither devices nor messages.
//
// The array is cut into one chunk for each member. In the first rounds a chunk goes around and every member adds its
// own values; in the others the finished chunk goes around and every member takes it over. A chunk travels in pieces,
// each on its own, so that the ring is busy everywhere. The order of additions is that of the ring: every member ends
// with the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace train {

/// Where a piece is on its way: how many hands it has been through, and which elements it has.
struct PieceSpan {
  std::uint64_t round = 0;
  std::size_t offset = 0;
  std::size_t count = 0;
};

/// The part of one member. One sum after the other: `begin`, then `take` until `done`.
class Ring {
public:
  /// `elements` in all, at most `most` of them in a piece.
  Ring(std::size_t members, std::size_t rank, std::size_t elements, std::size_t most);

  /// Begins a sum: the pieces that go to the next member now.
  [[nodiscard]] std::vector<PieceSpan> begin();

  /// Takes a piece from the member before: adds to it or takes it over, in `own`, which holds this member's values and
  /// what became of them. Returns what goes to the next member, if anything does: the same elements of `own`.
  /// Nothing is done, and `false` comes in `known`, for a piece that no member of this ring would send.
  template <class T>
  std::optional<PieceSpan> take(const PieceSpan& piece, std::span<const T> values, std::span<T> own, bool& known);

  /// Whether every piece has come: `own` holds the sum.
  [[nodiscard]] bool done() const noexcept {
    return taken_ == due_;
  }

private:
  struct Chunk {
    std::size_t begin;
    std::size_t end;
  };

  [[nodiscard]] Chunk chunk(std::size_t index) const;
  [[nodiscard]] std::size_t pieces(const Chunk& chunk) const;
  [[nodiscard]] bool expects(const PieceSpan& piece) const;

  std::size_t members_;
  std::size_t rank_;
  std::size_t elements_;
  std::size_t most_;
  /// Pieces of one sum that come to this member, and those that came.
  std::size_t due_ = 0;
  std::size_t taken_ = 0;
};

} // namespace train
