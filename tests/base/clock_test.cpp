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
}
