#include <gpuactors/base/files.hpp>
#include <gpuactors/cluster/detail/own_folder.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cstdlib>
#include <string>

namespace gpuactors::detail {

namespace {

constexpr std::string_view own_folder_prefix = "gpuactors-local-";
constexpr const char* own_folder_lock = "lock";

/// Makes the lock under another name first: it must never be there and not held.
Result<Descriptor> make_lock(const std::filesystem::path& folder) {
  const auto early = folder / "lock.new";
  Descriptor lock{::open(early.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR)};
  if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0
      || ::rename(early.c_str(), (folder / own_folder_lock).c_str()) != 0)
    return fail_errno(early, "written");
  return lock;
}

/// Whether the folder is one of ours, and nobody's any more.
bool is_left_behind(const std::filesystem::path& folder) {
  struct stat about {};
  if (::lstat(folder.c_str(), &about) != 0 || !S_ISDIR(about.st_mode) || about.st_uid != ::geteuid())
    return false;
  const Descriptor lock{::open((folder / own_folder_lock).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW)};
  return lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0;
}

void remove_left_behind(const std::filesystem::path& parent) {
  std::error_code error;
  std::error_code ignored;
  for (std::filesystem::directory_iterator entry{parent, error}, last; !error && entry != last; entry.increment(error))
    if (entry->path().filename().string().starts_with(own_folder_prefix) && is_left_behind(entry->path()))
      std::filesystem::remove_all(entry->path(), ignored);
}

} // namespace

Result<OwnFolder> OwnFolder::make() {
  std::error_code error;
  const auto parent = std::filesystem::temp_directory_path(error);
  if (error)
    return fail(Errc::invalid_argument,
                "there is no folder for temporary files, which TMPDIR names: " + error.message());
  remove_left_behind(parent);
  auto path = (parent / (std::string{own_folder_prefix} + "XXXXXX")).string();
  if (::mkdtemp(path.data()) == nullptr)
    return fail_errno(path, "made");
  OwnFolder folder{path, Descriptor{}};
  GPUACTORS_LET(lock, make_lock(path));
  folder.lock_ = std::move(lock);
  return folder;
}

OwnFolder::~OwnFolder() {
  // The lock is released afterwards: until then nobody else takes the folder for left behind.
  std::error_code ignored;
  if (!path_.empty())
    std::filesystem::remove_all(path_, ignored);
}

} // namespace gpuactors::detail
