#include "files.hpp"

#include <fmt/format.h>

#include <cerrno>

namespace gpuactors::detail {

Failure fail_errno(const std::filesystem::path& path, std::string_view what) {
  const int error = errno;
  const bool passing =
      error == ENOSPC || error == EDQUOT || error == EFBIG || error == EIO || error == EMFILE || error == ENFILE;
  return fail(passing ? Errc::unavailable : Errc::invalid_argument,
              fmt::format("{} cannot be {}: {}", path.string(), what, errno_text(error)));
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
