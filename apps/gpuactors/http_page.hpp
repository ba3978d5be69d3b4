// HttpPage: a small HTTP/1.1 server for pages that operators and their tools read.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/endpoint.hpp>
#include <gpuactors/base/result.hpp>

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

namespace gpuactors::cli {

/// What somebody asks for. GET and HEAD are the same here: the body is left out where it must be.
struct PageRequest {
  /// The path, without what follows a "?".
  std::string path;
};

struct PageAnswer {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

/// Gives an answer, once, from any thread; later ones, and those after the end of the server, are dropped.
using PageReply = std::function<void(PageAnswer)>;

/// Called on the thread of `HttpPage::serve` for each request. Must not block: the reply may be given later.
using PageHandler = std::function<void(const PageRequest& request, PageReply reply)>;

/// What one stranger may take of the server.
struct PageLimits {
  /// More are left waiting in the system's queue.
  std::size_t connections = 64;
  /// Of each connection: request line and headers, and the headers of the answer.
  std::size_t memory_bytes = 16U << 10;
  /// How long each of reading the request, waiting for the reply and writing it may take.
  Duration patience = std::chrono::seconds{5};
};

/// A listening socket, and one thread that serves all that connect: one request a connection, which is then closed.
///
/// The protocol is GNU libmicrohttpd's. No request can hold others up: nothing blocks, and each phase of a connection
/// has a deadline, at which it is closed. Other methods than GET and HEAD are refused (405), and larger requests (431
/// or a closed connection); a reply that does not come is a 503. Movable; `serve` runs on one thread at a time.
class HttpPage {
public:
  /// Listens there; port 0: any that is free.
  /// @returns `invalid_argument` for a host that has no address, `unavailable` when the system does not let it.
  static Result<HttpPage> listen(const Endpoint& endpoint, PageLimits limits = {});

  HttpPage(HttpPage&&) noexcept;
  HttpPage& operator=(HttpPage&&) noexcept;
  ~HttpPage();

  /// Where it listens, with the port that it got.
  [[nodiscard]] Endpoint endpoint() const;

  /// Serves until it is stopped.
  /// @returns `internal` when it cannot wait for requests any more.
  Result<void> serve(const PageHandler& handler, const std::stop_token& stop);

private:
  class Impl;
  explicit HttpPage(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

} // namespace gpuactors::cli
