// RotatingFiles: lines in numbered files of a folder, of bounded total size.
#pragma once

#include <gpuactors/base/files.hpp>
#include <gpuactors/base/result.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuactors::detail {

/// A position in a log: file number and offset in bytes.
struct LogPlace {
  std::uint64_t file = 0;
  std::uint64_t bytes = 0;
};

/// Creates the folder, for its owner alone, if it does not exist, and locks it while the descriptor is open: the kernel
/// unlocks it when the process ends, however it ends.
/// @returns `already_exists` when the folder is locked, `invalid_argument` when it cannot be created or opened.
[[nodiscard]] Result<Descriptor> lock_folder(const std::filesystem::path& folder);

/// Files numbered like "output-0000000001.log", of which the last is being written. One thread, except for `read_back`.
class RotatingFiles {
public:
  /// Continues where an earlier object stopped; creates the folder, for its owner alone, if it does not exist.
  /// @returns `invalid_argument` for a folder that cannot be created or written, `unavailable` when the disk is full.
  [[nodiscard]] static Result<RotatingFiles> open(std::filesystem::path folder, std::uint64_t file_bytes,
                                                  std::size_t files);

  /// Appends a line, whole or not at all; begins a new file when the current one is full or gone.
  /// @returns why the line could not be written; otherwise what was lost before it, usually nothing ("").
  [[nodiscard]] Result<std::string> append(std::string_view line);

  /// The position after the last line.
  [[nodiscard]] LogPlace end() const noexcept {
    return end_;
  }

  /// Passes the folder's lines before `end` to `more`, the last line first, until it returns false. Files removed
  /// meanwhile are skipped. Any thread.
  static void read_back(const std::filesystem::path& folder, LogPlace end,
                        const std::function<bool(std::string_view)>& more);

private:
  RotatingFiles(std::filesystem::path folder, std::uint64_t file_bytes, std::size_t files);

  /// Opens the file with this number and removes surplus old files.
  [[nodiscard]] Result<void> use(std::uint64_t number);
  /// Creates the folder if necessary and opens its last file.
  [[nodiscard]] Result<void> resume();
  [[nodiscard]] Result<void> write(std::string_view line);

  std::filesystem::path folder_;
  std::uint64_t file_bytes_;
  std::size_t files_;
  Descriptor file_;
  LogPlace end_;
};

} // namespace gpuactors::detail
