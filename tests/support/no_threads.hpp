// A process that is at its limit of threads, for tests.
#pragma once

#include <pthread.h>

#include <cstddef>

namespace gpuactors::test {

/// While it lives, the process can start no thread: each would get a stack that is larger than the address space.
/// Threads that run go on.
class NoThreads {
public:
  NoThreads() {
    pthread_attr_t attributes;
    pthread_getattr_default_np(&attributes);
    pthread_attr_getstacksize(&attributes, &before_);
    pthread_attr_destroy(&attributes);
    set(std::size_t{1} << 62U);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;
  ~NoThreads() {
    set(before_);
  }

private:
  static void set(std::size_t stack_bytes) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack_bytes);
    pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
  }

  std::size_t before_ = 0;
};

} // namespace gpuactors::test
