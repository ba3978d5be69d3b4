// Lines in files of a folder, bounded in all.
#pragma once

#include <gpuactors/base/detail/files.hpp>
#include <gpuactors/base/result.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuactors::detail {

/// How far a log has been written: file number and bytes of it. Later places compare greater.
struct LogPlace {
  std::uint64_t file = 0;
  std::uint64_t bytes = 0;
};

/// Makes the folder, for its owner alone, if it is not there, and locks it for as long as the descriptor is open: the
/// system unlocks it when the process ends, however that ends.
/// @returns `already_exists` when somebody else has it, `invalid_argument` for a folder that cannot be made or written.
[[nodiscard]] Result<Descriptor> lock_folder(const std::filesystem::path& folder);

/// Numbered files "output-0000000001.log" of which the last is written. One thread, save `read_back`.
class RotatingFiles {
public:
  /// Writes on where an earlier object stopped; makes the folder, for its owner alone, if it is not there.
  /// @returns `invalid_argument` for a folder that cannot be made or written, `unavailable` for a disk without room.
  [[nodiscard]] static Result<RotatingFiles> open(std::filesystem::path folder, std::uint64_t file_bytes,
                                                  std::size_t files);

  /// Appends a line, whole or not at all; begins with a new file when the present one is full or gone.
  /// @returns why it could not be written; otherwise what was lost before it, empty in general.
  [[nodiscard]] Result<std::string> append(std::string_view line);

  /// The place after the last line.
  [[nodiscard]] LogPlace end() const noexcept {
    return end_;
  }

  /// Hands over the lines of a folder that lie before `end`, the last line first, until `more` returns false. A file
  /// that goes away meanwhile is left out. Any thread.
  static void read_back(const std::filesystem::path& folder, LogPlace end,
                        const std::function<bool(std::string_view)>& more);

private:
  RotatingFiles(std::filesystem::path folder, std::uint64_t file_bytes, std::size_t files);

  /// Opens the file with this number, and removes those that are too many.
  [[nodiscard]] Result<void> use(std::uint64_t number);
  /// Makes the folder if need be and opens its last file.
  [[nodiscard]] Result<void> resume();
  [[nodiscard]] Result<void> write(std::string_view line);

  std::filesystem::path folder_;
  std::uint64_t file_bytes_;
  std::size_t files_;
  Descriptor file_;
  LogPlace end_;
};

} // namespace gpuactors::detail
