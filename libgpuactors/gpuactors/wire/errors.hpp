// Conversion of errors at the border to CAF: the library's errors travel as a standard CAF error that carries code and
// text.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/wire/caf_version.hpp>

namespace gpuactors {

/// Wraps `error` for a CAF reply: `sec::runtime_error` with context (std::uint8_t code, std::string text).
[[nodiscard]] caf::error to_caf(const Error& error);

/// Reads what `to_caf` wrote, and translates CAF's own errors: a receiver that is down is `actor_died`, a timeout
/// `deadline_exceeded`, a silent connection `unavailable`, an unexpected message `invalid_argument`, anything else
/// `internal` with CAF's text.
[[nodiscard]] Error from_caf(const caf::error& error);

} // namespace gpuactors
