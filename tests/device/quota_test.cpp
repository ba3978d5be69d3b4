// The ledger of device memory: exact at its limit, shared with its parents, and true under many threads.
#include <gpuactors/device/quota.hpp>
#include <gpuactors/device/reservation.hpp>

#include <support/catch.hpp>
#include <support/results.hpp>

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

using namespace gpuactors;

TEST_CASE("a quota can be filled to its last byte and not beyond") {
  Quota quota{"actor trainer", 1000};
  REQUIRE(quota.reserve(600));
  REQUIRE(quota.reserve(400));
  const auto refused = quota.reserve(1);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == Errc::out_of_memory);
  quota.release(400);
  CHECK(quota.used() == 600);
  CHECK(quota.peak() == 1000);
}

TEST_CASE("a refusal names holder, asked, used and limit") {
  Quota quota{"actor trainer", 1 << 20};
  REQUIRE(quota.reserve(1024));
  const auto refused = quota.reserve(2 << 20);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message()
        == "actor trainer asked for 2097152 B (2 MiB) of device memory with 1024 B used of its limit of 1048576 B "
           "(1 MiB)");
}

TEST_CASE("a reservation that would overflow is refused, not wrapped around") {
  Quota quota{"x", 1000};
  REQUIRE(quota.reserve(999));
  CHECK_FALSE(quota.reserve(UINT64_MAX));
  CHECK_FALSE(quota.reserve(UINT64_MAX - 900));
  CHECK(quota.used() == 999);
}

TEST_CASE("what a child holds its parents hold too, and a parent's refusal leaves no trace in the child") {
  auto lease = std::make_shared<Quota>("lease", 100);
  Quota first{"first", 80, lease};
  Quota second{"second", 80, lease};
  REQUIRE(first.reserve(70));
  const auto refused = second.reserve(40);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message()
        == "second: lease cannot give 40 B (40 B) of device memory to what runs inside it, with 70 B used of its limit "
           "of 100 B (100 B), 70 B of them by what runs inside it");
  REQUIRE(lease->reserve(30));
  CHECK(lease->reserve(1).error().message()
        == "lease asked for 1 B (1 B) of device memory with 100 B used of its limit of 100 B (100 B), 70 B of them by "
           "what runs inside it");
  lease->release(30);
  CHECK(second.used() == 0);
  CHECK(second.peak() == 0);
  REQUIRE(second.reserve(30));
  CHECK(lease->used() == 100);
  first.release(70);
  second.release(30);
  CHECK(lease->used() == 0);
  CHECK(lease->peak() == 100);
}

TEST_CASE("many threads never pass a limit together, and give everything back") {
  constexpr std::uint64_t limit = 64;
  auto parent = std::make_shared<Quota>("lease", limit);
  Quota left{"left", limit, parent};
  Quota right{"right", limit, parent};
  std::atomic<std::uint64_t> held{0};
  std::atomic<bool> passed{false};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      auto& quota = t % 2 == 0 ? left : right;
      for (std::uint64_t i = 0; i < 20'000; ++i) {
        const auto bytes = (i * 7 + t) % 40 + 1;
        if (!quota.reserve(bytes))
          continue;
        if (held.fetch_add(bytes) + bytes > limit)
          passed = true;
        held.fetch_sub(bytes);
        quota.release(bytes);
      }
    });
  for (auto& thread : threads)
    thread.join();
  CHECK_FALSE(passed);
  CHECK(left.used() + right.used() + parent->used() == 0);
  CHECK(parent->peak() <= limit);
}

TEST_CASE("a reservation counts until it is destroyed, moved or not") {
  const auto quota = std::make_shared<Quota>("actor trainer", 1000);
  auto first = test::must(Reservation::of(quota, 600));
  CHECK(first.bytes() == 600);
  const auto refused = Reservation::of(quota, 401);
  CHECK(test::code_of(refused) == Errc::out_of_memory);
  CHECK(quota->used() == 600);
  {
    auto second = test::must(Reservation::of(quota, 400));
    auto third = std::move(second);
    CHECK(second.bytes() == 0); // NOLINT(bugprone-use-after-move)
    CHECK(quota->used() == 1000);
    first = std::move(third); // gives back what it was
    CHECK(quota->used() == 400);
  }
  CHECK(first.bytes() == 400);
  first = Reservation{};
  CHECK(quota->used() == 0);
}

TEST_CASE("who keeps freed memory is told what is beside it: reservations, and the limits of quotas below") {
  auto lease = std::make_shared<Quota>("lease", 1000);
  std::vector<std::uint64_t> told;
  lease->on_beside([&](std::uint64_t bytes) { told.push_back(bytes); });
  {
    const auto child = std::make_shared<Quota>("child", 300, lease);
    const auto own = test::must(Reservation::of(lease, 100));
    // It is within the limit of the child.
    const auto below = test::must(Reservation::of(child, 200));
    CHECK(lease->used() == 300);
  }
  CHECK(told == std::vector<std::uint64_t>{300, 400, 300, 0});
  lease->on_beside(nullptr);
}

TEST_CASE("a reservation keeps its quota, and may end on another thread") {
  auto quota = std::make_shared<Quota>("actor trainer", 1000);
  const std::weak_ptr<Quota> watched = quota;
  auto reservation = test::must(Reservation::of(std::move(quota), 600));
  CHECK(watched.lock()->used() == 600);
  std::thread{[moved = std::move(reservation)] {}}.join();
  CHECK(watched.expired());
}
