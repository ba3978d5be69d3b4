// Files with secrets: private from the first byte on, complete or absent, written by one process at a time.
#pragma once

#include <gpuactors/base/result.hpp>

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>

namespace gpuactors::detail {

/// The users who may read a file.
enum class Access {
  /// The file's owner: mode 0600.
  owner,
  /// All users: mode 0644.
  all,
};

/// What to do if the file already exists.
enum class Existing {
  refuse,
  replace,
};

/// Creates `folder` with mode 0700, and its parents, if they do not exist.
/// @returns `invalid_argument` if the folder cannot be created, or if others may change its contents: its owner, who is
///          neither the process's user nor root, its group, of which the process is none, or any user; `unavailable` as
///          `fail_errno` does.
[[nodiscard]] Result<void> make_private_folder(const std::filesystem::path& folder);

/// Writes a file under a temporary name and then gives it its own, so that readers see all of it or nothing.
/// @returns `already_exists` for a file that must not be replaced.
[[nodiscard]] Result<void> write_file(const std::filesystem::path& path, std::string_view text, Access access,
                                      Existing existing);

/// Whether a file of this mode and owner is private to whoever runs as `user`. Others than root may also have one that
/// root owns and their group may read: so secrets are mounted into containers that do not run as root. Pure.
[[nodiscard]] bool is_private(mode_t mode, uid_t owner, uid_t user) noexcept;

/// Reads a regular file of moderate size.
/// @returns `not_found` if there is no file, `invalid_argument` if it cannot be read, if others may access a file that
///          only its owner should, or if any user may change it.
[[nodiscard]] Result<std::string> read_file(const std::filesystem::path& path, Access access);

/// Returns whether `path` exists and is visible to this process.
[[nodiscard]] bool is_there(const std::filesystem::path& path);

/// An exclusive lock on a folder, among all threads and processes of the machine, until this object is destroyed.
class FolderLock {
public:
  /// Blocks until the lock is free; it is only held for milliseconds.
  [[nodiscard]] static Result<FolderLock> take(const std::filesystem::path& folder);

  FolderLock(FolderLock&& other) noexcept;
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(FolderLock&&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

private:
  explicit FolderLock(int file);

  int file_;
};

} // namespace gpuactors::detail
