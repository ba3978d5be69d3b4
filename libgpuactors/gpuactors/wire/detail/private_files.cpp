#include "private_files.hpp"

#include <gpuactors/base/files.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

namespace gpuactors::detail {

namespace {

// Far above the size of any certificate or key; protects against a wrong path.
constexpr off_t most_bytes = 1 << 20;

/// A temporary name, removed at the end of the scope; after a rename there is nothing left to remove.
struct Temporary {
  std::string path;

  ~Temporary() {
    ::unlink(path.c_str());
  }
};

/// Makes a rename durable by syncing its folder. Failures are ignored, because some file systems do not support it.
void sync_folder(const std::filesystem::path& folder) {
  const Descriptor file{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (file.get() >= 0)
    ::fsync(file.get());
}

Result<void> check_mode(const std::filesystem::path& path, const struct stat& status, Access access) {
  const auto mode = status.st_mode & 07777;
  const auto owner = static_cast<unsigned>(status.st_mode) & 0700U;
  if (access == Access::owner && !is_private(mode, status.st_uid, ::geteuid()))
    return fail(Errc::invalid_argument,
                fmt::format("{0} is a private key that others may read or change (mode {1:04o}): chmod 600 {0}, or "
                            "remove it and issue another if somebody may have read it",
                            path.string(), mode));
  if ((mode & 02) != 0)
    return fail(Errc::invalid_argument, fmt::format("{0} may be changed by any user (mode {1:04o}): chmod {2:o} {0}",
                                                    path.string(), mode, owner | 044U));
  return {};
}

bool is_own_group(gid_t group) {
  if (group == ::getegid())
    return true;
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(::getgroups(0, nullptr), 0)));
  groups.resize(static_cast<std::size_t>(std::max(::getgroups(static_cast<int>(groups.size()), groups.data()), 0)));
  return std::find(groups.begin(), groups.end(), group) != groups.end();
}

/// Whoever may write to a folder can put other keys there, or others in their place. A group of the process's own may:
/// it is the user's alone on many systems, and that of the volume in a container.
Result<void> check_folder(const std::filesystem::path& folder, const struct stat& status) {
  const auto mode = status.st_mode & 07777;
  if (status.st_uid != ::geteuid() && status.st_uid != 0)
    return fail(Errc::invalid_argument,
                fmt::format("{0} belongs to user {1}, and this process runs as user {2}: keys need a folder of their "
                            "own, chown {2} {0} or name another",
                            folder.string(), status.st_uid, ::geteuid()));
  if ((mode & 02) != 0)
    return fail(Errc::invalid_argument,
                fmt::format("{0} may be changed by any user (mode {1:04o}): keys need a folder of their own, chmod 700 "
                            "{0} or name another",
                            folder.string(), mode));
  if ((mode & 020) != 0 && !is_own_group(status.st_gid))
    return fail(Errc::invalid_argument,
                fmt::format("{0} may be changed by group {1} (mode {2:04o}), which this process is not in: keys need a "
                            "folder of their own, chmod g-w {0} or name another",
                            folder.string(), status.st_gid, mode));
  return {};
}

} // namespace

bool is_private(mode_t mode, uid_t owner, uid_t user) noexcept {
  const bool from_root = owner == 0 && user != 0;
  return (mode & (from_root ? 037U : 077U)) == 0;
}

Result<void> make_private_folder(const std::filesystem::path& folder) {
  auto path = folder.lexically_normal();
  if (!path.has_filename())
    path = path.parent_path(); // "certs/" is "certs"
  std::error_code ignored;     // mkdir reports why
  if (path.has_parent_path())
    std::filesystem::create_directories(path.parent_path(), ignored);
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return fail_errno(folder, "made");
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0)
    return fail_errno(folder, "read");
  if (!S_ISDIR(status.st_mode))
    return fail(Errc::invalid_argument, fmt::format("{} is no folder", folder.string()));
  return check_folder(folder, status);
}

Result<void> write_file(const std::filesystem::path& path, std::string_view text, Access access, Existing existing) {
  Temporary temporary{(path.parent_path() / fmt::format(".{}.XXXXXX", path.filename().string())).string()};
  const Descriptor file{::mkostemp(temporary.path.data(), O_CLOEXEC)}; // mode 0600
  if (file.get() < 0)
    return fail_errno(path, "written");
  if (!write_all(file.get(), text) || ::fchmod(file.get(), access == Access::owner ? 0600 : 0644) != 0
      || ::fsync(file.get()) != 0)
    return fail_errno(path, "written");
  // A link, unlike a rename, never replaces an existing file.
  const int named = existing == Existing::replace ? ::rename(temporary.path.c_str(), path.c_str())
                                                  : ::link(temporary.path.c_str(), path.c_str());
  if (named != 0 && errno == EEXIST)
    return fail(Errc::already_exists, fmt::format("{} exists", path.string()));
  if (named != 0)
    return fail_errno(path, "written");
  sync_folder(path.parent_path());
  return {};
}

Result<std::string> read_file(const std::filesystem::path& path, Access access) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)}; // opening a pipe must not block
  if (file.get() < 0 && errno == ENOENT)
    return fail(Errc::not_found, fmt::format("{} is missing", path.string()));
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0)
    return fail_errno(path, "read");
  if (!S_ISREG(status.st_mode) || status.st_size > most_bytes)
    return fail(
        Errc::invalid_argument,
        fmt::format("{} is no certificate or key: a file of at most {} bytes is expected", path.string(), most_bytes));
  GPUACTORS_TRY(check_mode(path, status, access));
  auto text = read_to_end(file.get(), static_cast<std::size_t>(status.st_size));
  if (!text)
    return fail_errno(path, "read");
  return *std::move(text);
}

bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

Result<FolderLock> FolderLock::take(const std::filesystem::path& folder) {
  const auto path = folder / ".lock";
  // The file is never removed: a lock on a file whose name another process has replaced would exclude nobody.
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0)
    return fail_errno(path, "opened");
  FolderLock lock{file};
  while (::flock(file, LOCK_EX) != 0)
    if (errno != EINTR)
      return fail_errno(path, "locked");
  return lock;
}

FolderLock::FolderLock(int file) : file_(file) {
  // nop
}

FolderLock::FolderLock(FolderLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {
  // nop
}

FolderLock::~FolderLock() {
  if (file_ >= 0)
    ::close(file_);
}

} // namespace gpuactors::detail
