// Kernels that make order and concurrency visible. A gate is one 32-bit word of device memory.
#pragma once

#include <gpuactors/device/kernel.hpp>

#ifndef __CUDACC__
#include <thread>
#endif

namespace gpuactors::conformance {

/// Waits until the gate is not zero. On CUDA it gives up after some seconds and leaves `opened` at 0.
struct AwaitGate {
  GPUACTORS_FUNCTION void operator()(std::uint64_t, std::uint32_t* gate, std::uint32_t* opened) const {
#ifdef __CUDACC__
    for (std::uint64_t tries = 0; tries < (1ULL << 24); ++tries) {
      if (*static_cast<volatile std::uint32_t*>(gate) != 0) {
        *opened = 1;
        return;
      }
    }
#else
    while (__atomic_load_n(gate, __ATOMIC_ACQUIRE) == 0)
      std::this_thread::yield();
    *opened = 1;
#endif
  }
};

struct OpenGate {
  GPUACTORS_FUNCTION void operator()(std::uint64_t, std::uint32_t* gate) const {
#ifdef __CUDACC__
    *static_cast<volatile std::uint32_t*>(gate) = 1;
#else
    __atomic_store_n(gate, 1U, __ATOMIC_RELEASE);
#endif
  }
};

/// x[i] = x[i] * 3 + add: repeated in another order it gives another result.
struct Mix {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, std::uint32_t add, std::uint32_t* x) const {
    x[i] = x[i] * 3U + add;
  }
};

/// Arguments of many types, to see that all arrive.
struct ManyArguments {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, std::uint8_t a, double b, std::int32_t c, float d,
                                     std::uint64_t e, double* out) const {
    out[i] = static_cast<double>(a) + b + static_cast<double>(c) + static_cast<double>(d) + static_cast<double>(e)
             + static_cast<double>(i);
  }
};

struct NoArguments {
  GPUACTORS_FUNCTION void operator()(std::uint64_t) const {
    // nop
  }
};

GPUACTORS_DECLARE_KERNEL(await_gate, AwaitGate);
GPUACTORS_DECLARE_KERNEL(open_gate, OpenGate);
GPUACTORS_DECLARE_KERNEL(mix, Mix);
GPUACTORS_DECLARE_KERNEL(many_arguments, ManyArguments);
GPUACTORS_DECLARE_KERNEL(no_arguments, NoArguments);

} // namespace gpuactors::conformance
