// How long threads poll before they sleep, and when they stop trying.
#include <gpuactors/base/look.hpp>

#include <catch2/catch.hpp>

using namespace gpuactors;

namespace {

/// How many of so many waits would poll, if each that does ends like this.
int polls_of(Looks& looks, int waits, Look look) {
  int result = 0;
  for (int i = 0; i < waits; ++i)
    if (looks.pays()) {
      ++result;
      looks.found(look);
    }
  return result;
}

} // namespace

TEST_CASE("threads poll longer for other processes where more than one processor is there", "[base][look]") {
  const auto one = look_times(1, "");
  const auto more = look_times(2, "");
  CHECK(one.far == std::chrono::microseconds{0});
  CHECK(one.message == short_look);
  CHECK(more.far > short_look);
  CHECK(more.message > short_look);
  CHECK(look_times(16, "") == more);
}

TEST_CASE("who knows better says how long threads poll", "[base][look]") {
  CHECK(look_times(1, "long") == look_times(16, ""));
  CHECK(look_times(16, "short") == look_times(1, ""));
  CHECK(look_times(16, "sideways") == look_times(16, ""));
}

TEST_CASE("a thread that polls in vain soon does so now and then only, until it finds something", "[base][look]") {
  Looks looks;
  CHECK(polls_of(looks, 4, {}) == 4);
  CHECK(polls_of(looks, 128, {}) == 2);
  CHECK(polls_of(looks, 64, {.found = true}) == 1);
  CHECK(polls_of(looks, 100, {.found = true}) == 100);
}

TEST_CASE("a thread that has yet to wait briefly does not poll", "[base][look]") {
  Looks looks{Looks::Begin::after_short_wait};
  CHECK(polls_of(looks, 10, {.found = true}) == 0);
  looks.waited(false);
  CHECK(polls_of(looks, 10, {.found = true}) == 0);
  looks.waited(true);
  CHECK(polls_of(looks, 10, {.found = true}) == 10);
  // After polls in vain, it waits for that again.
  CHECK(polls_of(looks, 1000, {}) == 4);
  looks.waited(true);
  CHECK(polls_of(looks, 10, {.found = true}) == 10);
}

TEST_CASE("a thread that others interrupt while it polls leaves that be for long", "[base][look]") {
  Looks looks;
  CHECK(polls_of(looks, 1, {.found = true, .interrupted = true}) == 1);
  CHECK(polls_of(looks, 4095, {.found = true}) == 0);
  CHECK(polls_of(looks, 100, {.found = true}) == 100);
}

TEST_CASE("a poll finds what is there at once, and ends at its time without", "[base][look]") {
  CHECK(look_until([] { return true; }, never).found);
  int asked = 0;
  const auto seen = look_until([&asked] { return ++asked == 1000; }, never);
  CHECK(seen.found);
  CHECK(asked == 1000);
  const auto until = Clock::now() + std::chrono::microseconds{100};
  CHECK_FALSE(look_until([] { return false; }, until).found);
  CHECK(Clock::now() >= until);
}

TEST_CASE("a poll says whether its thread was off its processor for as long as others compute", "[base][look]") {
  int asked = 0;
  const auto seen = look_until(
      [&asked] {
        if (++asked < 1000)
          return false;
        for (const auto back = Clock::now() + std::chrono::milliseconds{2}; Clock::now() < back;) {
        }
        return true;
      },
      never);
  CHECK(seen.found);
  CHECK(seen.interrupted);
}
