// Bulk data between processes, separate from the control messages: the owner of a memory region serves it, others fetch
// it.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/endpoint.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/listening.hpp>
#include <gpuactors/base/region.hpp>
#include <gpuactors/base/result.hpp>
#include <gpuactors/wire/certificates.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace gpuactors {

/// The address at which one process serves its regions. It travels in messages as text.
struct BulkAddress {
  /// A random number of the server, so that another process that gets the same port later is not taken for it.
  std::uint64_t server = 0;
  /// Who can reach `socket`: processes with the same boot of the machine, network namespace and user.
  std::string machine;
  /// Name of the Unix socket, in the abstract namespace; empty if there is none.
  std::string socket;
  /// The TCP endpoint; port 0 means that there is none.
  Endpoint endpoint;
  /// Whether the TCP port speaks TLS.
  bool tls = true;

  friend bool operator==(const BulkAddress&, const BulkAddress&) = default;
};

/// Renders the address as one word of at most 512 characters, for example
/// "tls://10.0.0.5:4711/1f.../9a...-4026531840-1000/gpuactors-...".
[[nodiscard]] std::string to_string(const BulkAddress& address);

/// Reads what `to_string` wrote.
/// @returns `invalid_argument` for anything else.
[[nodiscard]] Result<BulkAddress> parse_bulk_address(std::string_view text);

/// Time limits for peers.
struct BulkTimes {
  /// For connecting and authenticating, or for finishing a request once its first byte was sent.
  std::chrono::milliseconds handshake = limits::bulk_handshake;
  /// For sending or receiving the next bytes of a transfer.
  std::chrono::milliseconds progress = limits::bulk_progress;
  /// For using an open connection again.
  std::chrono::milliseconds idle = limits::bulk_idle;
};

/// Device memory that another process of this machine may open.
struct DevicePass {
  /// The descriptor by which the memory is opened.
  int memory = -1;
  /// One end of a line; the owner has the other. The taker's end closes when it has released the memory or has died;
  /// the owner's end closes when the taker is to release the memory.
  std::shared_ptr<detail::Descriptor> line;
  std::size_t bytes = 0;
  /// Keeps `memory` valid.
  std::shared_ptr<void> holder;
};

/// Opens device memory that came with a line. The caller keeps ownership of `memory`. @returns false on failure.
using OpenDevice = std::function<bool(int memory, std::shared_ptr<detail::Descriptor> line)>;

/// A source of regions that are made on request. Any thread; may block the caller.
class BulkSource {
public:
  BulkSource() = default;
  BulkSource(const BulkSource&) = delete;
  BulkSource& operator=(const BulkSource&) = delete;
  virtual ~BulkSource() = default;

  /// Returns the region `id`. @returns `not_found`; `actor_died` if the contents are lost; any other code if the region
  /// is unavailable now.
  [[nodiscard]] virtual Result<SharedRegion> find(std::uint64_t id) = 0;

  /// Returns region `id` on its device, for a process of this machine that can open device memory.
  /// @returns any error, such as `unsupported`, if the region has to go through the host.
  [[nodiscard]] virtual Result<DevicePass> find_on_device(std::uint64_t id);

  /// Reports that the client that fetched region `id` with this hand-over has received all of it.
  virtual void taken(std::uint64_t id, std::uint64_t hand_over) = 0;
};

struct BulkServerOptions {
  /// Where to listen for other machines. Without a host, only processes of this machine are served.
  Listening listening;
  /// The certificates for mutual TLS. Without them the TCP port is plain, which only an operator may choose.
  std::optional<CertificateFiles> certificates;
  /// Whether processes of this user on this machine may map mappable regions, through a Unix socket.
  bool local = true;
  /// Provides the regions that were not added; may be null.
  std::shared_ptr<BulkSource> source;
  BulkTimes times;
};

/// Serves the regions of one process. Any thread.
///
/// One thread accepts connections, and each connection (their number is bounded) has its own thread: a stalled peer
/// delays no other, TLS of several peers uses several cores, and the thread of an idle connection costs next to
/// nothing. Control messages share none of these threads and connections.
class BulkServer {
public:
  /// Starts a server. @returns `invalid_argument` for a host or certificates that cannot be used, `unavailable` if no
  /// port or thread is available.
  [[nodiscard]] static Result<std::unique_ptr<BulkServer>> start(BulkServerOptions options);

  /// Calls `close`.
  ~BulkServer();

  [[nodiscard]] const BulkAddress& address() const noexcept;

  /// Serves `region` under `id`, which must not be 0, until `remove`.
  /// @returns `already_exists` if the id is in use, `invalid_argument` for an empty region or id 0, `unavailable` after
  ///          `close`.
  Result<void> add(std::uint64_t id, const SharedRegion& region);

  /// Stops serving the region `id`. Running transfers continue, and keep the memory until they end.
  /// @returns whether there was such a region.
  bool remove(std::uint64_t id);

  /// Returns the number of open connections.
  [[nodiscard]] std::size_t connections() const;

  /// Ends all transfers and threads, and releases the regions. Does not wait for any peer. Idempotent.
  void close();

private:
  class Impl;

  explicit BulkServer(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

struct BulkClientOptions {
  /// The certificates for mutual TLS. Without them only plain ports can be reached, with them only TLS ports.
  std::optional<CertificateFiles> certificates;
  /// Whether to map regions of processes on this machine; otherwise their bytes come over TCP.
  bool local = true;
  /// The pool for received regions; null means a new pool of the client's own.
  std::shared_ptr<RegionPool> pool;
  BulkTimes times;
};

/// Fetches regions of other processes. Any thread; the calling thread does the transfer. The client's own thread only
/// drops idle connections and mappings.
///
/// Connections and mappings (`MappedRegions`) are kept for a while for reuse. Fetches from one server beyond
/// `limits::bulk_streams` wait.
class BulkClient {
public:
  /// Creates a client. @returns `invalid_argument` for certificates that cannot be used, `unavailable` if no thread is
  /// available.
  [[nodiscard]] static Result<std::unique_ptr<BulkClient>> create(BulkClientOptions options);

  /// Calls `close`.
  ~BulkClient();

  /// Fetches the region that is served under `id` and has `bytes` bytes. Blocks until all of it has arrived. On the
  /// same machine, a mappable region is mapped, not copied.
  /// @param hand_over if not 0, reported to the server's source afterwards (`BulkSource::taken`), unless the connection
  ///        breaks.
  /// @param open if not empty, may be called with the region's device memory instead; the returned region is then
  ///        empty.
  /// @returns `not_found` if the server has no region under this id (any more), `worker_died` if the process that
  ///          served it has ended, before or during the transfer, `actor_died` if only the part of that process that
  ///          owned the memory has ended, `unavailable` if the server cannot be reached, stalls, refuses, or has no
  ///          place for another connection for a minute,
  ///          `deadline_exceeded`, `invalid_argument` if the region has another size or the two sides disagree about
  ///          TLS, `out_of_memory`, `cancelled` if the client is closed. Error texts say how many bytes had arrived.
  [[nodiscard]] Result<SharedRegion> fetch(const BulkAddress& address, std::uint64_t id, std::uint64_t bytes,
                                           TimePoint deadline, std::uint64_t hand_over = 0, OpenDevice open = {});

  /// Reports to the server's source that this hand-over of region `id` has arrived, as `fetch` does. Blocks until the
  /// report is sent; drops it if the server cannot be reached, or not by `deadline`.
  void taken(const BulkAddress& address, std::uint64_t id, std::uint64_t hand_over, TimePoint deadline);

  /// Returns the number of connections kept for later fetches.
  [[nodiscard]] std::size_t idle_connections() const;

  /// Ends all fetches and connections. Fetched regions stay valid. Idempotent.
  void close();

private:
  class Impl;

  explicit BulkClient(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

} // namespace gpuactors
