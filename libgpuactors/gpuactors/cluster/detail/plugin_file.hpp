// What the file of a plugin says of itself, read without running any of it. Internal to the cluster layer.
#pragma once

#include <gpuactors/actor/plugin_note.hpp>
#include <gpuactors/base/result.hpp>

#include <string>
#include <vector>

namespace gpuactors::detail {

/// The notes that its sources left in it, one each; none in a library that has nothing to do with gpuactors.
/// @returns `not_found` or `invalid_argument` for what cannot be read, or is no shared library of this machine.
[[nodiscard]] Result<std::vector<BuiltWith>> read_plugin_notes(const std::string& file);

/// Checks that a file can be a plugin of this program: its notes, that there are any, and that they say what this
/// program was built with.
/// @returns as `read_plugin_notes`; `invalid_argument` naming both versions.
[[nodiscard]] Result<void> check_plugin_file(const std::string& file);

} // namespace gpuactors::detail
