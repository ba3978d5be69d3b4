// Brokers of two releases: what an earlier one does not know in full, it does not copy.
#include "memory_store.hpp"

#include <gpuactors/base/revisions.hpp>
#include <gpuactors/base/version.hpp>
#include <gpuactors/broker/core/state_copy.hpp>
#include <gpuactors/broker/core/state_feed.hpp>

#include <support/catch.hpp>
#include <support/results.hpp>

using namespace broker_test;
using namespace gpuactors;
using namespace gpuactors::test;
using Catch::Matchers::Contains;

namespace {

struct TwoReleases {
  TwoReleases() {
    source->put(StateSection::actors, std::uint64_t{1}, "one");
    must(source->commit());
  }

  /// The first answer to a follower, as a broker of another release would give it.
  v1::StateChanges first_answer(std::uint32_t revision) {
    auto answer = must(feed.read(copy.next()));
    auto& entry = *answer.mutable_entries(0);
    REQUIRE(entry.name() == revision_key);
    CHECK(entry.value() == std::to_string(state_revision));
    entry.set_value(std::to_string(revision));
    return answer;
  }

  std::shared_ptr<MemoryStore> source = std::make_shared<MemoryStore>();
  std::shared_ptr<MemoryStore> target = std::make_shared<MemoryStore>();
  StateFeed feed{source, 1};
  StateCopy copy{target, "b:1"};
};

} // namespace

TEST_CASE("a state of a later revision is not copied, and what was there stays", "[standby][releases]") {
  TwoReleases brokers;
  brokers.target->put(StateSection::actors, std::uint64_t{9}, "of before");
  must(brokers.target->commit());
  auto answer = brokers.first_answer(state_revision + 1);
  // What its other entries say is not looked at.
  answer.add_entries()->set_section(state_sections + 1);
  const auto taken = brokers.copy.take(answer);
  REQUIRE_FALSE(taken);
  CHECK(taken.error().code() == Errc::unsupported);
  CHECK_THAT(taken.error().message(), Contains("revision " + std::to_string(state_revision + 1)) && Contains(release)
                                          && Contains("upgrade the broker that stands by first"));
  CHECK_FALSE(brokers.copy.is_complete());
  CHECK(must(brokers.target->load(StateSection::actors)) == std::vector<StateEntry>{{std::uint64_t{9}, "of before"}});
}

TEST_CASE("a state of an earlier revision is copied, and its revision is no entry of it", "[standby][releases]") {
  TwoReleases brokers;
  auto more = brokers.copy.take(brokers.first_answer(state_revision - 1));
  while (must(std::move(more)))
    more = brokers.copy.take(must(brokers.feed.read(brokers.copy.next())));
  CHECK(brokers.copy.is_complete());
  CHECK(must(brokers.target->load(StateSection::actors)) == std::vector<StateEntry>{{std::uint64_t{1}, "one"}});
  CHECK(must(brokers.target->load(StateSection::ids)) == std::vector<StateEntry>{{std::string{copied_key}, "1"}});
}
