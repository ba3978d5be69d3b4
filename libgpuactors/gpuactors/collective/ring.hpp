// The way of an array around a ring of members, piece by piece: what each of them expects, adds and passes on. Pure: it
// knows neither elements nor devices nor messages.
//
// For a reduction, the array is cut into one chunk for each member. In the first rounds, a chunk goes around and every
// member adds its own values; in the others, the finished chunk goes around and every member takes it over. To gather,
// only the second half is needed; to broadcast, the whole array goes once around. A chunk travels in pieces, each on
// its own, so that the ring is busy everywhere. The order of additions is that of the ring: every member ends with the
// same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace gpuactors {

/// Where a piece is on its way: how many hands it has been through, and which elements it has.
struct PieceSpan {
  std::uint64_t round = 0;
  std::size_t offset = 0;
  std::size_t count = 0;

  friend bool operator==(const PieceSpan&, const PieceSpan&) = default;
};

/// What goes around.
enum class Course : std::uint8_t {
  /// All members' values, combined.
  reduce,
  /// The chunk of each member, to all others.
  gather,
  /// The array of one member, to all others.
  broadcast,
};

/// The part of one member. One array after the other: `begin`, then `take` until `done`.
class Ring {
public:
  struct Plan {
    Course course = Course::reduce;
    std::size_t members = 1;
    std::size_t rank = 0;
    /// Of the whole array.
    std::size_t elements = 0;
    /// Elements of one piece, at least 1.
    std::size_t most = 1;
    /// Whose array is broadcast.
    std::size_t root = 0;
  };

  /// What to do with a piece from the member before: combine it with the own elements, or take it over; and what of the
  /// own elements goes to the next member then.
  struct Taken {
    bool combines = false;
    std::optional<PieceSpan> onward;
  };

  explicit Ring(const Plan& plan);

  /// Begins: the pieces that go to the next member now.
  [[nodiscard]] std::vector<PieceSpan> begin();

  /// Takes a piece from the member before. Pieces may come in any order in which such a ring sends them.
  /// @returns nothing for a piece that no member of this ring would send now, or that came before.
  std::optional<Taken> take(const PieceSpan& piece);

  /// Whether every piece has come.
  [[nodiscard]] bool done() const noexcept {
    return taken_ == due_;
  }

  /// Pieces that are still to come.
  [[nodiscard]] std::size_t missing() const noexcept {
    return due_ - taken_;
  }

  /// The elements of a member: from the first to before the last.
  struct Chunk {
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  /// Returns which part of the array is the chunk of `rank`, for `reduce` and `gather`.
  [[nodiscard]] Chunk chunk(std::size_t rank) const;

private:
  /// Rounds in which pieces go around, and those of them in which they are combined.
  [[nodiscard]] std::uint64_t rounds() const;
  [[nodiscard]] std::uint64_t combining_rounds() const;
  /// What comes to this member in a round.
  [[nodiscard]] Chunk incoming(std::uint64_t round) const;
  [[nodiscard]] std::size_t hops_from_root() const;
  [[nodiscard]] std::vector<PieceSpan> cut(const Chunk& chunk) const;
  /// How many pieces that makes.
  [[nodiscard]] std::size_t pieces_of(const Chunk& chunk) const;

  Plan plan_;
  /// Pieces of one array that come to this member, and those that came.
  std::size_t due_ = 0;
  std::size_t taken_ = 0;
  /// Which of them came, by round; and where those of each round begin.
  std::vector<bool> came_;
  std::vector<std::size_t> first_of_round_;
};

} // namespace gpuactors
