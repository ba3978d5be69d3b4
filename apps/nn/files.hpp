// Whole files: read at once, replaced in one moment, and summed up.
#pragma once

#include <gpuactors/base/result.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace nn {

/// The bytes of a file, at most the first `most` of them.
/// @returns `not_found` or `unavailable`, with the path and the system's words.
gpuactors::Result<std::vector<std::byte>> read_file(const std::filesystem::path& path,
                                                    std::size_t most = std::numeric_limits<std::size_t>::max());

/// A file's text. @returns as `read_file`.
gpuactors::Result<std::string> read_text(const std::filesystem::path& path);

/// The text of a file that need not be there. @returns as `read_file`, and nothing if there is none.
gpuactors::Result<std::optional<std::string>> read_text_if_there(const std::filesystem::path& path);

/// How long a file is. @returns as `read_file`.
gpuactors::Result<std::uint64_t> file_bytes(const std::filesystem::path& path);

/// The path that a path leads to by its last name, if that is a symbolic link, and by what is behind that: also where
/// nothing is there yet. Links in a circle lead to one of them.
[[nodiscard]] std::filesystem::path behind_links(std::filesystem::path path);

/// Puts a file with these bytes, piece after piece, in the place of `path`, or of what it is a link to: written with
/// ".part" behind that name, brought to the disk and renamed, so that at any moment, whatever dies, there is the old
/// file or the new one.
/// @returns `unavailable` with the path and the system's words; the old file is then as it was.
gpuactors::Result<void> replace_file(const std::filesystem::path& path,
                                     const std::vector<std::span<const std::byte>>& pieces);

/// SHA-256 over the pieces, one after the other, in 64 hexadecimal digits.
gpuactors::Result<std::string> sha256(const std::vector<std::span<const std::byte>>& pieces);

} // namespace nn
