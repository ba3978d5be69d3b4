// Reads a plugin file's own notes without running any of its code. Internal to the cluster layer.
#pragma once

#include <gpuactors/actor/plugin_note.hpp>
#include <gpuactors/base/result.hpp>

#include <string>
#include <vector>

namespace gpuactors::detail {

/// The version notes in a library, one from each of its sources that uses gpuactors; none in other libraries.
/// @returns `not_found` or `invalid_argument` for a file that cannot be read or is not a shared library for this
///          machine.
[[nodiscard]] Result<std::vector<BuiltWith>> read_plugin_notes(const std::string& file);

/// Checks that a file can be a plugin of this program: that it has version notes, and that they match this program's.
/// @returns the errors of `read_plugin_notes`; `invalid_argument` naming both versions.
[[nodiscard]] Result<void> check_plugin_file(const std::string& file);

} // namespace gpuactors::detail
