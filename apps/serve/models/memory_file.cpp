#include "memory_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

namespace serve {

using gpuactors::Errc;
using gpuactors::Result;

namespace {

gpuactors::Failure no_memory_file() {
  return gpuactors::fail(Errc::out_of_memory,
                         fmt::format("no file in memory could be written: {}", std::strerror(errno)));
}

gpuactors::Failure unreadable(const std::string& path) {
  return gpuactors::fail(errno == ENOENT || errno == ENOTDIR ? Errc::not_found : Errc::invalid_argument,
                         fmt::format("{} cannot be read: {}", path, std::strerror(errno)));
}

gpuactors::Failure too_large(const std::string& path, std::size_t most) {
  return gpuactors::fail(Errc::invalid_argument, fmt::format("{} has more than {} bytes", path, most));
}

/// Closes a descriptor at the end of a block.
struct OpenFile {
  explicit OpenFile(int number) : descriptor(number) {
    // nop
  }

  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  ~OpenFile() {
    if (descriptor >= 0)
      ::close(descriptor);
  }

  int descriptor;
};

} // namespace

Result<MemoryFile> MemoryFile::make() {
  MemoryFile file;
  file.descriptor_ = ::memfd_create("gpuactors-serve", MFD_CLOEXEC);
  if (file.descriptor_ < 0)
    return no_memory_file();
  return file;
}

Result<void> MemoryFile::append(const std::uint8_t* bytes, std::size_t count) {
  while (count > 0) {
    const auto written = ::write(descriptor_, bytes, count);
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return no_memory_file();
    bytes += written;
    count -= static_cast<std::size_t>(written);
    size_ += static_cast<std::size_t>(written);
  }
  return {};
}

Result<MemoryFile> MemoryFile::of(std::span<const std::uint8_t> bytes) {
  GPUACTORS_LET(file, make());
  GPUACTORS_TRY(file.append(bytes.data(), bytes.size()));
  return std::move(file);
}

Result<MemoryFile> MemoryFile::copy_of(const std::string& path, std::size_t most) {
  // Without O_NONBLOCK a pipe without a writer would hold the server for ever.
  const OpenFile source{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat kind {};
  if (source.descriptor < 0 || ::fstat(source.descriptor, &kind) != 0)
    return unreadable(path);
  if (!S_ISREG(kind.st_mode))
    return gpuactors::fail(Errc::invalid_argument, fmt::format("{} is not a file", path));
  if (static_cast<std::uint64_t>(kind.st_size) > most)
    return too_large(path, most);
  GPUACTORS_LET(file, make());
  std::vector<std::uint8_t> piece(1U << 20);
  for (;;) {
    const auto count = ::read(source.descriptor, piece.data(), piece.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return unreadable(path);
    if (count == 0)
      return std::move(file);
    // It may grow while it is read.
    if (static_cast<std::size_t>(count) > most - file.size())
      return too_large(path, most);
    GPUACTORS_TRY(file.append(piece.data(), static_cast<std::size_t>(count)));
  }
}

MemoryFile::MemoryFile(MemoryFile&& other) noexcept
  : descriptor_(std::exchange(other.descriptor_, -1)), size_(std::exchange(other.size_, 0)),
    mapped_(std::exchange(other.mapped_, nullptr)) {
  // nop
}

MemoryFile& MemoryFile::operator=(MemoryFile&& other) noexcept {
  if (this != &other) {
    close();
    descriptor_ = std::exchange(other.descriptor_, -1);
    size_ = std::exchange(other.size_, 0);
    mapped_ = std::exchange(other.mapped_, nullptr);
  }
  return *this;
}

MemoryFile::~MemoryFile() {
  close();
}

void MemoryFile::close() noexcept {
  if (mapped_ != nullptr)
    ::munmap(mapped_, size_);
  if (descriptor_ >= 0)
    ::close(descriptor_);
  mapped_ = nullptr;
  descriptor_ = -1;
}

std::string MemoryFile::path() const {
  return fmt::format("/proc/self/fd/{}", descriptor_);
}

Result<std::span<const std::uint8_t>> MemoryFile::bytes() {
  if (mapped_ == nullptr && size_ > 0) {
    auto* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor_, 0);
    if (mapped == MAP_FAILED)
      return no_memory_file();
    mapped_ = mapped;
  }
  return std::span{static_cast<const std::uint8_t*>(mapped_), size_};
}

} // namespace serve
