#include <gpuactors/base/result.hpp>

#include <support/catch.hpp>

#include <memory>
#include <utility>
#include <vector>

using namespace gpuactors;

TEST_CASE("every error code has a name, a number that comes back, and a remedy", "[base]") {
  int known = 0;
  for (int number = 0; number < 256; ++number) {
    const auto code = static_cast<Errc>(number);
    if (to_string(code) == "unknown") {
      CHECK(errc_from_number(static_cast<std::uint8_t>(number)) == Errc::internal);
      CHECK(remedy_of(code) == Remedy::report);
      continue;
    }
    ++known;
    CHECK(errc_from_number(static_cast<std::uint8_t>(number)) == code);
    CHECK((remedy_of(code) == Remedy::none) == (code == Errc::none));
  }
  CHECK(known == 25);
}

TEST_CASE("wire numbers of error codes never change", "[base]") {
  const std::vector<std::pair<Errc, int>> numbers = {
      {Errc::none, 0},
      {Errc::no_capacity, 1},
      {Errc::queue_full, 2},
      {Errc::unavailable, 3},
      {Errc::infeasible, 10},
      {Errc::invalid_argument, 11},
      {Errc::unsupported, 12},
      {Errc::not_found, 13},
      {Errc::already_exists, 14},
      {Errc::permission_denied, 15},
      {Errc::lease_expired, 20},
      {Errc::lease_revoked, 21},
      {Errc::stale_epoch, 22},
      {Errc::cancelled, 23},
      {Errc::deadline_exceeded, 24},
      {Errc::out_of_memory, 30},
      {Errc::launch_failed, 31},
      {Errc::copy_failed, 32},
      {Errc::task_failed, 33},
      {Errc::actor_died, 34},
      {Errc::not_begun, 35},
      {Errc::context_lost, 40},
      {Errc::device_lost, 41},
      {Errc::worker_died, 42},
      {Errc::internal, 50},
  };
  for (const auto& [code, number] : numbers) {
    INFO(to_string(code));
    CHECK(static_cast<int>(code) == number);
  }
  CHECK(numbers.size() == 25);
}

namespace {

Result<int> half(int x) {
  if (x % 2 != 0)
    return fail(Errc::invalid_argument, "odd");
  return x / 2;
}

Result<std::unique_ptr<int>> quarter(int x) {
  GPUACTORS_LET(h, half(x));
  GPUACTORS_LET(q, half(h));
  return std::make_unique<int>(q);
}

} // namespace

TEST_CASE("a result passes values through and stops at the first error", "[base]") {
  CHECK(**quarter(8) == 2);
  const auto failed = quarter(6);
  REQUIRE_FALSE(failed.has_value());
  CHECK(failed.error() == Error{Errc::invalid_argument, "odd"});
  CHECK(to_string(failed.error()) == "invalid_argument: odd");
  CHECK(failed.error().remedy() == Remedy::give_up);
  CHECK(half(3).value_or(7) == 7);
}

TEST_CASE("work that was lost is told from work that failed", "[base]") {
  std::vector<Errc> losses;
  for (const auto code : all_errors())
    if (is_loss(code))
      losses.push_back(code);
  CHECK(
      losses
      == std::vector{Errc::lease_revoked, Errc::actor_died, Errc::context_lost, Errc::device_lost, Errc::worker_died});
}

TEST_CASE("the error of a result can be thrown with its code, and its value be taken", "[base]") {
  CHECK(value_or_throw(Result<std::unique_ptr<int>>{std::make_unique<int>(7)}) != nullptr);
  value_or_throw(Result<void>{});
  try {
    value_or_throw(Result<int>{fail(Errc::out_of_memory, "no room")});
    FAIL("it did not throw");
  } catch (const FailedResult& failed) {
    CHECK(failed.error() == Error{Errc::out_of_memory, "no room"});
    CHECK(std::string_view{failed.what()} == "no room");
  }
}

TEST_CASE("a result is made only of what is meant as its value", "[base]") {
  // Asked as a bool, an error of another result would be a success that says `false`.
  CHECK_FALSE(std::is_constructible_v<Result<bool>, Result<int>>);
  CHECK_FALSE(std::is_constructible_v<Result<bool>, Result<void>>);
  // Five elements are not what somebody means who returns 5.
  CHECK_FALSE(std::is_convertible_v<int, Result<std::vector<int>>>);
  CHECK(Result<std::vector<int>> { 5 } -> size() == 5);
  CHECK(std::is_convertible_v<const char*, Result<std::string>>);
}

TEST_CASE("a result changes sides, and whatever it had is destroyed once", "[base]") {
  const auto shared = std::make_shared<int>(7);
  const auto long_text = std::string(100, 'x'); // on the heap, where a sanitizer sees it
  using Shared = Result<std::shared_ptr<int>>;
  const Shared value{shared};
  const Shared error{fail(Errc::not_found, long_text)};
  {
    Shared changes{value}; // copied
    CHECK(shared.use_count() == 3);
    changes = error;
    CHECK(shared.use_count() == 2);
    CHECK(changes.error().message() == long_text);
    changes = value;
    CHECK(shared.use_count() == 3);
    auto& itself = changes;
    changes = itself;
    changes = std::move(itself);
    CHECK(**changes == 7);
    Shared taken{std::move(changes)};
    CHECK(shared.use_count() == 3);
    Shared other{error};
    other = std::move(taken);
    CHECK(shared.use_count() == 3);
    taken = Shared{fail(Errc::not_found, long_text)};
    CHECK(taken.error() == error.error());
  }
  CHECK(shared.use_count() == 2);
}

TEST_CASE("a result of what can only be moved can only be moved", "[base]") {
  CHECK(std::is_copy_constructible_v<Result<int>>);
  CHECK(std::is_copy_assignable_v<Result<int>>);
  CHECK_FALSE(std::is_copy_constructible_v<Result<std::unique_ptr<int>>>);
  CHECK_FALSE(std::is_copy_assignable_v<Result<std::unique_ptr<int>>>);
  CHECK(std::is_nothrow_move_constructible_v<Result<std::unique_ptr<int>>>);
  CHECK(std::is_nothrow_move_assignable_v<Result<std::unique_ptr<int>>>);
}

namespace {

/// Copies throw from the second one on.
struct ThrowsOnCopy {
  explicit ThrowsOnCopy(int* copies) : left(copies) {
    // nop
  }

  ThrowsOnCopy(ThrowsOnCopy&&) noexcept = default;
  ThrowsOnCopy& operator=(ThrowsOnCopy&&) noexcept = default;
  ThrowsOnCopy& operator=(const ThrowsOnCopy&) = default;
  ~ThrowsOnCopy() = default;

  ThrowsOnCopy(const ThrowsOnCopy& other) : left(other.left) {
    if (--*left < 0)
      throw std::bad_alloc{};
  }

  int* left;
};

} // namespace

TEST_CASE("a copy of a result that throws leaves what it should replace", "[base]") {
  int left = 1;
  const Result<ThrowsOnCopy> value{ThrowsOnCopy{&left}};
  Result<ThrowsOnCopy> copy{fail(Errc::not_found, "none yet")};
  copy = value;
  REQUIRE(copy);
  Result<ThrowsOnCopy> error{fail(Errc::not_found, "still there")};
  CHECK_THROWS_AS(error = value, std::bad_alloc);
  CHECK(error.error().message() == "still there");
}
