// The way to a gRPC front from within a program, for those who ask as clients do.
#pragma once

#include <gpuactors/base/endpoint.hpp>

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <memory>

namespace serve {

/// In plaintext.
[[nodiscard]] inline std::shared_ptr<grpc::Channel> channel_to(const gpuactors::Endpoint& endpoint) {
  return grpc::CreateChannel(to_string(endpoint), grpc::InsecureChannelCredentials());
}

} // namespace serve
