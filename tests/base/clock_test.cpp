// Times from the wire and from users, however long they are.
#include <gpuactors/base/clock.hpp>

#include <support/catch.hpp>

#include <limits>

using namespace gpuactors;
using namespace std::chrono_literals;

TEST_CASE("milliseconds beyond what a duration can be are the longest duration, not a negative one", "[base]") {
  CHECK(from_milliseconds(0) == 0s);
  CHECK(from_milliseconds(1'500) == 1'500ms);
  CHECK(from_milliseconds(std::numeric_limits<std::uint64_t>::max()) == Duration::max());
  // What "no limit" becomes on the wire: rounded up to whole milliseconds.
  const auto rounded = std::chrono::ceil<std::chrono::milliseconds>(Duration::max()).count();
  CHECK(from_milliseconds(static_cast<std::uint64_t>(rounded)) == Duration::max());
  CHECK(from_milliseconds(static_cast<std::uint64_t>(rounded) - 1) <= Duration::max());
  CHECK(deadline_after(Clock::now(), Duration::max()) == never);
  CHECK(deadline_after(never, 0s) == never);
  CHECK(deadline_after(TimePoint{-25h}, 24h) == TimePoint{-1h});
  CHECK(deadline_after(TimePoint{-25h}, Duration::max()) == never);
}

TEST_CASE("seconds and milliseconds become durations that are never too short, and never overflow", "[base]") {
  CHECK(from_seconds(0.5) == 500ms);
  CHECK(from_seconds(1e-12) == 1ns);
  CHECK(from_seconds(0) == 0s);
  CHECK(from_seconds(-1) == 0s);
  CHECK(from_seconds(std::numeric_limits<double>::quiet_NaN()) == 0s);
  CHECK(from_seconds(1e300) == Duration::max());
  CHECK(from_seconds(std::numeric_limits<double>::infinity()) == Duration::max());
  CHECK(to_seconds(1'500ms) == 1.5);
  CHECK(to_milliseconds(1'500us) == 2);
  CHECK(to_milliseconds(0s) == 0);
  CHECK(to_milliseconds(-1s) == 0);
}
