// What each error code is called over HTTP and gRPC.
#pragma once

#include <gpuactors/base/error.hpp>

namespace serve {

/// The status of HTTP, see `InferDone`; 499 is nginx' for a client that has gone.
[[nodiscard]] int http_status(gpuactors::Errc code) noexcept;

/// The number of gRPC's status code.
[[nodiscard]] int grpc_status(gpuactors::Errc code) noexcept;

} // namespace serve
