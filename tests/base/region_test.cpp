#include <gpuactors/base/descriptor.hpp>
#include <gpuactors/base/region.hpp>

#include <support/catch.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

using namespace gpuactors;
using detail::Descriptor;

namespace {

constexpr std::size_t mib = 1U << 20;

std::string text_of(const SharedRegion& region) {
  return {reinterpret_cast<const char*>(region.data()), region.size()};
}

/// What another process would do with the descriptors.
Result<SharedRegion> mapped(const SharedRegion& region, std::size_t bytes,
                            const std::shared_ptr<MappedRegions>& regions = MappedRegions::create()) {
  GPUACTORS_LET(descriptors, region.descriptors());
  return regions->map(Descriptor{::fcntl(descriptors.memory, F_DUPFD_CLOEXEC, 0)},
                      Descriptor{::fcntl(descriptors.token, F_DUPFD_CLOEXEC, 0)}, bytes, 7);
}

} // namespace

TEST_CASE("a region holds what was written, and handles count it", "[region]") {
  const auto pool = RegionPool::create();
  const std::string text = "once written, never changed";
  auto region = pool->copy(text.data(), text.size(), RegionReaders::machine);
  REQUIRE(region.has_value());
  const auto second = *region;
  *region = {};
  CHECK_FALSE(static_cast<bool>(*region));
  CHECK(text_of(second) == text);
}

TEST_CASE("a region of no bytes is a region", "[region]") {
  const auto region = RegionPool::create()->copy(nullptr, 0, RegionReaders::machine);
  REQUIRE(region.has_value());
  CHECK(static_cast<bool>(*region));
  CHECK(region->size() == 0);
}

TEST_CASE("regions are aligned as device memory is", "[region]") {
  const auto pool = RegionPool::create();
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{300}, 100'000 * std::size_t{1}, 5 * mib})
    for (const auto readers : {RegionReaders::process, RegionReaders::machine}) {
      auto draft = pool->make(bytes, readers);
      REQUIRE(draft.has_value());
      CHECK(reinterpret_cast<std::uintptr_t>(draft->data()) % 256 == 0);
    }
}

TEST_CASE("large regions for the machine can be mapped, small ones and those for the process cannot", "[region]") {
  const auto pool = RegionPool::create();
  const std::vector<char> bytes(mib, 'x');
  CHECK(pool->copy(bytes.data(), mib, RegionReaders::machine)->is_mappable());
  CHECK_FALSE(pool->copy(bytes.data(), mib, RegionReaders::process)->is_mappable());
  const auto small = pool->copy(bytes.data(), limits::region_mappable_from - 1, RegionReaders::machine);
  CHECK_FALSE(small->is_mappable());
  CHECK(small->descriptors().error().code() == Errc::unsupported);
}

TEST_CASE("mappable regions are bounded, further ones are ordinary memory", "[region]") {
  RegionPoolOptions options;
  options.mappable_most = 2;
  const auto pool = RegionPool::create(options);
  std::vector<SharedRegion> regions;
  for (int i = 0; i < 3; ++i)
    regions.push_back(std::move(*pool->make(mib, RegionReaders::machine)).seal());
  CHECK(regions[0].is_mappable());
  CHECK(regions[1].is_mappable());
  CHECK_FALSE(regions[2].is_mappable());
}

TEST_CASE("a mapped region shows the same bytes without a copy, and outlives its owner", "[region]") {
  const auto pool = RegionPool::create();
  auto draft = pool->make(mib, RegionReaders::machine);
  std::memset(draft->data(), 'a', mib);
  auto owned = std::move(*draft).seal();
  const auto other = mapped(owned, mib);
  REQUIRE(other.has_value());
  CHECK(other->data() != owned.data());
  CHECK(other->data()[mib - 1] == std::byte{'a'});
  owned = {};
  pool->trim();
  CHECK(other->data()[0] == std::byte{'a'});
}

TEST_CASE("nobody can change or cut what was shared", "[region]") {
  const auto pool = RegionPool::create();
  const auto region = std::move(*pool->make(mib, RegionReaders::machine)).seal();
  const int memory = region.descriptors()->memory;
  CHECK(::ftruncate(memory, 0) != 0);
  CHECK(::ftruncate(memory, 2 * mib) != 0);
  CHECK(::pwrite(memory, "x", 1, 0) != 1);
  CHECK(::mmap(nullptr, mib, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0) == MAP_FAILED);
}

TEST_CASE("memory that its owner could still cut is not mapped", "[region]") {
  Descriptor memory{::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  REQUIRE(::ftruncate(memory.get(), mib) == 0);
  const auto regions = MappedRegions::create();
  const auto unsealed = regions->map(std::move(memory), {}, mib, 7);
  REQUIRE_FALSE(unsealed.has_value());
  CHECK(unsealed.error().code() == Errc::invalid_argument);
  CHECK(regions->map(Descriptor{::open("/dev/null", O_RDONLY | O_CLOEXEC)}, {}, mib, 7).error().code()
        == Errc::invalid_argument);
  const auto pool = RegionPool::create();
  const auto region = std::move(*pool->make(mib, RegionReaders::machine)).seal();
  CHECK(mapped(region, 2 * mib).error().code() == Errc::invalid_argument);
}

TEST_CASE("memory of a region that ended serves the next one", "[region]") {
  const auto pool = RegionPool::create();
  for (const auto readers : {RegionReaders::process, RegionReaders::machine}) {
    const std::byte* first = nullptr;
    {
      const auto region = std::move(*pool->make(3 * mib, readers)).seal();
      first = region.data();
    }
    CHECK(pool->warm_bytes() >= 3 * mib);
    CHECK(pool->make(3 * mib - 100, readers)->data() == first);
  }
}

TEST_CASE("memory that another process still maps is not used again", "[region]") {
  const auto pool = RegionPool::create();
  auto other = Result<SharedRegion>{SharedRegion{}};
  {
    auto draft = pool->make(mib, RegionReaders::machine);
    std::memset(draft->data(), 'a', mib);
    const auto region = std::move(*draft).seal();
    other = mapped(region, mib);
    REQUIRE(other.has_value());
  }
  CHECK(pool->warm_bytes() == 0);
  auto next = pool->make(mib, RegionReaders::machine);
  std::memset(next->data(), 'b', mib);
  CHECK(other->data()[0] == std::byte{'a'});
}

TEST_CASE("memory whose first draft was given up is mapped by others like any other", "[region]") {
  const auto pool = RegionPool::create();
  const std::byte* first = nullptr;
  {
    auto draft = pool->make(mib, RegionReaders::machine);
    first = draft->data();
  }
  auto again = pool->make(mib, RegionReaders::machine);
  REQUIRE(again->data() == first);
  std::memset(again->data(), 'd', mib);
  const auto region = std::move(*again).seal();
  const auto other = mapped(region, mib);
  REQUIRE(other.has_value());
  CHECK(other->data()[7] == std::byte{'d'});
}

TEST_CASE("memory that was mapped before, but is not any more, is used again", "[region]") {
  const auto pool = RegionPool::create();
  const std::byte* first = nullptr;
  {
    const auto region = std::move(*pool->make(mib, RegionReaders::machine)).seal();
    first = region.data();
    REQUIRE(mapped(region, mib).has_value()); // and let go at once
  }
  auto again = pool->make(mib, RegionReaders::machine);
  CHECK(again->data() == first);
  std::memset(again->data(), 'c', mib);
  const auto region = std::move(*again).seal();
  CHECK(mapped(region, mib)->data()[7] == std::byte{'c'});
}

TEST_CASE("no more memory is kept than the bound says", "[region]") {
  RegionPoolOptions options;
  options.warm_bytes = 2 * mib;
  const auto pool = RegionPool::create(options);
  {
    std::vector<RegionDraft> drafts;
    for (int i = 0; i < 5; ++i)
      drafts.push_back(std::move(*pool->make(mib, RegionReaders::process)));
    drafts.push_back(std::move(*pool->make(4 * mib, RegionReaders::machine)));
  }
  CHECK(pool->warm_bytes() == 2 * mib);
  pool->trim();
  CHECK(pool->warm_bytes() == 0);
}

TEST_CASE("memory beyond the bound is kept for a while by who ends it again", "[region]") {
  RegionPoolOptions options;
  options.warm_bytes = 2 * mib;
  const auto pool = RegionPool::create(options);
  int told = 0;
  pool->keep_spare(8 * mib, [&told] { ++told; });
  const auto use = [&pool](std::size_t bytes) {
    auto draft = pool->make(bytes, RegionReaders::machine);
    return draft->data();
  };
  const auto before = Clock::now();
  use(mib);
  CHECK(told == 0);
  const auto* first = use(4 * mib);
  CHECK(told == 1);
  CHECK(pool->warm_bytes() == 5 * mib);
  CHECK(use(4 * mib) == first);
  CHECK(pool->end_spare(before).value() >= before);
  CHECK(pool->warm_bytes() == 5 * mib);
  use(16 * mib); // too much even so
  CHECK(pool->warm_bytes() == 5 * mib);

  CHECK_FALSE(pool->end_spare(Clock::now()).has_value());
  CHECK(pool->warm_bytes() == 0); // the oldest was small, and what is left above the bound goes as a whole
  pool->keep_spare(0, {});
  use(4 * mib);
  CHECK(pool->warm_bytes() == 0);
  use(2 * mib);
  CHECK(pool->warm_bytes() == 2 * mib);
}

TEST_CASE("what no machine has is refused in words", "[region]") {
  const auto pool = RegionPool::create();
  const auto refused = pool->make(~std::size_t{0} - 5, RegionReaders::machine);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == Errc::out_of_memory);
  CHECK(pool->make(std::size_t{1} << 62, RegionReaders::machine).error().code() == Errc::out_of_memory);
}

TEST_CASE("regions outlive their pool", "[region]") {
  auto pool = RegionPool::create();
  const std::string text(2 * mib, 'z');
  const auto region = pool->copy(text.data(), text.size(), RegionReaders::machine);
  pool.reset();
  CHECK(text_of(*region) == text);
}

TEST_CASE("a mapping that nobody reads any more serves the next region in the same memory", "[region]") {
  const auto pool = RegionPool::create();
  const auto regions = MappedRegions::create();
  const std::byte* first = nullptr;
  for (const char text : {'a', 'b', 'c'}) { // the first is written to the file, the others into its pages
    const auto region = pool->copy(std::string(mib, text).data(), mib, RegionReaders::machine);
    const auto other = mapped(*region, mib, regions);
    REQUIRE(other.has_value());
    CHECK(other->data()[mib - 1] == static_cast<std::byte>(text));
    CHECK((first == nullptr || other->data() == first));
    first = other->data();
    CHECK(regions->warm_bytes() == 0);
  }
  CHECK(regions->warm_bytes() == mib);
  regions->drop(8); // somebody else
  CHECK(regions->warm_bytes() == mib);
  regions->drop(7);
  CHECK(regions->warm_bytes() == 0);
}

TEST_CASE("a kept mapping does not serve memory that its owner has made larger meanwhile", "[region]") {
  const auto regions = MappedRegions::create();
  const Descriptor memory{::memfd_create("grows", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  REQUIRE(::ftruncate(memory.get(), static_cast<off_t>(mib)) == 0);
  REQUIRE(::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE) == 0);
  const auto map = [&](std::size_t bytes) {
    return regions->map(Descriptor{::fcntl(memory.get(), F_DUPFD_CLOEXEC, 0)}, Descriptor{}, bytes, 7);
  };
  REQUIRE(map(mib));
  CHECK(regions->warm_bytes() == mib);
  REQUIRE(::ftruncate(memory.get(), static_cast<off_t>(64 * mib)) == 0);
  const auto larger = map(64 * mib);
  REQUIRE(larger);
  CHECK(larger->data()[64 * mib - 1] == std::byte{});
}

TEST_CASE("nothing of an owner that was dropped is kept, and no more than the bound says of others", "[region]") {
  const auto pool = RegionPool::create();
  const auto regions = MappedRegions::create(2 * mib);
  const auto region = std::move(*pool->make(mib, RegionReaders::machine)).seal();
  auto first = mapped(region, mib, regions);
  auto second = mapped(region, mib, regions);
  CHECK(first->data() != second->data());
  *first = {};
  CHECK(regions->warm_bytes() == mib);
  *second = {}; // the same memory: once is enough
  CHECK(regions->warm_bytes() == mib);
  first = mapped(region, mib, regions);
  regions->drop(7);
  *first = {};
  CHECK(regions->warm_bytes() == 0);
  const auto large = std::move(*pool->make(3 * mib, RegionReaders::machine)).seal();
  (void)mapped(large, 3 * mib, regions);
  CHECK(regions->warm_bytes() == 0);
}
