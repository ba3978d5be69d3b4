#include "files.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

namespace gpuactors::detail {

Failure fail_errno(const std::filesystem::path& path, std::string_view what) {
  const int error = errno;
  const bool passing =
      error == ENOSPC || error == EDQUOT || error == EFBIG || error == EIO || error == EMFILE || error == ENFILE;
  return fail(passing ? Errc::unavailable : Errc::invalid_argument,
              fmt::format("{} cannot be {}: {}", path.string(), what, errno_text(error)));
}

std::optional<std::string> read_to_end(int file, std::size_t most) {
  constexpr std::size_t first_piece = 4096;
  std::string text;
  std::size_t done = 0;
  while (done < most) {
    if (done == text.size())
      text.resize(std::min(most, std::max(first_piece, 2 * done)));
    const auto count = ::read(file, text.data() + done, text.size() - done);
    if (count == 0)
      break;
    if (count < 0 && errno != EINTR)
      return std::nullopt;
    done += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
  }
  text.resize(done);
  return text;
}

Result<std::string> read_to_end(const std::filesystem::path& path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!file && errno == ENOENT)
    return fail(Errc::not_found, fmt::format("{} is missing", path.string()));
  auto text = file ? read_to_end(file.get()) : std::nullopt;
  if (!text)
    return fail_errno(path, "read");
  return *std::move(text);
}

bool write_all(int file, std::string_view text) noexcept {
  while (!text.empty()) {
    const auto written = ::write(file, text.data(), text.size());
    if (written < 0 && errno != EINTR)
      return false;
    if (written > 0)
      text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

} // namespace gpuactors::detail
