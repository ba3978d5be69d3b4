// Bulk data between processes, beside the control messages: whoever has a region of memory serves it, others fetch it.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/endpoint.hpp>
#include <gpuactors/base/limits.hpp>
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

/// Where the regions of one process are served. Travels in messages as text.
struct BulkAddress {
  /// Random, of one server: another process that gets the same port later is not taken for it.
  std::uint64_t server = 0;
  /// Who can reach `socket`: this boot of this machine, network namespace and user.
  std::string machine;
  /// Name of the Unix socket, in the abstract namespace; empty when there is none.
  std::string socket;
  /// The TCP port; 0 means that there is none.
  Endpoint endpoint;
  /// Whether the TCP port speaks TLS.
  bool tls = true;

  friend bool operator==(const BulkAddress&, const BulkAddress&) = default;
};

/// Renders one word of at most 512 characters, for example
/// "tls://10.0.0.5:4711/1f.../9a...-4026531840-1000/gpuactors-...".
[[nodiscard]] std::string to_string(const BulkAddress& address);

/// Reads what `to_string` wrote.
/// @returns `invalid_argument` for anything else.
[[nodiscard]] Result<BulkAddress> parse_bulk_address(std::string_view text);

/// How long peers may take.
struct BulkTimes {
  /// To connect and show who they are, or to finish a request that they began.
  std::chrono::milliseconds handshake = limits::bulk_handshake;
  /// To take or give the next bytes of a transfer.
  std::chrono::milliseconds progress = limits::bulk_progress;
  /// To use an open connection again.
  std::chrono::milliseconds idle = limits::bulk_idle;
};

/// Device memory that another process of this machine may open.
struct DevicePass {
  /// What it is opened by.
  int memory = -1;
  /// One end of a line whose other end the owner has: it closes when the taker has let go of the memory or has died,
  /// and the owner's closes when the memory is to be let go of.
  std::shared_ptr<detail::Descriptor> line;
  std::size_t bytes = 0;
  /// Keeps `memory`.
  std::shared_ptr<void> holder;
};

/// Opens device memory that came with a line; `memory` stays the caller's. @returns false when it cannot.
using OpenDevice = std::function<bool(int memory, std::shared_ptr<detail::Descriptor> line)>;

/// Regions that are made when somebody asks for them. Any thread; may block the one who asks.
class BulkSource {
public:
  BulkSource() = default;
  BulkSource(const BulkSource&) = delete;
  BulkSource& operator=(const BulkSource&) = delete;
  virtual ~BulkSource() = default;

  /// @returns `not_found`, `actor_died` when what lay there is lost, anything else when it cannot be had just now.
  [[nodiscard]] virtual Result<SharedRegion> find(std::uint64_t id) = 0;

  /// The same on a device, for a process of this machine that can open it there.
  /// @returns `unsupported`, or anything else, when it has to go through the host.
  [[nodiscard]] virtual Result<DevicePass> find_on_device(std::uint64_t id);

  /// Somebody who fetched region `id` with this hand-over has it all.
  virtual void taken(std::uint64_t id, std::uint64_t hand_over) = 0;
};

struct BulkServerOptions {
  /// Where to listen for other machines, on any free port if that is 0; without a host, only processes of this machine
  /// are served.
  Endpoint listen;
  /// Under which name or address others reach this machine; empty: the host of `listen`.
  std::string advertised_host;
  /// Whom to trust and who to be. Without them the TCP port is plain: only where the operator has said so.
  std::optional<CertificateFiles> certificates;
  /// Whether processes of this user on this machine may map what is mappable, through a Unix socket.
  bool local = true;
  /// Asked for what was not added; may be null.
  std::shared_ptr<BulkSource> source;
  BulkTimes times;
};

/// Serves the regions of one process. Any thread.
///
/// One thread waits for connections, and each of them (a bounded number) has a thread of its own: peers that stand
/// still hold up nobody else, TLS of several peers uses several cores, and the thread of a connection that waits costs
/// next to nothing. None of it is a thread or a connection of the control messages.
class BulkServer {
public:
  /// @returns `invalid_argument` for a host or certificates that cannot be used, `unavailable` when there is no port or
  /// thread.
  [[nodiscard]] static Result<std::unique_ptr<BulkServer>> start(BulkServerOptions options);

  /// Closes.
  ~BulkServer();

  [[nodiscard]] const BulkAddress& address() const noexcept;

  /// Serves `region` under `id`, which is not 0, until it is removed.
  /// @returns `already_exists` when there is one under this id.
  Result<void> add(std::uint64_t id, const SharedRegion& region);

  /// Serves it no longer; transfers that run go on and keep the memory until they end.
  /// @returns whether there was one.
  bool remove(std::uint64_t id);

  /// Connections that are open now.
  [[nodiscard]] std::size_t connections() const;

  /// Ends all transfers and threads; what was served is let go. Waits for no peer. Idempotent.
  void close();

private:
  class Impl;

  explicit BulkServer(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

struct BulkClientOptions {
  /// Whom to trust and who to be. Without them only plain ports can be reached, with them only TLS ports.
  std::optional<CertificateFiles> certificates;
  /// Whether to map regions of this machine; else their bytes come over TCP.
  bool local = true;
  /// Where memory comes from; left out, a pool of its own.
  std::shared_ptr<RegionPool> pool;
  BulkTimes times;
};

/// Fetches regions of other processes. Any thread, which does the work; one of its own only lets go of what is idle.
///
/// Connections are kept for a while and used again, and so are mappings (`MappedRegions`). Fetches from one server
/// beyond `limits::bulk_streams` wait.
class BulkClient {
public:
  /// @returns `invalid_argument` for certificates that cannot be used, `unavailable` when there is no thread.
  [[nodiscard]] static Result<std::unique_ptr<BulkClient>> create(BulkClientOptions options);

  /// Closes.
  ~BulkClient();

  /// The region that is served under `id`, which has `bytes` bytes. Blocks until all of it is here. On the same machine
  /// it is mapped, not copied, when it is mappable.
  /// @param hand_over if not 0, the server's source is told of this number afterwards, unless the connection breaks.
  /// @param open if not empty, it may be given the region on a device instead. What is returned is then empty.
  /// @returns `not_found` when the server has none under this id (any more), `worker_died` when the process that
  ///          served it has ended, before or midway, `actor_died` when only the part of it that had the memory has,
  ///          `unavailable` when it cannot be reached, stands still or refuses, `deadline_exceeded`, `invalid_argument`
  ///          when it has another size or the ways to talk do not fit, `out_of_memory`, `cancelled` when the client is
  ///          closed. Texts say how many bytes had come.
  [[nodiscard]] Result<SharedRegion> fetch(const BulkAddress& address, std::uint64_t id, std::uint64_t bytes,
                                           TimePoint deadline, std::uint64_t hand_over = 0, OpenDevice open = {});

  /// Tells the server's source that this hand-over of region `id` has arrived, as `fetch` does. Blocks until it is
  /// sent; not told when the server cannot be reached.
  void taken(const BulkAddress& address, std::uint64_t id, std::uint64_t hand_over);

  /// Connections that are kept for later fetches.
  [[nodiscard]] std::size_t idle_connections() const;

  /// Ends all fetches and connections. What was fetched stays. Idempotent.
  void close();

private:
  class Impl;

  explicit BulkClient(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

} // namespace gpuactors
