// Two processes that connect to each other at one moment have two connections: they agree on one of them.
#include "linked_process.hpp"
#include "relay.hpp"

#include <support/catch.hpp>
#include <support/eventually.hpp>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

/// Two processes and the lines between them, over which both have dialled before either has heard of the other.
struct Crossed {
  explicit Crossed(const LinkOptions& options = {})
    : first(options), second(options), to_first(first.address()), to_second(second.address()) {
    to_first.from_dialler.close();
    to_second.from_dialler.close();
    auto there = first.connect_async(to_second.address());
    auto back = second.connect_async(to_first.address());
    handle_of_second = there.get();
    handle_of_first = back.get();
    to_first.from_dialler.open();
    to_second.from_dialler.open();
    REQUIRE(handle_of_first);
    REQUIRE(handle_of_second);
  }

  LinkedProcess first;
  LinkedProcess second;
  Relay to_first;
  Relay to_second;
  Result<caf::strong_actor_ptr> handle_of_first = nullptr;
  Result<caf::strong_actor_ptr> handle_of_second = nullptr;
};

} // namespace

TEST_CASE("processes that connect to each other at one moment answer each other", "[wire]") {
  Crossed crossed;
  for (int round = 0; round < 3; ++round) {
    CHECK(crossed.first.ask(*crossed.handle_of_second));
    CHECK(crossed.second.ask(*crossed.handle_of_first));
  }
}

TEST_CASE("of two connections between two processes one is left after a while, and both use it", "[wire]") {
  LinkOptions options;
  options.heartbeat = 50ms;
  options.timeout = 1s;
  Crossed crossed{options};
  // The end of the test is one of the other process, too: what it is told must be there then.
  const auto gone = std::make_shared<std::promise<void>>();
  crossed.first.links().on_end(*crossed.handle_of_second, [gone] { gone->set_value(); });
  REQUIRE(eventually([&] { return crossed.to_first.open() + crossed.to_second.open() == 1; }));
  CHECK(crossed.first.ask(*crossed.handle_of_second));
  CHECK(crossed.second.ask(*crossed.handle_of_first));
  // Neither has taken the other for dead.
  CHECK(gone->get_future().wait_for(0s) == std::future_status::timeout);
}
