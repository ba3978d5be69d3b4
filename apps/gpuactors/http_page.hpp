// HttpPage: a small HTTP/1.1 server for pages that operators and their tools read.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/endpoint.hpp>
#include <gpuactors/base/result.hpp>

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace gpuactors::cli {

/// A request. GET and HEAD are the same here: the server leaves out the body for HEAD.
struct PageRequest {
  /// The path, without a query ("?...").
  std::string path;
};

struct PageAnswer {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  /// Further headers: names and values.
  std::vector<std::pair<std::string, std::string>> headers{};
};

/// Answers a request, once, from any thread; later answers, and those after the end of the server, are dropped.
using PageReply = std::function<void(PageAnswer)>;

/// Called on the thread of `HttpPage::serve` for each request. Must not block: the reply may be given later.
using PageHandler = std::function<void(const PageRequest& request, PageReply reply)>;

/// Limits on what clients may take of the server.
struct PageLimits {
  /// Connections at a time; more are left waiting in the system's queue.
  std::size_t connections = 64;
  /// Memory of each connection, for the request line and headers, and the headers of the answer.
  std::size_t memory_bytes = 16U << 10;
  /// How long each of reading the request, waiting for the reply and writing it may take.
  Duration patience = std::chrono::seconds{5};
};

/// A listening socket, and one thread that serves all connections. Each connection has one request and is then closed.
///
/// GNU libmicrohttpd implements the protocol. No request can hold others up: nothing blocks, and each phase of a
/// connection has a deadline, at which the connection is closed. Refused are methods other than GET and HEAD (405),
/// requests that are too large (431 or a closed connection), and on a loopback address requests for a host that is none
/// (403). A reply that does not come in time is a 503.
/// Movable; `serve` runs on one thread at a time.
class HttpPage {
public:
  /// Listens at `endpoint`; port 0 means any free port.
  /// @returns `invalid_argument` for a host without an address, `unavailable` if the system refuses.
  static Result<HttpPage> listen(const Endpoint& endpoint, PageLimits limits = {});

  HttpPage(HttpPage&&) noexcept;
  HttpPage& operator=(HttpPage&&) noexcept;
  ~HttpPage();

  /// Returns where the server listens, with the actual port.
  [[nodiscard]] Endpoint endpoint() const;

  /// Serves until `stop` is requested.
  /// @returns `internal` if the server cannot wait for requests any more.
  Result<void> serve(const PageHandler& handler, const std::stop_token& stop);

private:
  class Impl;
  explicit HttpPage(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

} // namespace gpuactors::cli
