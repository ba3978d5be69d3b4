// A kernel of the fake driver that runs until the test ends it.
#pragma once

#include <gpuactors/device/runtime_kernel.hpp>

#include <device/fake_cuda/driver.hpp>
#include <device/fake_driver.hpp>

#include <future>
#include <memory>
#include <optional>

namespace gpuactors::test {

/// Opened by the test; work that waits for it is not done before.
inline std::promise<void>& closed_gate() {
  static std::promise<void> one;
  return one;
}

inline void pass_gate(std::uint64_t, std::uint64_t, const void*) {
  closed_gate().get_future().wait();
}

/// A kernel that runs until the test ends it; launched with one word.
inline RuntimeKernel close_gate() {
  static const fake::FakeKernel kernel{"pass_gate", &pass_gate, sizeof(std::uint64_t)};
  closed_gate() = std::promise<void>{};
  RuntimeKernel::Loaded loaded{handle_of(kernel), "pass_gate", std::nullopt};
  return RuntimeKernel{std::make_shared<const RuntimeKernel::Loaded>(std::move(loaded))};
}

inline void open_gate() {
  closed_gate().set_value();
}

} // namespace gpuactors::test
