#include "files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

namespace nn {

using gpuactors::Errc;
using gpuactors::Result;

namespace {

/// An open file.
class OpenFile {
public:
  OpenFile(const std::filesystem::path& path, int flags, mode_t mode = 0)
    : descriptor_(::open(path.c_str(), flags | O_CLOEXEC, mode)) { // NOLINT(*-vararg)
    // nop
  }

  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  ~OpenFile() {
    if (descriptor_ >= 0)
      ::close(descriptor_);
  }

  [[nodiscard]] int get() const noexcept {
    return descriptor_;
  }

private:
  int descriptor_;
};

auto system_error(const std::filesystem::path& path, std::string_view doing) {
  const auto number = errno;
  return gpuactors::fail(number == ENOENT ? Errc::not_found : Errc::unavailable,
                         fmt::format("{} cannot be {}: {}", path.string(), doing, std::strerror(number)));
}

bool write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

Result<void> write_new(const std::filesystem::path& path, const std::vector<std::span<const std::byte>>& pieces) {
  // What a killed process has left, or a link that somebody has put there to have another file overwritten.
  ::unlink(path.c_str());
  const OpenFile file{path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH};
  if (file.get() < 0)
    return system_error(path, "written");
  for (const auto piece : pieces)
    if (!write_all(file.get(), piece))
      return system_error(path, "written");
  if (::fsync(file.get()) != 0)
    return system_error(path, "brought to the disk");
  return {};
}

} // namespace

Result<std::uint64_t> file_bytes(const std::filesystem::path& path) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0)
    return system_error(path, "read");
  if (!S_ISREG(about.st_mode))
    return gpuactors::fail(Errc::invalid_argument, fmt::format("{} is no file", path.string()));
  return static_cast<std::uint64_t>(about.st_size);
}

Result<std::vector<std::byte>> read_file(const std::filesystem::path& path, std::size_t most) {
  GPUACTORS_LET(size, file_bytes(path));
  const OpenFile file{path, O_RDONLY};
  if (file.get() < 0)
    return system_error(path, "read");
  std::vector<std::byte> bytes(std::min(static_cast<std::size_t>(size), most));
  std::size_t read = 0;
  while (read < bytes.size()) {
    const auto count = ::read(file.get(), bytes.data() + read, bytes.size() - read);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return system_error(path, "read");
    if (count == 0)
      break;
    read += static_cast<std::size_t>(count);
  }
  bytes.resize(read);
  return bytes;
}

Result<std::string> read_text(const std::filesystem::path& path) {
  GPUACTORS_LET(bytes, read_file(path));
  return std::string{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<std::optional<std::string>> read_text_if_there(const std::filesystem::path& path) {
  auto text = read_text(path);
  if (text)
    return std::optional{*std::move(text)};
  if (text.error().code() == Errc::not_found)
    return std::optional<std::string>{};
  return gpuactors::fail(text.error());
}

std::filesystem::path behind_links(std::filesystem::path path) {
  constexpr int most_links = 40; // what Linux follows
  std::error_code failed;
  for (int links = 0; links < most_links && std::filesystem::is_symlink(path, failed); ++links) {
    const auto target = std::filesystem::read_symlink(path, failed);
    if (failed)
      break;
    path = path.parent_path() / target; // which is the target, if that is absolute
  }
  return path;
}

Result<void> replace_file(const std::filesystem::path& link, const std::vector<std::span<const std::byte>>& pieces) {
  // A link stays one: others find the file by its own name.
  const auto path = behind_links(link);
  if (std::error_code failed; std::filesystem::is_symlink(path, failed))
    return gpuactors::fail(Errc::unavailable,
                           fmt::format("{} cannot be written: it is a link that leads to no file", link.string()));
  auto part = path;
  part += ".part";
  auto replaced = write_new(part, pieces);
  if (replaced && ::rename(part.c_str(), path.c_str()) != 0)
    replaced = system_error(path, "replaced");
  if (!replaced) {
    ::unlink(part.c_str());
    return gpuactors::fail(Errc::unavailable, replaced.error().message());
  }
  // The new name is on the disk when its folder is; some file systems cannot be asked for that.
  const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path{"."};
  const OpenFile opened{folder, O_RDONLY | O_DIRECTORY};
  if (opened.get() >= 0 && ::fsync(opened.get()) != 0 && errno != EINVAL)
    return system_error(folder, "brought to the disk");
  return {};
}

Result<std::string> sha256(const std::vector<std::span<const std::byte>>& pieces) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{EVP_MD_CTX_new(), &EVP_MD_CTX_free};
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  bool fine = context != nullptr && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  for (const auto piece : pieces)
    fine = fine && EVP_DigestUpdate(context.get(), piece.data(), piece.size()) == 1;
  if (!fine || EVP_DigestFinal_ex(context.get(), digest.data(), &length) != 1)
    return gpuactors::fail(Errc::internal, "OpenSSL computes no SHA-256");
  std::string text;
  for (unsigned int i = 0; i < length; ++i)
    text += fmt::format("{:02x}", digest[i]);
  return text;
}

} // namespace nn
