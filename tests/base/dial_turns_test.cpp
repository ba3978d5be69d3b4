#include <gpuactors/base/dial_turns.hpp>

#include <support/catch.hpp>

using namespace gpuactors;
using namespace std::chrono_literals;

TEST_CASE("addresses are dialled in turn, and pauses grow with each round up to the longest") {
  DialTurns turns{2};
  CHECK(turns.at() == 0);
  for (const auto pause : {20ms, 20ms, 40ms, 40ms, 80ms})
    CHECK(turns.lost(0) == pause);
  CHECK(turns.at() == 1);
  for (int i = 0; i < 20; ++i)
    turns.lost(0);
  CHECK(turns.lost(0) == limits::redial_longest);
  CHECK(turns.lost(~std::uint64_t{}) <= 1250ms);
  turns.connected();
  CHECK(turns.lost(0) == limits::redial_shortest);
}

TEST_CASE("whoever is refused again and again pauses longer, and no round takes longer than a new broker waits") {
  DialTurns turns{2};
  Duration round{};
  for (int i = 0; i < 20; ++i) {
    round = limits::connect_timeout + turns.lost(~std::uint64_t{});
    turns.connected();
    round += turns.refused(~std::uint64_t{});
  }
  CHECK(round > limits::connect_timeout + 300ms);
  CHECK(round < limits::settle);
  // A connection that is of use, and is lost.
  turns.connected();
  turns.lost(0);
  turns.connected();
  CHECK(turns.refused(0) == 40ms);
}
