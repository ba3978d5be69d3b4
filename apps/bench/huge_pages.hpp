// Memory for floors: as the library's own for large tensors, so that a copy into it is as fast as one can be.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>

namespace gpuactors::bench {

/// Mapped, with huge pages where the system gives them to those who ask. Ends the program when there is no memory.
class HugePages {
public:
  explicit HugePages(std::size_t bytes)
    : bytes_(bytes), data_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (data_ == MAP_FAILED)
      std::abort();
    (void)::madvise(data_, bytes_, MADV_HUGEPAGE);
  }
  HugePages(const HugePages&) = delete;
  HugePages& operator=(const HugePages&) = delete;

  ~HugePages() {
    (void)::munmap(data_, bytes_);
  }

  [[nodiscard]] void* data() const noexcept {
    return data_;
  }

private:
  std::size_t bytes_;
  void* data_;
};

} // namespace gpuactors::bench
