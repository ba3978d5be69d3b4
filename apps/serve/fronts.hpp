// The ways in: one object that serves a `Service` over HTTP and gRPC, as the Open Inference Protocol v2 says.
#pragma once

#include <gpuactors/base/endpoint.hpp>
#include <gpuactors/base/version.hpp>

#include <apps/serve/service.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace serve {

/// PEM files: a certificate with its chain, and the key that belongs to it. Who renews them replaces the files, or a
/// folder, by renaming: new connections show the new one then.
struct TlsFiles {
  std::filesystem::path certificate;
  std::filesystem::path key;
};

/// What clients may take of the server.
struct FrontLimits {
  /// Bytes of one request, also after it was unpacked.
  std::size_t request_bytes = 64U << 20;
  /// The same of one to a generative model: what it gets of that is at most 4 MiB.
  std::size_t generative_request_bytes = 32U << 20;
  /// Bytes of one request that is no inference.
  std::size_t small_request_bytes = 64U << 10;
  /// Bytes of requests and answers that are held at once, over all connections of both fronts.
  std::size_t held_bytes = std::size_t{1} << 30;
  /// Connections of the HTTP front; fewer where the process may not open so many files.
  std::size_t connections = 16'384;
  /// The same for a server with TLS, where each takes up to 100 KiB even if nothing is said.
  std::size_t tls_connections = 4'096;
  /// Bytes of the request line and the header fields of one request.
  std::size_t header_bytes = 16U << 10;
  /// How long a connection over HTTP may take for the header of a request until one has been accepted.
  gpuactors::Duration greeting = std::chrono::seconds{10};
  /// How long a connection may do nothing between two requests.
  gpuactors::Duration idle = std::chrono::minutes{5};
  /// How long a connection of gRPC may be without a call, if that is less: their number has no bound.
  gpuactors::Duration grpc_idle = std::chrono::minutes{1};
  /// How long a header, and each further MiB of a body or of an answer, may take on its way.
  gpuactors::Duration transfer = std::chrono::seconds{30};
  /// How long a message of gRPC may take on its way in, however large it is: nothing tells how much has arrived.
  gpuactors::Duration message = std::chrono::minutes{2};
  /// Loads and unloads, and requests that need long to be read, that wait for a thread.
  std::size_t waiting_work = 64;
  /// How often is looked whether the files of tokens and certificates are others than before; gRPC counts in seconds.
  gpuactors::Duration renewal = std::chrono::seconds{10};
};

struct FrontOptions {
  /// Where to listen; port 0 lets the system choose. Left out: no such front.
  std::optional<gpuactors::Endpoint> http;
  std::optional<gpuactors::Endpoint> grpc;
  /// A file with one token a line. When there is one, every request but those for liveness and readiness must bring
  /// one of them. Those with "ask" before them may not load and unload models. Read again when it has changed.
  std::filesystem::path token_file;
  std::optional<TlsFiles> tls;
  /// A file that gets a line for each request, "-" for standard output (`RequestLog`). Empty: none.
  std::filesystem::path request_log;
  /// Threads that read and write HTTP.
  std::size_t io_threads = 2;
  /// What the metadata of the server says.
  std::string server_name = "gpuactors-serve";
  std::string server_version = gpuactors::release;
  FrontLimits limits;
  /// Told of files that were read again, and of those that cannot be, so that the ones before stay in use. Any thread.
  std::function<void(const std::string&)> notice = [](const std::string&) {};
};

/// What the fronts have to do with right now. Gauges, except where it says total.
struct FrontCounts {
  std::size_t http_connections = 0;
  /// Connections that were turned away because there were too many, in total.
  std::size_t http_refused = 0;
  /// Requests that were answered, in total.
  std::size_t http_requests = 0;
  std::size_t grpc_requests = 0;
  /// Answers by status of HTTP and by gRPC's code, in total.
  std::map<int, std::uint64_t> http_answers;
  std::map<int, std::uint64_t> grpc_answers;
  /// Bytes of requests and answers, see `FrontLimits::held_bytes`.
  std::size_t held_bytes = 0;
};

/// Serves from `open` on until `stop` or its end. Any thread may call its members.
class Fronts {
public:
  /// Listens. `service` must outlive the object.
  /// @returns `invalid_argument` for files that cannot be used, for an address that others can reach without tokens
  ///          and TLS, and for no address at all; `unavailable` where it cannot listen or has no threads.
  [[nodiscard]] static gpuactors::Result<Fronts> open(Service& service, FrontOptions options);

  Fronts(Fronts&&) noexcept;
  Fronts& operator=(Fronts&&) noexcept;
  ~Fronts();

  /// Where it listens, with the port that was chosen.
  [[nodiscard]] std::optional<gpuactors::Endpoint> http() const;
  [[nodiscard]] std::optional<gpuactors::Endpoint> grpc() const;

  [[nodiscard]] FrontCounts counts() const;

  /// Calls `done` when each thread that reads and writes HTTP has taken a turn: later where they are busy, never where
  /// one is stuck. Without HTTP, at once. Not after `stop`.
  void turn(std::function<void()> done) const;

  /// Says from now on that it is not ready, and closes each connection of HTTP behind its next answer, but serves: who
  /// sends requests looks before it sends them elsewhere.
  void leave();

  /// Takes no further requests, waits up to `grace` for those that are being answered, then closes all connections.
  /// Calls after the first do nothing.
  void stop(gpuactors::Duration grace);

private:
  struct Parts;
  explicit Fronts(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

} // namespace serve
