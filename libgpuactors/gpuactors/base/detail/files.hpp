// Writing files by descriptor, and what their errors mean.
#pragma once

#include <gpuactors/base/detail/descriptor.hpp>
#include <gpuactors/base/result.hpp>

#include <filesystem>
#include <string_view>

namespace gpuactors::detail {

/// Says by errno what could not be done with `path` ("written"): `unavailable` for what passes, such as a full disk,
/// `invalid_argument` for the rest.
Failure fail_errno(const std::filesystem::path& path, std::string_view what);

/// Writes all of it; on a failure, which errno tells, possibly a part.
[[nodiscard]] bool write_all(int file, std::string_view text) noexcept;

} // namespace gpuactors::detail
