// Waiting for one of many futures, again and again.
#include <gpuactors/base/future.hpp>

#include <support/catch.hpp>
#include <support/heap.hpp>

using namespace gpuactors;
using namespace gpuactors::test;

TEST_CASE("who waits for futures that are not ready leaves nothing behind on them", "[base]") {
  std::vector<std::shared_ptr<detail::FutureState<int>>> states(100);
  std::vector<detail::FutureCore*> cores;
  for (auto& state : states)
    cores.push_back((state = std::make_shared<detail::FutureState<int>>()).get());
  const auto wait = [&] { CHECK(detail::wait_for(cores, 1, Clock::now()).empty()); };
  wait();
  const auto before = allocated_bytes();
  for (int i = 0; i < 1'000; ++i)
    wait();
  CHECK(allocated_bytes() < before + 100'000);
  states[7]->complete(1);
  CHECK(detail::wait_for(cores, 1, never) == std::vector<std::size_t>{7});
}

TEST_CASE("an observer that was forgotten is not called, and others are", "[base]") {
  detail::FutureState<int> state;
  int first = 0;
  int second = 0;
  const auto number = state.on_ready([&] { ++first; });
  CHECK(state.on_ready([&] { ++second; }) != number);
  state.forget(number);
  state.forget(number);
  state.complete(1);
  state.forget(number);
  CHECK(first == 0);
  CHECK(second == 1);
  CHECK(state.on_ready([&] { ++first; }) == 0);
  CHECK(first == 1);
}
