// Unpacks bodies that come with "Content-Encoding: gzip" or "deflate".
#pragma once

#include <apps/serve/http/body_buffer.hpp>

namespace serve {

/// Unpacks `packed` into `body`, whose bounds hold. Any thread.
/// @returns `invalid_argument` for what is not packed like that, or not whole; `unavailable` when the server holds too
///          much; `infeasible` when the unpacked request is larger than allowed.
[[nodiscard]] gpuactors::Result<void> inflate(const Bytes& packed, BodyBuffer& body);

} // namespace serve
