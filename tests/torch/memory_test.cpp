// The memory of libtorch's tensors in the quota of a lease.
#include "modules.hpp"

#include <gpuactors/device/quota.hpp>

#include <apps/torch/lease_memory.hpp>
#include <support/catch.hpp>

#include <cstdint>
#include <exception>
#include <thread>

using gpuactors::Errc;
using gpuactors::Quota;
using torchscript::LeaseMemory;

namespace {

constexpr std::size_t block = 1000;
/// What stands in front of a block.
constexpr std::size_t head = 64;

} // namespace

TEST_CASE("tensors made under a use count until they are freed, and others do not") {
  const auto quota = std::make_shared<Quota>("a test", 1 << 20);
  LeaseMemory memory{quota};
  const auto before = torchtest::make_tensor(block);
  CHECK(quota->used() == 0);
  std::shared_ptr<void> counted;
  {
    LeaseMemory::Use use{memory};
    counted = torchtest::make_tensor(block);
    CHECK(quota->used() == block + head);
    CHECK(reinterpret_cast<std::uintptr_t>(torchtest::data_of(counted)) % 64 == 0);
  }
  const auto after = torchtest::make_tensor(block);
  CHECK(quota->used() == block + head);
  counted.reset();
  CHECK(quota->used() == 0);
}

TEST_CASE("an empty tensor counts nothing") {
  const auto quota = std::make_shared<Quota>("a test", 1 << 20);
  LeaseMemory memory{quota};
  LeaseMemory::Use use{memory};
  CHECK(torchtest::data_of(torchtest::make_tensor(0)) == nullptr);
  CHECK(quota->peak() == 0);
}

TEST_CASE("of nested uses the inner one counts, and each thread has its own") {
  const auto outer_quota = std::make_shared<Quota>("outer", 1 << 20);
  const auto inner_quota = std::make_shared<Quota>("inner", 1 << 20);
  LeaseMemory outer{outer_quota};
  LeaseMemory inner{inner_quota};
  LeaseMemory::Use use{outer};
  std::shared_ptr<void> of_inner;
  {
    LeaseMemory::Use nested{inner};
    of_inner = torchtest::make_tensor(block);
  }
  std::shared_ptr<void> of_thread;
  std::thread{[&] { of_thread = torchtest::make_tensor(block); }}.join();
  CHECK(outer_quota->used() == 0);
  CHECK(inner_quota->used() == block + head);
  const auto of_outer = torchtest::make_tensor(block);
  CHECK(outer_quota->used() == block + head);
}

TEST_CASE("a tensor may be freed on another thread, and after its lease has ended") {
  auto quota = std::make_shared<Quota>("a test", 1 << 20);
  std::weak_ptr<Quota> watched = quota;
  std::shared_ptr<void> tensor;
  {
    LeaseMemory memory{std::move(quota)};
    LeaseMemory::Use use{memory};
    tensor = torchtest::make_tensor(block);
  }
  REQUIRE_FALSE(watched.expired());
  CHECK(watched.lock()->used() == block + head);
  std::thread{[&tensor] { tensor.reset(); }}.join();
  CHECK(watched.expired());
}

TEST_CASE("what the quota does not allow throws, and is remembered with the numbers until the next use") {
  const auto quota = std::make_shared<Quota>("a test", 10'000);
  LeaseMemory memory{quota};
  {
    LeaseMemory::Use use{memory};
    CHECK_THROWS_AS(torchtest::make_tensor(10'000), std::exception);
    CHECK(quota->used() == 0);
    REQUIRE(memory.refused());
    CHECK(memory.refused()->code() == Errc::out_of_memory);
    CHECK(memory.refused()->message().find("10064 B") != std::string::npos);
    CHECK(memory.refused()->message().find("limit of 10000 B") != std::string::npos);
    CHECK_NOTHROW(torchtest::make_tensor(10'000 - head));
  }
  LeaseMemory::Use next{memory};
  CHECK_FALSE(memory.refused());
}

#ifndef __SANITIZE_ADDRESS__ // which ends the program for such a size
TEST_CASE("what the machine does not have is given back to the quota") {
  constexpr std::size_t too_much = std::size_t{1} << 60;
  const auto quota = std::make_shared<Quota>("a test", too_much * 2);
  LeaseMemory memory{quota};
  LeaseMemory::Use use{memory};
  CHECK_THROWS_AS(torchtest::make_tensor(too_much), std::exception);
  CHECK(quota->used() == 0);
  REQUIRE(memory.refused());
  CHECK(memory.refused()->message().find("this machine") != std::string::npos);
}
#endif

TEST_CASE("libtorch's allocator is ours") {
  CHECK(LeaseMemory::check_installed());
}
