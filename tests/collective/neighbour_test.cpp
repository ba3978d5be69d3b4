// A member that looks for its neighbour while that begins another life.
#include <gpuactors/base/result.hpp>
#include <gpuactors/collective/detail/neighbour.hpp>

#include <support/catch.hpp>
#include <support/results.hpp>

#include <deque>
#include <optional>

using namespace gpuactors;
using namespace gpuactors::test;

namespace {

/// A reference to the life of this number.
struct Life {
  int number = 0;
  bool gone = false;

  [[nodiscard]] bool away() const {
    return gone;
  }
};

/// What look-ups find, one after the other, and how often there is time for another one.
struct Search {
  std::deque<Result<Life>> finds;
  int pauses = 0;
  int paused = 0;

  Result<Life> look() {
    const auto find = [&] {
      auto found = finds.at(0);
      finds.pop_front();
      return found;
    };
    const auto pause = [&] { return ++paused <= pauses; };
    return detail::find_present(find, pause);
  }
};

} // namespace

TEST_CASE("a neighbour that has just ended is looked for until it lives again", "[collective]") {
  Search search{{Life{1, true}, Life{1, true}, Life{2}, Life{3}}, 10};
  CHECK(must(search.look()).number == 2);
  CHECK(search.paused == 2);
  CHECK(search.finds.size() == 1);
  // One that is there is not looked for twice.
  CHECK(must(search.look()).number == 3);
  CHECK(search.paused == 2);
}

TEST_CASE("a neighbour that does not live again is given up when the time is over, or the broker says so",
          "[collective]") {
  Search late{{Life{1, true}, Life{1, true}, Life{2}}, 1};
  CHECK(must(late.look()).away());
  CHECK(late.finds.size() == 1);
  Search ended{{Life{1, true}, fail(Errc::not_found, "it has ended")}, 10};
  CHECK(code_of(ended.look()) == Errc::not_found);
  CHECK(ended.paused == 1);
}
