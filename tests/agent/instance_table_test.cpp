#include <gpuactors/agent/core/instance_table.hpp>

#include <support/catch.hpp>

using namespace gpuactors;

namespace {

std::map<std::string, Share> cores(std::int64_t count) {
  return {{"neuron_cores", Share::whole(count)}};
}

using Ids = std::vector<int>;

} // namespace

TEST_CASE("a lease gets the lowest free units, and gives them back") {
  InstanceTable table{cores(4)};
  CHECK(table.take(LeaseId{1}, {}, cores(1))->at("neuron_cores") == Ids{0});
  CHECK(table.take(LeaseId{2}, {}, cores(2))->at("neuron_cores") == Ids{1, 2});
  table.give_back(LeaseId{1});
  table.give_back(LeaseId{1});
  CHECK(table.free().at("neuron_cores") == Ids{0, 3});
  CHECK(table.take(LeaseId{3}, {}, cores(2))->at("neuron_cores") == Ids{0, 3});
  const auto none = table.take(LeaseId{4}, {}, cores(1));
  REQUIRE_FALSE(none);
  CHECK(none.error() == Error{Errc::internal, "lease 4 was granted 1 neuron_cores, and 0 are left on its node"});
}

TEST_CASE("only accelerators without fractions have units") {
  InstanceTable table{{{"licenses", Share::whole(3)}, {"neuron_cores", Share::whole(1)}}};
  CHECK(table.take(LeaseId{1}, {}, {{"licenses", Share{5000}}})->empty());
  CHECK(table.free() == Instances{{"neuron_cores", {0}}});
}

TEST_CASE("children share the units of the lease that lends to them") {
  InstanceTable table{cores(3)};
  CHECK(table.take(LeaseId{1}, {}, cores(3))->at("neuron_cores") == Ids{0, 1, 2});
  CHECK(table.take(LeaseId{2}, LeaseId{1}, cores(2))->at("neuron_cores") == Ids{0, 1});
  CHECK(table.take(LeaseId{3}, LeaseId{1}, cores(1))->at("neuron_cores") == Ids{2});
  CHECK(table.take(LeaseId{4}, LeaseId{2}, cores(1))->at("neuron_cores") == Ids{0});
  table.give_back(LeaseId{3});
  CHECK(table.take(LeaseId{5}, LeaseId{1}, cores(1))->at("neuron_cores") == Ids{2});
  CHECK(table.free().at("neuron_cores").empty());
}

TEST_CASE("what a lease gives back while others hold some of it stays with those") {
  InstanceTable table{cores(3)};
  REQUIRE(table.take(LeaseId{1}, {}, cores(3)));
  REQUIRE(table.take(LeaseId{2}, LeaseId{1}, cores(2)));
  REQUIRE(table.take(LeaseId{3}, LeaseId{2}, cores(1)));
  table.give_back(LeaseId{1});
  CHECK(table.free().at("neuron_cores") == Ids{2});
  table.give_back(LeaseId{2});
  CHECK(table.free().at("neuron_cores") == Ids{1, 2});
  table.give_back(LeaseId{3});
  CHECK(table.free().at("neuron_cores") == Ids{0, 1, 2});
}
