// Whether a file is a program or a shared library, as the loader sees it. Nothing of the file is run.
#pragma once

#include <gpuactors/base/result.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace gpuactors::cli {

enum class FileKind : std::uint8_t {
  /// A program or a script, which a process can run and none can load.
  program,
  /// A shared library, which cannot be run.
  library,
  /// Neither, or no file that can be read: who uses it says what is wrong with it.
  other,
};

[[nodiscard]] FileKind kind_of(const std::string& file);

/// Checks that no plugin is a program and no program a plugin, as when the two options were mixed up.
/// @returns `invalid_argument`, with the option that would be right.
Result<void> check_programs_and_plugins(const std::vector<std::string>& programs,
                                        const std::vector<std::string>& plugins);

} // namespace gpuactors::cli
