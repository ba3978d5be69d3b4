// Memory that was freed is overwritten in the tests of the CUDA module, so that whoever still uses it fails. Sanitizers
// see it themselves.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <malloc.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

// Not seen by the compiler where they are called: it would warn that malloc and delete do not belong together.
__attribute__((noinline)) void* operator new(std::size_t bytes) {
  if (void* memory = std::malloc(bytes > 0 ? bytes : 1))
    return memory;
  throw std::bad_alloc{};
}

__attribute__((noinline)) void operator delete(void* memory) noexcept {
  if (memory != nullptr)
    std::memset(memory, 0xDB, ::malloc_usable_size(memory));
  // Otherwise the compiler leaves out what nobody may read.
  asm volatile("" : : "r"(memory) : "memory");
  std::free(memory);
}

__attribute__((noinline)) void operator delete(void* memory, std::size_t) noexcept {
  operator delete(memory);
}

#endif
