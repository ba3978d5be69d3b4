// The gRPC front: listens, and answers what inference.proto says.
#pragma once

#include <apps/serve/protocol/front_state.hpp>

#include <memory>

namespace serve {

class GrpcServer {
public:
  /// Listens and serves.
  /// @returns `invalid_argument` for certificates that cannot be read, `unavailable` where it cannot listen or has no
  ///          threads.
  [[nodiscard]] static gpuactors::Result<std::unique_ptr<GrpcServer>> open(std::shared_ptr<FrontState> state,
                                                                           const gpuactors::Endpoint& endpoint);
  ~GrpcServer();

  [[nodiscard]] const gpuactors::Endpoint& endpoint() const noexcept;

  /// Takes no further calls, waits up to `grace` for those under way, gives up the others.
  void stop(gpuactors::Duration grace);

private:
  class Parts;
  explicit GrpcServer(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

} // namespace serve
