// The group allocator: what every holder may rely on, over random histories.
#include <gpuactors/device/detail/compute_groups.hpp>

#include <support/catch.hpp>

#include <algorithm>
#include <set>

using namespace gpuactors;
using detail::ComputeGroups;

namespace {

/// splitmix64: the same numbers everywhere.
class Random {
public:
  explicit Random(std::uint64_t seed) : state_(seed) {
    // nop
  }

  std::int64_t below(std::int64_t bound) {
    state_ += 0x9e3779b97f4a7c15ULL;
    auto z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return static_cast<std::int64_t>((z ^ (z >> 31)) % static_cast<std::uint64_t>(bound));
  }

private:
  std::uint64_t state_;
};

struct Holding {
  ComputeGroups::Holder holder;
  Share share;
};

std::vector<int> groups(std::initializer_list<int> list) {
  return list;
}

/// What is true at every instant, whoever holds what.
void check_all(const ComputeGroups& allocator, const std::vector<Holding>& held) {
  std::vector<int> holders(static_cast<std::size_t>(allocator.count()), 0);
  for (const auto& one : held)
    for (const auto group : allocator.groups_of(one.holder)) {
      REQUIRE(group >= 0);
      REQUIRE(group < allocator.count());
      ++holders[static_cast<std::size_t>(group)];
    }
  REQUIRE(allocator.free_count() == std::count(holders.begin(), holders.end(), 0));
  for (const auto& one : held) {
    const auto& mine = allocator.groups_of(one.holder);
    REQUIRE(std::is_sorted(mine.begin(), mine.end()));
    REQUIRE(std::adjacent_find(mine.begin(), mine.end()) == mine.end());
    // Its share, rounded down or up to whole groups, and at least one.
    const auto wanted = one.share.units() * allocator.count();
    REQUIRE(static_cast<std::int64_t>(mine.size()) >= std::max<std::int64_t>(1, wanted / Share::one));
    REQUIRE(static_cast<std::int64_t>(mine.size()) <= (wanted + Share::one - 1) / Share::one);
    const auto meets =
        std::any_of(mine.begin(), mine.end(), [&](int group) { return holders[static_cast<std::size_t>(group)] > 1; });
    REQUIRE(allocator.is_shared(one.holder) == meets);
  }
}

} // namespace

TEST_CASE("halves, quarters and sixteenths of sixteen groups are sets of their own") {
  for (const int parts : {1, 2, 4, 8, 16}) {
    ComputeGroups allocator{16};
    std::set<int> seen;
    for (int i = 0; i < parts; ++i) {
      const auto holder = allocator.take(Share{Share::one / parts});
      CHECK(allocator.groups_of(holder).size() == static_cast<std::size_t>(16 / parts));
      CHECK(allocator.groups_of(holder).front() == i * 16 / parts);
      CHECK_FALSE(allocator.is_shared(holder));
      for (const auto group : allocator.groups_of(holder))
        CHECK(seen.insert(group).second);
    }
    CHECK(allocator.free_count() == 0);
  }
}

TEST_CASE("shares that are no whole groups are rounded so that all find room") {
  ComputeGroups allocator{16};
  std::size_t all = 0;
  for (int i = 0; i < 10; ++i) {
    const auto holder = allocator.take(Share{1000});
    CHECK_FALSE(allocator.is_shared(holder));
    all += allocator.groups_of(holder).size();
  }
  CHECK(all == 16);
}

TEST_CASE("shares below a group are put together, and the rest stays whole") {
  ComputeGroups allocator{16};
  const auto first = allocator.take(Share{Share::one / 32});
  const auto second = allocator.take(Share{Share::one / 32});
  CHECK(allocator.groups_of(first) == groups({0}));
  CHECK(allocator.groups_of(second) == groups({0}));
  CHECK(allocator.is_shared(first));
  const auto rest = allocator.take(Share{Share::one * 15 / 16});
  CHECK(allocator.groups_of(rest).size() == 15);
  CHECK_FALSE(allocator.is_shared(rest));
  allocator.give_back(second);
  CHECK_FALSE(allocator.is_shared(first));
}

TEST_CASE("more holders than groups share, and each is told") {
  ComputeGroups allocator{4};
  std::vector<ComputeGroups::Holder> holders;
  for (int i = 0; i < 8; ++i)
    holders.push_back(allocator.take(Share{1250}));
  std::vector<int> count(4, 0);
  for (const auto holder : holders) {
    CHECK(allocator.is_shared(holder));
    REQUIRE(allocator.groups_of(holder).size() == 1);
    ++count[static_cast<std::size_t>(allocator.groups_of(holder)[0])];
  }
  CHECK(count == std::vector<int>(4, 2));
}

TEST_CASE("a holder that left weighs on nothing any more") {
  ComputeGroups allocator{2};
  allocator.take(Share{4500});
  allocator.take(Share{4500});
  for (int i = 0; i < 3; ++i) {
    const auto third = allocator.take(Share{1000});
    CHECK(allocator.groups_of(third) == groups({0}));
    allocator.give_back(third);
  }
}

TEST_CASE("the smallest gap that is large enough is taken, then the lowest") {
  ComputeGroups allocator{16};
  std::vector<ComputeGroups::Holder> holders;
  for (int i = 0; i < 8; ++i)
    holders.push_back(allocator.take(Share{1250}));
  // Gaps: 2 to 7 and 10 to 13.
  for (const std::size_t gone : {1, 2, 3, 5, 6})
    allocator.give_back(holders[gone]);
  CHECK(allocator.groups_of(allocator.take(Share{2500})) == groups({10, 11, 12, 13}));
  CHECK(allocator.groups_of(allocator.take(Share{1250})) == groups({2, 3}));
  allocator.give_back(holders[0]);
  allocator.give_back(holders[7]);
  // 0 to 1, 4 to 7, 14 to 15: no gap is large enough for six.
  CHECK(allocator.groups_of(allocator.take(Share{3750})) == groups({0, 1, 4, 5, 6, 7}));
}

TEST_CASE("holders that are at least a group never meet while shares add up to one device") {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    Random random{seed};
    ComputeGroups allocator{static_cast<int>(1 + random.below(40))};
    const auto least = (Share::one + allocator.count() - 1) / allocator.count();
    std::vector<Holding> held;
    for (auto left = Share::one; left >= least;) {
      const Share share{least + random.below(left - least + 1)};
      left -= share.units();
      held.push_back({allocator.take(share), share});
      INFO("seed " << seed);
      check_all(allocator, held);
      for (const auto& one : held)
        REQUIRE_FALSE(allocator.is_shared(one.holder));
    }
  }
}

TEST_CASE("holders of whole groups never meet, whoever comes and goes") {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    Random random{seed};
    // So many groups that a group is an exact share.
    const int counts[] = {2, 4, 5, 8, 10, 16, 20, 25, 40};
    ComputeGroups allocator{counts[random.below(9)]};
    const auto unit = Share::one / allocator.count();
    std::vector<Holding> held;
    auto left = std::int64_t{allocator.count()};
    for (int step = 0; step < 60; ++step) {
      if (left > 0 && random.below(3) > 0) {
        const auto taken = 1 + random.below(left);
        left -= taken;
        const Share share{taken * unit};
        held.push_back({allocator.take(share), share});
      } else if (!held.empty()) {
        const auto gone = random.below(static_cast<std::int64_t>(held.size()));
        left += held[static_cast<std::size_t>(gone)].share.units() / unit;
        allocator.give_back(held[static_cast<std::size_t>(gone)].holder);
        held.erase(held.begin() + gone);
      }
      INFO("seed " << seed << " step " << step);
      check_all(allocator, held);
      for (const auto& one : held)
        REQUIRE_FALSE(allocator.is_shared(one.holder));
    }
  }
}

TEST_CASE("over any history each has its share in whole groups, knows whom it meets, and nothing is lost") {
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    Random random{seed};
    ComputeGroups allocator{static_cast<int>(1 + random.below(40))};
    std::vector<Holding> held;
    for (int step = 0; step < 60; ++step) {
      if (random.below(5) > 1) {
        // Also beyond one device: children run inside their parents' leases.
        const Share share{1 + random.below(random.below(2) == 0 ? 600 : Share::one)};
        held.push_back({allocator.take(share), share});
      } else if (!held.empty()) {
        const auto gone = random.below(static_cast<std::int64_t>(held.size()));
        allocator.give_back(held[static_cast<std::size_t>(gone)].holder);
        held.erase(held.begin() + gone);
      }
      INFO("seed " << seed << " step " << step);
      check_all(allocator, held);
    }
    for (const auto& one : held)
      allocator.give_back(one.holder);
    // As new: the whole device, in order.
    REQUIRE(allocator.free_count() == allocator.count());
    const auto all = allocator.take(Share::whole(1));
    REQUIRE(allocator.groups_of(all).size() == static_cast<std::size_t>(allocator.count()));
    REQUIRE_FALSE(allocator.is_shared(all));
  }
}
