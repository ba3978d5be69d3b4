// The HTTP front: listens, and gives each connection to one of its loops.
#pragma once

#include <apps/serve/protocol/front_state.hpp>

#include <functional>
#include <memory>

namespace serve {

class HttpServer {
public:
  /// Listens and serves.
  /// @returns `invalid_argument` for certificates that cannot be used, `unavailable` where it cannot listen or has no
  ///          threads.
  [[nodiscard]] static gpuactors::Result<std::unique_ptr<HttpServer>> open(std::shared_ptr<FrontState> state,
                                                                           const gpuactors::Endpoint& endpoint);
  ~HttpServer();

  [[nodiscard]] const gpuactors::Endpoint& endpoint() const noexcept;

  /// Reads certificate and key again, for connections that come from now on. Any thread.
  /// @returns `invalid_argument` if they cannot be used: those before stay in use.
  gpuactors::Result<void> renew_tls();

  /// Has each thread take a turn, one after the other; the last calls `done`. Nothing happens after `stop`. Any thread.
  void turn(std::function<void()> done);

  /// Takes no further requests, waits up to `grace` for those under way, gives up the others, closes all connections.
  void stop(gpuactors::Duration grace);

private:
  class Parts;
  explicit HttpServer(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

} // namespace serve
