// Files with secrets: private from the first byte on, whole or absent, written by one process at a time.
#pragma once

#include <gpuactors/base/result.hpp>

#include <filesystem>
#include <string>
#include <string_view>

namespace gpuactors::detail {

/// Who may read a file.
enum class Access {
  /// Its owner: mode 0600.
  owner,
  /// All: mode 0644.
  all,
};

/// Whether a file that exists is replaced.
enum class Existing {
  refuse,
  replace,
};

/// Makes `folder` with mode 0700 if it is not there, and the folders above it.
/// @returns `invalid_argument` when it cannot be made, or when any user may change what lies in it.
[[nodiscard]] Result<void> make_private_folder(const std::filesystem::path& folder);

/// Writes a file under another name and renames it, so that readers see all of it or nothing.
/// @returns `already_exists` for a file that must not be replaced.
[[nodiscard]] Result<void> write_file(const std::filesystem::path& path, std::string_view text, Access access,
                                      Existing existing);

/// Reads a regular file of moderate size.
/// @returns `not_found` when there is none, `invalid_argument` when it cannot be read, when it should be its owner's
///          own and others may read it, or when any user may change it.
[[nodiscard]] Result<std::string> read_file(const std::filesystem::path& path, Access access);

/// Whether there is something under this name that this process can see.
[[nodiscard]] bool is_there(const std::filesystem::path& path);

/// A folder held by this object alone, among all threads and processes of the machine, until it is destroyed.
class FolderLock {
public:
  /// Waits for the folder; holders need milliseconds.
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
