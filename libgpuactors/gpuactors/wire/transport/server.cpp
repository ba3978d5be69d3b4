#include <gpuactors/base/random_id.hpp>
#include <gpuactors/wire/transport.hpp>
#include <gpuactors/wire/transport/channel.hpp>
#include <gpuactors/wire/transport/guests.hpp>

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>

namespace gpuactors {

using detail::Descriptor;
using transport::Answer;
using transport::Channel;
using transport::decode_request;
using transport::Frame;
using transport::Guests;
using transport::GuestState;
using transport::Request;
using transport::Room;
using transport::Signal;
using transport::Status;
using transport::TlsContext;

namespace {

// The pause when no descriptor is left for the next connection: no event reports that one is free.
constexpr std::chrono::milliseconds accept_pause{100};
// While there is no room, callers wait in the backlog for this part of the time in which a server that lives answers.
constexpr int part_in_backlog = 4;

/// One of a server's two ports.
struct Door {
  const Descriptor& listener;
  Guests& guests;
  bool local;
  /// When those who wait are sent away, if there is no room for them by then.
  TimePoint patient_until = never;
};

} // namespace

Result<DevicePass> BulkSource::find_on_device(std::uint64_t id) {
  return fail(Errc::unsupported, fmt::format("region {} lies in host memory", id));
}

class BulkServer::Impl {
public:
  Impl(BulkServerOptions options, Signal stop, Signal wake)
    : options_(std::move(options)), stop_(std::move(stop)), wake_(std::move(wake)),
      local_guests_(wake_, limits::bulk_connections), remote_guests_(wake_, limits::bulk_connections) {
    // nop
  }

  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  ~Impl() {
    close();
  }

  Result<void> start();

  [[nodiscard]] const BulkAddress& address() const noexcept {
    return address_;
  }

  Result<void> add(std::uint64_t id, const SharedRegion& region);
  bool remove(std::uint64_t id);

  [[nodiscard]] std::size_t connections() const {
    return local_guests_.size() + remote_guests_.size();
  }

  void close();

private:
  Result<void> listen();
  void accept_all();
  /// Returns whether there is room. While there is none for long, sends away those who wait, before they take the
  /// server for one that stands still: they ask again. @param again is moved to when to look again.
  bool attend(Door& door, TimePoint& again) const;
  void accept_from(const Door& door);
  void serve(Guests::Guest& guest, bool local);
  [[nodiscard]] Result<void> answer(Channel& channel, const Request& request, bool local);
  [[nodiscard]] Result<SharedRegion> find(std::uint64_t id) const;
  [[nodiscard]] static Status status_of(const Error& error);

  BulkServerOptions options_;
  BulkAddress address_;
  std::optional<TlsContext> tls_;
  Signal stop_;
  // Set when a connection has ended, or is idle while others wait for room.
  Signal wake_;
  Descriptor local_;
  Descriptor remote_;
  Guests local_guests_;
  Guests remote_guests_;
  std::thread acceptor_;
  std::mutex closing_;
  mutable std::mutex mutex_;
  // Guarded by `mutex_`.
  std::unordered_map<std::uint64_t, SharedRegion> regions_;
};

// -- start and end --------------------------------------------------------------------------------

Result<void> BulkServer::Impl::listen() {
  do
    address_.server = random_id();
  while (address_.server == 0);
  address_.machine = transport::machine_identity();
  if (options_.local) {
    address_.socket = fmt::format("gpuactors-{:016x}{:016x}", random_id(), address_.server);
    GPUACTORS_LET(socket, transport::listen_local(address_.socket));
    local_ = std::move(socket);
  }
  const auto& where = options_.listening;
  if (where.host.empty())
    return {};
  const auto& host = address_.endpoint.host = where.host;
  if (is_any_address(host))
    return fail(Errc::invalid_argument,
                fmt::format("{} is all addresses of this machine: say under which one others reach it", host));
  GPUACTORS_TRY(transport::check_listening(where));
  GPUACTORS_LET(port, listen_in(where.ports, random_id(), [&](std::uint16_t at) -> Result<std::uint16_t> {
                  GPUACTORS_LET(listener, transport::listen_tcp({where.local(), at}));
                  remote_ = std::move(listener.socket);
                  return listener.port;
                }));
  address_.endpoint.port = port;
  address_.tls = tls_.has_value();
  if (const auto text = to_string(address_); !parse_bulk_address(text))
    return fail(Errc::invalid_argument, fmt::format("{} is no host name or address", host));
  return {};
}

Result<void> BulkServer::Impl::start() {
  if (options_.certificates) {
    GPUACTORS_LET(tls, TlsContext::load(*options_.certificates));
    tls_ = std::move(tls);
  }
  GPUACTORS_TRY(listen());
  try {
    acceptor_ = std::thread{[this] { accept_all(); }};
  } catch (const std::system_error& error) {
    return fail(Errc::unavailable, fmt::format("the server of bulk data has no thread: {}", error.what()));
  }
  return {};
}

void BulkServer::Impl::close() {
  const std::lock_guard closing{closing_};
  stop_.set();
  if (acceptor_.joinable())
    acceptor_.join();
  local_guests_.join_all();
  remote_guests_.join_all();
  local_.reset();
  remote_.reset();
  const std::lock_guard lock{mutex_};
  regions_.clear();
}

// -- regions --------------------------------------------------------------------------------------

Result<void> BulkServer::Impl::add(std::uint64_t id, const SharedRegion& region) {
  if (id == 0 || !region)
    return fail(Errc::invalid_argument, fmt::format("there is no region to serve, or its id is 0 (id {})", id));
  const std::lock_guard lock{mutex_};
  if (stop_.is_set())
    return fail(Errc::unavailable, "the server of bulk data is closed");
  if (!regions_.try_emplace(id, region).second)
    return fail(Errc::already_exists, fmt::format("a region is served under the id {}", id));
  return {};
}

bool BulkServer::Impl::remove(std::uint64_t id) {
  SharedRegion last; // released after the lock
  const std::lock_guard lock{mutex_};
  const auto found = regions_.find(id);
  if (found == regions_.end())
    return false;
  last = std::move(found->second);
  regions_.erase(found);
  return true;
}

Result<SharedRegion> BulkServer::Impl::find(std::uint64_t id) const {
  {
    const std::lock_guard lock{mutex_};
    if (const auto found = regions_.find(id); found != regions_.end())
      return found->second;
  }
  if (options_.source == nullptr)
    return fail(Errc::not_found, fmt::format("there is no region {}", id));
  return options_.source->find(id);
}

Status BulkServer::Impl::status_of(const Error& error) {
  if (error.code() == Errc::not_found)
    return Status::not_found;
  return error.code() == Errc::actor_died ? Status::lost : Status::failed;
}

// -- connections ----------------------------------------------------------------------------------

void BulkServer::Impl::accept_all() {
  Door doors[2] = {{local_, local_guests_, true}, {remote_, remote_guests_, false}};
  while (!stop_.is_set()) {
    wake_.clear();
    local_guests_.join_ended();
    remote_guests_.join_ended();
    // poll ignores negative descriptors: while there is no room, new connections wait in the socket's backlog.
    TimePoint again = never;
    pollfd entries[4] = {{stop_.descriptor(), POLLIN, 0},
                         {wake_.descriptor(), POLLIN, 0},
                         {attend(doors[0], again) ? local_.get() : -1, POLLIN, 0},
                         {attend(doors[1], again) ? remote_.get() : -1, POLLIN, 0}};
    ::poll(entries, 4, transport::poll_timeout(again));
    if (entries[2].revents != 0)
      accept_from(doors[0]);
    if (entries[3].revents != 0)
      accept_from(doors[1]);
  }
}

bool BulkServer::Impl::attend(Door& door, TimePoint& again) const {
  if (!door.listener)
    return false;
  if (door.guests.make_room(again) == Room::here) {
    door.patient_until = never;
    return true;
  }
  const auto now = Clock::now();
  if (now >= door.patient_until)
    for (auto socket = transport::accept_next(door.listener.get()); socket && *socket && !stop_.is_set();)
      socket = transport::accept_next(door.listener.get());
  if (now >= door.patient_until || door.patient_until == never)
    door.patient_until = deadline_after(now, options_.times.handshake / part_in_backlog);
  again = std::min(again, door.patient_until);
  return false;
}

void BulkServer::Impl::accept_from(const Door& door) {
  auto socket = transport::accept_next(door.listener.get());
  if (!socket) {
    door.guests.evict();
    (void)transport::wait_for(-1, 0, stop_, deadline_after(Clock::now(), accept_pause));
    return;
  }
  // Any user of the machine can connect to an abstract socket; only this process's user is served.
  if (*socket && (!door.local || transport::is_same_user(socket->get())))
    door.guests.add(Channel{std::move(*socket), stop_},
                    [this, local = door.local](Guests::Guest& guest) { serve(guest, local); });
}

void BulkServer::Impl::serve(Guests::Guest& guest, bool local) {
  auto& channel = guest.channel();
  auto until = deadline_after(Clock::now(), options_.times.handshake);
  transport::TlsPeer peer;
  if (!local && tls_) {
    if (!channel.secure(*tls_, transport::TlsPart::accepts, until))
      return;
    peer = channel.peer(*tls_);
  }
  // The first request must begin within the handshake time; a later one may begin within the idle time.
  for (;;) {
    Frame frame;
    auto begun = channel.read_some(frame.data(), 1, until);
    if (!begun)
      return;
    guest.set(GuestState::busy);
    std::size_t done = 0;
    if (!channel.read_all(frame.data() + 1, frame.size() - 1, options_.times.progress,
                          deadline_after(Clock::now(), options_.times.handshake), done))
      return;
    const auto request = decode_request(frame);
    if (!request || peer.is_revoked() || !answer(channel, *request, local))
      return;
    guest.set(GuestState::idle);
    until = deadline_after(Clock::now(), options_.times.idle);
  }
}

Result<void> BulkServer::Impl::answer(Channel& channel, const Request& request, bool local) {
  if (request.taken) {
    if (options_.source != nullptr && request.server == address_.server)
      options_.source->taken(request.id, request.bytes);
    return {};
  }
  if (request.server != address_.server)
    return channel.write_frame(encode(Answer{Status::other_server, request.id, 0}),
                               deadline_after(Clock::now(), options_.times.progress));
  if (local && request.opens_device && options_.source != nullptr)
    if (const auto pass = options_.source->find_on_device(request.id); pass && pass->bytes == request.bytes)
      return channel.write_frame(encode(Answer{Status::on_device, request.id, pass->bytes}),
                                 RegionDescriptors{pass->memory, pass->line->get()},
                                 deadline_after(Clock::now(), options_.times.progress));
  const auto found = find(request.id);
  // Computed only now, because `find` may have taken long.
  const auto until = deadline_after(Clock::now(), options_.times.progress);
  if (!found)
    return channel.write_frame(encode(Answer{status_of(found.error()), request.id, 0}), until);
  const auto& region = *found;
  if (region.size() != request.bytes)
    return channel.write_frame(encode(Answer{Status::other_size, request.id, region.size()}), until);
  if (local && request.maps && region.is_mappable())
    if (const auto descriptors = region.descriptors())
      return channel.write_frame(encode(Answer{Status::mapped, request.id, region.size()}), *descriptors, until);
  GPUACTORS_TRY(channel.write_frame(encode(Answer{Status::streamed, request.id, region.size()}), until));
  return channel.write_all(region.data(), region.size(), options_.times.progress, never);
}

// -- BulkServer -----------------------------------------------------------------------------------

BulkServer::BulkServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
  // nop
}

BulkServer::~BulkServer() = default;

Result<std::unique_ptr<BulkServer>> BulkServer::start(BulkServerOptions options) {
  GPUACTORS_LET(stop, Signal::make());
  GPUACTORS_LET(wake, Signal::make());
  auto impl = std::make_unique<Impl>(std::move(options), std::move(stop), std::move(wake));
  GPUACTORS_TRY(impl->start());
  return std::unique_ptr<BulkServer>{new BulkServer{std::move(impl)}};
}

const BulkAddress& BulkServer::address() const noexcept {
  return impl_->address();
}

Result<void> BulkServer::add(std::uint64_t id, const SharedRegion& region) {
  return impl_->add(id, region);
}

bool BulkServer::remove(std::uint64_t id) {
  return impl_->remove(id);
}

std::size_t BulkServer::connections() const {
  return impl_->connections();
}

void BulkServer::close() {
  impl_->close();
}

} // namespace gpuactors
