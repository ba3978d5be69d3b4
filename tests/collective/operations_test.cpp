// What the members of a group get: sums, broadcasts, arrays of all, barriers.
#include "peers.hpp"

#include <support/catch.hpp>
#include <support/eventually.hpp>

#include <algorithm>
#include <cmath>

using namespace gpuactors;
using namespace gpuactors::test;

namespace {

using Values = std::vector<std::vector<float>>;

void check_sums(const Values& sums, const std::vector<Vector>& arrays) {
  for (const auto& sum : sums)
    CHECK(sum == sums.front());
  REQUIRE(sums.front().size() == static_cast<std::size_t>(arrays.front().values_size()));
  std::size_t wrong = 0;
  for (int i = 0; i < arrays.front().values_size(); ++i) {
    double expected = 0;
    for (const auto& array : arrays)
      expected += static_cast<double>(array.values(i));
    wrong += std::abs(static_cast<double>(sums.front()[static_cast<std::size_t>(i)]) - expected) < 1e-4 ? 0U : 1U;
  }
  CHECK(wrong == 0);
}

/// Sums, broadcasts and gathers tensors of members that have a tenth of a device.
void check_tensors(Cluster cluster) {
  for (const std::size_t count : {1, 3}) {
    const auto members = spawn_peers(cluster, count, 0.1);
    must(form_collective(members));
    const auto arrays = arrays_of(count, 1000);
    check_sums(values_of(call_each(members, reduce_tensor, arrays)), arrays);
    std::vector<Vector> rooted;
    Vector whole;
    for (const auto& array : arrays) {
      rooted.push_back(vector_of({static_cast<float>(count - 1)}));
      rooted.back().mutable_values()->MergeFrom(array.values());
      whole.mutable_values()->MergeFrom(array.values());
    }
    const std::vector<float> last(arrays.back().values().begin(), arrays.back().values().end());
    CHECK(values_of(call_each(members, spread_tensor, rooted)) == Values(count, last));
    const std::vector<float> all(whole.values().begin(), whole.values().end());
    CHECK(values_of(call_each(members, gather_tensor, arrays)) == Values(count, all));
    for (const auto& member : members)
      must(cluster.kill(member));
  }
}

} // namespace

TEST_CASE("members of groups of any size sum arrays of any size, to the same bits, again and again", "[collective]") {
  auto cluster = embed_peers();
  for (const std::size_t count : {1, 2, 3, 5}) {
    auto members = spawn_peers(cluster, count);
    must(form_collective(members));
    // Fewer elements than members; many pieces for each.
    for (const std::size_t elements : {0, 1, 3, 7, 1000, 700'001}) {
      const auto arrays = arrays_of(count, elements);
      const auto sums = values_of(call_each(members, reduce, arrays));
      check_sums(sums, arrays);
      CHECK(values_of(call_each(members, reduce, arrays)) == sums);
    }
    for (const auto& member : members)
      must(cluster.kill(member));
  }
}

TEST_CASE("a sum is the same in another group of the same order", "[collective]") {
  auto cluster = embed_peers();
  const auto members = spawn_peers(cluster, 3);
  const auto arrays = arrays_of(3, 1000);
  must(form_collective(members));
  const auto sums = values_of(call_each(members, reduce, arrays));
  must(form_collective(members));
  CHECK(values_of(call_each(members, reduce, arrays)) == sums);
}

TEST_CASE("arrays of integers are summed, and their least and largest elements found", "[collective]") {
  auto cluster = embed_peers();
  const auto members = spawn_peers(cluster, 3);
  must(form_collective(members));
  const auto by = [&](Reduction reduction) {
    const auto code = static_cast<float>(reduction);
    const auto all = values_of(call_each(
        members, reduce_by, {vector_of({code, 1, 5, -9}), vector_of({code, 2, -5, 9}), vector_of({code, 3, 1, 1})}));
    CHECK(all == Values(3, all.front()));
    return all.front();
  };
  CHECK(by(Reduction::sum) == std::vector<float>{6, 1, 1});
  CHECK(by(Reduction::min) == std::vector<float>{1, -5, -9});
  CHECK(by(Reduction::max) == std::vector<float>{3, 5, 9});
}

TEST_CASE("arrays of all element types are gathered, broadcast and summed", "[collective]") {
  auto cluster = embed_peers();
  const auto members = spawn_peers(cluster, 3);
  must(form_collective(members));
  const std::vector<float> all{1, 2, 10, 20, 100, 50};
  std::vector<float> expected;
  for (int type = 0; type < 7; ++type) {
    expected.insert(expected.end(), all.begin(), all.end());
    expected.insert(expected.end(), {1, 2});
    if (type != 4) // bytes are not summed
      expected.insert(expected.end(), {111, 72});
  }
  const auto results =
      values_of(call_each(members, every_type, {vector_of({1, 2}), vector_of({10, 20}), vector_of({100, 50})}));
  CHECK(results == Values(3, expected));
}

TEST_CASE("16-bit sums are rounded after each addition, to the same bits everywhere", "[collective]") {
  for (const auto dtype : {DType::f16, DType::bf16}) {
    CHECK(is_reducible(dtype));
    const auto step = dtype == DType::f16 ? 2048.0F : 256.0F;
    const auto bits = [&](float value) { return dtype == DType::f16 ? Float16{value}.bits() : BFloat16{value}.bits(); };
    // 1 is half a step at this size: the tie goes to the even neighbour.
    std::vector<std::uint16_t> into{bits(step), bits(step + 2), bits(3)};
    const std::vector<std::uint16_t> values{bits(1), bits(1), bits(4)};
    combine(Reduction::sum, dtype, values.data(), into.data(), into.size());
    CHECK(into == std::vector<std::uint16_t>{bits(step), bits(step + 4), bits(7)});
    combine(Reduction::min, dtype, values.data(), into.data(), into.size());
    CHECK(into == std::vector<std::uint16_t>{bits(1), bits(1), bits(4)});
  }
}

TEST_CASE("every member can be the root of a broadcast", "[collective]") {
  auto cluster = embed_peers();
  const auto members = spawn_peers(cluster, 3);
  must(form_collective(members));
  for (const float root : {0.0F, 1.0F, 2.0F}) {
    const auto all = values_of(
        call_each(members, spread, {vector_of({root, 0, 1}), vector_of({root, 10, 11}), vector_of({root, 20, 21})}));
    CHECK(all == Values(3, {10 * root, 10 * root + 1}));
  }
}

TEST_CASE("arrays of all members are gathered in the order of their ranks", "[collective]") {
  auto cluster = embed_peers();
  const auto members = spawn_peers(cluster, 3);
  must(form_collective(members));
  const auto all = values_of(call_each(members, gather, {vector_of({1, 2}), vector_of({3, 4}), vector_of({5, 6})}));
  CHECK(all == Values(3, {1, 2, 3, 4, 5, 6}));
  const std::vector reversed(members.rbegin(), members.rend());
  must(form_collective(reversed));
  CHECK(values_of(call_each(members, gather, {vector_of({1}), vector_of({2}), vector_of({3})}))
        == Values(3, {3, 2, 1}));
}

TEST_CASE("a member knows its place", "[collective]") {
  auto cluster = embed_peers();
  const auto members = spawn_peers(cluster, 2);
  CHECK(must(members[0].call(place_of).get()).text() == "0 of 0");
  must(form_collective(members));
  CHECK(must(members[0].call(place_of).get()).text() == "0 of 2");
  CHECK(must(members[1].call(place_of).get()).text() == "1 of 2");
}

TEST_CASE("tensors on devices are summed, broadcast and gathered", "[collective]") {
  check_tensors(embed_peers());
}

TEST_CASE("tensors on CUDA devices are summed, broadcast and gathered", "[.][cuda]") {
  check_tensors(must(Cluster::embed({.devices = "cuda"})));
}

TEST_CASE("nobody leaves a barrier before all have come to it", "[collective]") {
  auto cluster = embed_peers();
  const auto members = spawn_peers(cluster, 3);
  must(form_collective(members));
  meetings() = 0;
  std::vector<Future<google::protobuf::Empty>> meeting;
  meeting.push_back(members[0].call(meet));
  meeting.push_back(members[2].call(meet));
  REQUIRE(eventually([] { return meetings() == 2; }));
  // What the others have sent by now is nothing that lets one of them through.
  CHECK(must(members[1].call(place_of).get()).text() == "1 of 3");
  CHECK(wait(meeting, 1, Duration::zero()).empty());
  meeting.push_back(members[1].call(meet));
  CHECK(get_all(meeting).has_value());
}

TEST_CASE("a member may be ahead of others by several operations", "[collective]") {
  auto cluster = embed_peers();
  const auto members = spawn_peers(cluster, 4);
  must(form_collective(members));
  // Only the root's neighbour before it has to have begun. The other two come late, to more than is sent ahead.
  std::vector<Future<Vector>> calls;
  constexpr int operations = 5;
  constexpr std::size_t elements = 500'000;
  const auto call = [&](std::size_t rank) {
    for (int i = 0; i < operations; ++i) {
      std::vector<float> values(elements + 1, static_cast<float>(rank == 0 ? i + 1 : 0));
      values.front() = 0;
      calls.push_back(members[rank].call(spread, vector_of(values)));
    }
  };
  for (const std::size_t rank : {0, 3, 2, 1})
    call(rank);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const auto values = must(calls[i].get());
    REQUIRE(values.values_size() == elements);
    const auto expected = static_cast<float>(i % operations + 1);
    CHECK(std::all_of(values.values().begin(), values.values().end(), [&](float v) { return v == expected; }));
  }
}
