// ThreadCache: what a thread keeps is gone while the thread ends, and nobody gets it then.
#include <gpuactors/base/thread_cache.hpp>

#include <support/catch.hpp>

#include <functional>
#include <string>
#include <thread>

using gpuactors::ThreadCache;

namespace {

struct Mine {};
struct Others {};

/// Calls a function when the thread ends.
struct AtEnd {
  std::function<void()> function;
  ~AtEnd() {
    function();
  }
};

} // namespace

TEST_CASE("each thread keeps values of its own, by tag") {
  *ThreadCache<std::string, Mine>::get() = "kept";
  CHECK(*ThreadCache<std::string, Mine>::get() == "kept");
  CHECK(ThreadCache<std::string, Others>::get()->empty());
  std::thread{[] { CHECK(ThreadCache<std::string, Mine>::get()->empty()); }}.join();
}

TEST_CASE("nothing is kept for who is called while a thread ends") {
  bool was_there = true;
  std::thread{[&] {
    // Older than what is kept, so that it ends later.
    thread_local AtEnd end{[&] { was_there = ThreadCache<std::string, Mine>::get() != nullptr; }};
    static_cast<void>(end);
    *ThreadCache<std::string, Mine>::get() = "a buffer that is longer than what a string keeps in itself";
  }}.join();
  CHECK_FALSE(was_there);
}
