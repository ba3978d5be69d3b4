// Kernels that show where and how long work runs.
#pragma once

#include <gpuactors/device/kernel.hpp>

#include <cassert>

namespace gpuactors::gpu {

/// Writes the number of the SM that the index ran on, after enough time for other blocks to go elsewhere.
struct RecordSm {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, std::uint32_t* sm) const {
#ifdef __CUDA_ARCH__
    std::uint32_t id = 0;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
    const auto start = clock64();
    while (clock64() - start < 20000) {
    }
    sm[i] = id;
#else
    sm[i] = 0;
#endif
  }
};

/// Says in the second word that it runs, and holds its place until the first is set, at most some seconds.
struct Hold {
  GPUACTORS_FUNCTION void operator()(std::uint64_t, std::uint32_t* flag) const {
#ifdef __CUDA_ARCH__
    auto* const word = static_cast<volatile std::uint32_t*>(flag);
    word[1] = 1;
    const auto start = clock64();
    while (word[0] == 0 && clock64() - start < (1LL << 33)) {
    }
#else
    static_cast<void>(flag);
#endif
  }
};

/// Computes for a while: `rounds` dependent multiplications.
struct Burn {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, std::uint32_t rounds, float* out) const {
    auto value = static_cast<float>(i & 1023U);
    for (std::uint32_t round = 0; round < rounds; ++round)
      value = value * 0.999F + 0.5F;
    out[i & 0xffffU] = value;
  }
};

/// As Burn, and tells by the device's clock, in nanoseconds, from when to when: the start, upside down so that zeroes
/// are no time yet, and the end, each the outermost of all blocks.
struct TimedBurn {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, std::uint32_t rounds, float* out, std::int64_t* times) const {
#ifdef __CUDA_ARCH__
    const auto note = [i, &rounds](std::int64_t* word, bool upside_down) {
      unsigned long long now = 0;
      // As if it changed the rounds, and read memory: so that the work stays between the two.
      asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now), "+r"(rounds)::"memory");
      // One of each block: more would wait for each other.
      if (i % 256 == 0)
        atomicMax(reinterpret_cast<unsigned long long*>(word), upside_down ? ~now : now);
    };
    note(times, true);
    Burn{}(i, rounds, out);
    note(times + 1, false);
#else
    Burn{}(i, rounds, out);
    times[0] = -1;
    times[1] = 1;
#endif
  }
};

/// Reads and writes memory as fast as it goes.
struct Drag {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, const float* from, float* to) const {
    to[i] = from[i] + 1.0F;
  }
};

struct Nothing {
  GPUACTORS_FUNCTION void operator()(std::uint64_t) const {
    // nop
  }
};

/// An illegal address.
struct Crash {
  GPUACTORS_FUNCTION void operator()(std::uint64_t, std::uint64_t address) const {
#ifdef __CUDA_ARCH__
    *reinterpret_cast<volatile std::uint32_t*>(address) = 1;
#else
    static_cast<void>(address);
#endif
  }
};

/// A misaligned address.
struct Misstep {
  GPUACTORS_FUNCTION void operator()(std::uint64_t, std::uint32_t* memory) const {
#ifdef __CUDA_ARCH__
    *reinterpret_cast<volatile std::uint32_t*>(reinterpret_cast<char*>(memory) + 1) = 1;
#else
    static_cast<void>(memory);
#endif
  }
};

/// A failed assertion, in builds without assertions too.
struct Refuse {
  GPUACTORS_FUNCTION void operator()(std::uint64_t) const {
#ifdef __CUDA_ARCH__
    __assert_fail("that this is not run", "kernels.hpp", 0, "refuse");
#endif
  }
};

struct Trap {
  GPUACTORS_FUNCTION void operator()(std::uint64_t) const {
#ifdef __CUDA_ARCH__
    __trap();
#endif
  }
};

GPUACTORS_DECLARE_KERNEL(record_sm, RecordSm);
GPUACTORS_DECLARE_KERNEL(hold, Hold);
GPUACTORS_DECLARE_KERNEL(burn, Burn);
GPUACTORS_DECLARE_KERNEL(timed_burn, TimedBurn);
GPUACTORS_DECLARE_KERNEL(drag, Drag);
GPUACTORS_DECLARE_KERNEL(nothing, Nothing);
GPUACTORS_DECLARE_KERNEL(crash, Crash);
GPUACTORS_DECLARE_KERNEL(misstep, Misstep);
GPUACTORS_DECLARE_KERNEL(refuse, Refuse);
GPUACTORS_DECLARE_KERNEL(trap, Trap);

} // namespace gpuactors::gpu
