#include <gpuactors/base/random_id.hpp>

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <random>
#include <span>
#include <utility>

namespace gpuactors {

namespace {

/// How often this process has come from a fork. The numbers that the parent had fetched are the parent's.
std::atomic<std::uint64_t> forks{0};

/// Fetched by one thread together, since most of what it costs is to ask the system.
struct Fetched {
  std::array<std::uint64_t, 32> numbers{}; // 256 bytes, the most that `getentropy` gives
  std::size_t left = 0;
  std::uint64_t forks = 0;
};

void fetch(std::span<std::uint64_t> numbers) {
  // Each `std::random_device` asks the processor first what it can do, which takes a virtual machine some 10 us.
  if (::getentropy(numbers.data(), numbers.size_bytes()) == 0)
    return;
  std::random_device random;
  for (auto& number : numbers)
    number = std::uint64_t{random()} << 32U | random();
}

} // namespace

std::uint64_t random_id() {
  static const bool forks_are_seen = ::pthread_atfork(nullptr, nullptr, [] { ++forks; }) == 0;
  thread_local Fetched fetched;
  if (const auto now = forks.load(std::memory_order_relaxed); fetched.left == 0 || fetched.forks != now) {
    const auto count = forks_are_seen ? fetched.numbers.size() : 1;
    fetch(std::span{fetched.numbers}.first(count));
    fetched.left = count;
    fetched.forks = now;
  }
  // Whoever reads this memory later does not learn which numbers there were.
  return std::exchange(fetched.numbers[--fetched.left], 0) | 1U;
}

} // namespace gpuactors
