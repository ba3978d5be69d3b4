// Ids that nobody can guess: distinct on all threads, and in processes that are forked.
#include <gpuactors/base/random_id.hpp>

#include <support/catch.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

using gpuactors::random_id;

namespace {

std::vector<std::uint64_t> draw(std::size_t count) {
  std::vector<std::uint64_t> numbers(count);
  std::generate(numbers.begin(), numbers.end(), random_id);
  return numbers;
}

/// Returns what a forked child drew, in which only this thread lives.
std::vector<std::uint64_t> drawn_in_a_child(std::size_t count) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const auto bytes = static_cast<ssize_t>(count * sizeof(std::uint64_t));
  const auto child = ::fork();
  if (child == 0) {
    const auto numbers = draw(count);
    ::_exit(::write(ends[1], numbers.data(), count * sizeof(std::uint64_t)) == bytes ? 0 : 1);
  }
  REQUIRE(child > 0);
  ::close(ends[1]);
  std::vector<std::uint64_t> numbers(count);
  CHECK(::read(ends[0], numbers.data(), count * sizeof(std::uint64_t)) == bytes);
  ::close(ends[0]);
  int status = 1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  return numbers;
}

} // namespace

TEST_CASE("random ids of many threads differ, and none is zero") {
  constexpr std::size_t each = 10'000;
  std::vector<std::vector<std::uint64_t>> drawn(4);
  std::vector<std::thread> threads;
  for (auto& numbers : drawn)
    threads.emplace_back([&numbers] { numbers = draw(each); });
  for (auto& thread : threads)
    thread.join();
  std::set<std::uint64_t> all;
  for (const auto& numbers : drawn)
    all.insert(numbers.begin(), numbers.end());
  CHECK(all.size() == drawn.size() * each);
  CHECK(all.count(0) == 0);
}

TEST_CASE("a forked process draws other random ids than its parent, and than its brother") {
  draw(1); // so that the parent has some left
  const auto first = drawn_in_a_child(5);
  const auto second = drawn_in_a_child(5);
  const auto own = draw(5);
  std::set<std::uint64_t> all{own.begin(), own.end()};
  all.insert(first.begin(), first.end());
  all.insert(second.begin(), second.end());
  CHECK(all.size() == own.size() + first.size() + second.size());
}
