// Writing to file descriptors, and file errors as `Failure`.
#pragma once

#include <gpuactors/base/descriptor.hpp>
#include <gpuactors/base/result.hpp>

#include <filesystem>
#include <string_view>

namespace gpuactors::detail {

/// Builds the error for a failed operation on `path` from errno; `what` is the participle for the text ("written"). The
/// code is `unavailable` for conditions that can pass, such as a full disk, and `invalid_argument` otherwise.
Failure fail_errno(const std::filesystem::path& path, std::string_view what);

/// Writes all of `text`. Returns false with errno set on failure; part of the text may have been written by then.
[[nodiscard]] bool write_all(int file, std::string_view text) noexcept;

} // namespace gpuactors::detail
