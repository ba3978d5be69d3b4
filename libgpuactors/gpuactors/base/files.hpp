// Reading whole files, writing to file descriptors, and file errors as `Failure`.
#pragma once

#include <gpuactors/base/descriptor.hpp>
#include <gpuactors/base/result.hpp>

#include <cstddef>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace gpuactors::detail {

/// Builds the error for a failed operation on `path` from errno; `what` is the participle for the text ("written"). The
/// code is `unavailable` for conditions that can pass, such as a full disk, and `invalid_argument` otherwise.
Failure fail_errno(const std::filesystem::path& path, std::string_view what);

/// Reads an open file from where it is to its end, also one of /proc, which does not say how long it is; at most `most`
/// bytes. Returns nothing, with errno set, if it cannot be read.
[[nodiscard]] std::optional<std::string> read_to_end(int file,
                                                     std::size_t most = std::numeric_limits<std::size_t>::max());

/// Reads a file. For files that may become unreadable, as those of /proc do when their process ends: an iterator over
/// the buffer of a stream throws then.
/// @returns `not_found` if there is none, otherwise as `fail_errno` if it cannot be read.
[[nodiscard]] Result<std::string> read_to_end(const std::filesystem::path& path);

/// Writes all of `text`. Returns false with errno set on failure; part of the text may have been written by then.
[[nodiscard]] bool write_all(int file, std::string_view text) noexcept;

} // namespace gpuactors::detail
