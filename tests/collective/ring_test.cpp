// The pure parts of collectives: the way of an array around a ring, and how values become one.
#include <gpuactors/collective/reduction.hpp>
#include <gpuactors/collective/ring.hpp>

#include <support/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <random>
#include <vector>

using namespace gpuactors;

namespace {

using Array = std::vector<double>;

/// What the arrays of all members become, with messages in the order that the seed draws; no two of one sender change
/// places.
std::vector<Array> go_around(Ring::Plan plan, std::vector<Array> arrays, std::uint64_t seed) {
  struct Message {
    PieceSpan piece;
    Array values;
  };
  plan.members = arrays.size();
  std::vector<Ring> rings;
  std::vector<std::deque<Message>> inbox(plan.members);
  const auto send = [&](std::size_t from, const PieceSpan& piece) {
    const auto begin = arrays[from].begin() + static_cast<std::ptrdiff_t>(piece.offset);
    inbox[(from + 1) % plan.members].push_back({piece, {begin, begin + static_cast<std::ptrdiff_t>(piece.count)}});
  };
  for (plan.rank = 0; plan.rank < plan.members; ++plan.rank) {
    plan.elements = arrays[plan.rank].size();
    rings.emplace_back(plan);
    for (const auto& piece : rings.back().begin())
      send(plan.rank, piece);
  }
  std::mt19937_64 random{seed};
  while (std::any_of(inbox.begin(), inbox.end(), [](const auto& messages) { return !messages.empty(); })) {
    const auto rank = static_cast<std::size_t>(random() % plan.members);
    if (inbox[rank].empty())
      continue;
    const auto message = std::move(inbox[rank].front());
    inbox[rank].pop_front();
    const auto taken = rings[rank].take(message.piece);
    REQUIRE(taken.has_value());
    auto* own = arrays[rank].data() + message.piece.offset;
    if (taken->combines)
      combine(Reduction::sum, DType::f64, message.values.data(), own, message.piece.count);
    else
      std::copy(message.values.begin(), message.values.end(), own);
    if (taken->onward)
      send(rank, *taken->onward);
  }
  for (const auto& ring : rings) {
    CHECK(ring.done());
    CHECK(ring.missing() == 0);
  }
  return arrays;
}

std::vector<Array> some_arrays(std::size_t members, std::size_t elements) {
  std::mt19937_64 random{members * 1000 + elements};
  std::vector<Array> arrays(members);
  for (auto& array : arrays)
    for (std::size_t i = 0; i < elements; ++i)
      array.push_back(static_cast<double>(random() % 1'000'003) / 1'000'003);
  return arrays;
}

template <class T>
T combined(Reduction reduction, T theirs, T mine) {
  combine(reduction, dtype_of<T>, &theirs, &mine, 1);
  return mine;
}

} // namespace

TEST_CASE("a ring sums any number of arrays of any size, to the same bits everywhere", "[collective]") {
  for (const std::size_t members : {1, 2, 3, 5, 8})
    for (const std::size_t elements : {0, 1, 7, 64, 1000})
      for (const std::size_t most : {1, 64, 5000}) {
        const auto arrays = some_arrays(members, elements);
        Ring::Plan plan;
        plan.most = most;
        const auto sums = go_around(plan, arrays, elements);
        for (const auto& sum : sums)
          CHECK(sum == sums.front());
        for (std::size_t i = 0; i < elements; ++i) {
          double expected = 0;
          for (const auto& array : arrays)
            expected += array[i];
          CHECK(std::abs(sums[0][i] - expected) < 1e-12);
        }
        CHECK(go_around(plan, arrays, elements + 1) == sums);
      }
}

TEST_CASE("a ring brings the array of each root to all members", "[collective]") {
  for (const std::size_t members : {1, 2, 3, 5})
    for (std::size_t root = 0; root < members; ++root)
      for (const std::size_t elements : {0, 1, 64}) {
        const auto arrays = some_arrays(members, elements);
        Ring::Plan plan;
        plan.course = Course::broadcast;
        plan.root = root;
        plan.most = 10;
        CHECK(go_around(plan, arrays, root) == std::vector<Array>(members, arrays[root]));
      }
}

TEST_CASE("a ring gathers the chunks of all members in the order of their ranks", "[collective]") {
  for (const std::size_t members : {1, 2, 3, 5})
    for (const std::size_t elements : {0, 1, 17}) {
      const auto whole = some_arrays(1, members * elements).front();
      std::vector<Array> arrays(members, Array(whole.size(), -1));
      for (std::size_t rank = 0; rank < members; ++rank)
        for (auto i = rank * elements; i < (rank + 1) * elements; ++i)
          arrays[rank][i] = whole[i];
      Ring::Plan plan;
      plan.course = Course::gather;
      plan.most = 4;
      CHECK(go_around(plan, arrays, members) == std::vector<Array>(members, whole));
    }
}

TEST_CASE("a ring takes no piece that none of its members would send", "[collective]") {
  Ring ring{{Course::reduce, 3, 1, 30, 10, 0}};
  CHECK(ring.done());
  CHECK_FALSE(ring.take({0, 0, 10})); // before it began
  CHECK(ring.begin() == std::vector<PieceSpan>{{0, 10, 10}});
  CHECK_FALSE(ring.take({0, 10, 10})); // another chunk
  CHECK_FALSE(ring.take({0, 5, 10}));
  CHECK_FALSE(ring.take({0, 0, 9}));
  CHECK_FALSE(ring.take({4, 0, 10}));
  CHECK(ring.missing() == 4);
  const auto taken = ring.take({0, 0, 10});
  REQUIRE(taken);
  CHECK(taken->combines);
  CHECK(taken->onward == PieceSpan{1, 0, 10});
  CHECK_FALSE(ring.take({0, 0, 10})); // again
  CHECK(ring.missing() == 3);
  Ring last{{Course::broadcast, 3, 0, 30, 30, 1}};
  CHECK(last.begin().empty());
  CHECK_FALSE(last.take({0, 0, 30})); // it has been through two hands
  const auto end = last.take({1, 0, 30});
  REQUIRE(end);
  CHECK_FALSE(end->combines);
  CHECK_FALSE(end->onward);
}

TEST_CASE("values of all types are combined, and sums of integers wrap around", "[collective]") {
  CHECK(combined(Reduction::sum, 1.5F, 2.0F) == 3.5F);
  CHECK(combined(Reduction::min, 1.5, 2.0) == 1.5);
  CHECK(combined(Reduction::max, 1.5, 2.0) == 2.0);
  CHECK(combined(Reduction::min, -7, 3) == -7);
  CHECK(combined(Reduction::max, std::int64_t{-7}, std::int64_t{3}) == 3);
  CHECK(combined(Reduction::sum, std::numeric_limits<std::int32_t>::max(), 1)
        == std::numeric_limits<std::int32_t>::min());
  CHECK(combined(Reduction::sum, std::numeric_limits<std::int64_t>::max(), std::int64_t{1})
        == std::numeric_limits<std::int64_t>::min());
  CHECK(combined(Reduction::sum, std::uint8_t{1}, std::uint8_t{2}) == 2);
  CHECK_FALSE(is_reducible(DType::u8));
}

TEST_CASE("values are combined from wherever they lie", "[collective]") {
  std::vector<std::byte> bytes(1 + 3 * sizeof(double));
  const Array theirs{1, 2, 3};
  std::memcpy(bytes.data() + 1, theirs.data(), 3 * sizeof(double));
  Array mine{10, 20, 30};
  combine(Reduction::sum, DType::f64, bytes.data() + 1, mine.data(), mine.size());
  CHECK(mine == Array{11, 22, 33});
}
