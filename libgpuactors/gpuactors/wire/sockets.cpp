#include "sockets.hpp"

#include <gpuactors/base/random_id.hpp>

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <memory>

namespace gpuactors::transport {

namespace {

constexpr int backlog = 128;
constexpr int socket_flags = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
// The pause between attempts to connect to a Unix socket whose backlog is full: poll cannot wait for that.
constexpr std::chrono::milliseconds backlog_pause{2};

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

struct LocalAddress {
  sockaddr_un value{};
  socklen_t size = 0;
};

LocalAddress local_address(const std::string& name) {
  LocalAddress result;
  result.value.sun_family = AF_UNIX;
  const auto length = std::min(name.size(), sizeof result.value.sun_path - 1);
  std::memcpy(result.value.sun_path + 1, name.data(), length); // the leading zero byte selects the abstract namespace
  result.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return result;
}

const sockaddr* generic(const LocalAddress& address) {
  return reinterpret_cast<const sockaddr*>(&address.value);
}

/// Returns the addresses of a host. Only a name is looked up, and for that the system's resolver has no deadline.
Result<Addresses> resolve(const Endpoint& endpoint, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &found);
  if (error != 0)
    return fail(Errc::unavailable, fmt::format("the host {} is not known: {}", endpoint.host, ::gai_strerror(error)));
  return Addresses{found, &::freeaddrinfo};
}

void set_option(int socket, int level, int option) {
  const int on = 1;
  ::setsockopt(socket, level, option, &on, sizeof on);
}

std::uint16_t port_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return 0;
  if (address.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

Failure refused(int error) {
  return fail(error == ECONNREFUSED ? Errc::worker_died : Errc::unavailable, errno_text(error));
}

Result<Descriptor> connect_one(const addrinfo& address, const Signal& stop, TimePoint until) {
  Descriptor socket{::socket(address.ai_family, socket_flags, address.ai_protocol)};
  if (!socket)
    return fail(Errc::unavailable, errno_text(errno));
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS)
      return refused(errno);
    GPUACTORS_TRY(wait_for(socket.get(), POLLOUT, stop, until));
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0)
      return refused(error);
  }
  set_option(socket.get(), IPPROTO_TCP, TCP_NODELAY);
  set_option(socket.get(), SOL_SOCKET, SO_KEEPALIVE);
  return socket;
}

std::string make_machine_identity() {
  std::string boot;
  std::ifstream{"/proc/sys/kernel/random/boot_id"} >> boot;
  struct stat space {};
  // Without this information, no other process counts as being on the same machine.
  if (boot.empty() || ::stat("/proc/self/ns/net", &space) != 0)
    boot = fmt::format("{:016x}", random_id());
  return fmt::format("{}-{}-{}", boot, space.st_ino, ::geteuid());
}

} // namespace

Result<Signal> Signal::make() {
  Descriptor event{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  if (!event)
    return fail(Errc::unavailable, fmt::format("there is no descriptor left: {}", errno_text(errno)));
  return Signal{std::move(event)};
}

void Signal::set() noexcept {
  *set_ = true;
  ::eventfd_write(event_.get(), 1);
}

void Signal::clear() noexcept {
  eventfd_t ignored = 0;
  ::eventfd_read(event_.get(), &ignored);
  *set_ = false;
}

int poll_timeout(TimePoint until) {
  if (until == never)
    return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, INT_MAX));
}

Result<void> wait_for(int socket, short events, const Signal& stop, TimePoint until) {
  for (;;) {
    pollfd entries[2] = {{socket, events, 0}, {stop.descriptor(), POLLIN, 0}};
    const int ready = ::poll(entries, 2, poll_timeout(until));
    if (ready < 0 && errno != EINTR)
      return fail(Errc::unavailable, errno_text(errno));
    if (ready > 0 && entries[1].revents != 0)
      return fail(Errc::cancelled, "closed");
    if (ready > 0)
      return {};
    if (ready == 0 && Clock::now() >= until)
      return fail(Errc::deadline_exceeded, "the time is over");
  }
}

const std::string& machine_identity() {
  static const auto identity = make_machine_identity();
  return identity;
}

bool is_same_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

Result<Descriptor> listen_local(const std::string& name) {
  Descriptor socket{::socket(AF_UNIX, socket_flags, 0)};
  const auto address = local_address(name);
  if (!socket || ::bind(socket.get(), generic(address), address.size) != 0 || ::listen(socket.get(), backlog) != 0)
    return fail(Errc::unavailable, fmt::format("cannot listen on the Unix socket {}: {}", name, errno_text(errno)));
  return socket;
}

Result<TcpListener> listen_tcp(const Endpoint& at) {
  GPUACTORS_LET(addresses, resolve(at, AI_PASSIVE));
  Descriptor socket{::socket(addresses->ai_family, socket_flags, addresses->ai_protocol)};
  if (socket)
    set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR);
  if (!socket || ::bind(socket.get(), addresses->ai_addr, addresses->ai_addrlen) != 0
      || ::listen(socket.get(), backlog) != 0) {
    const int why = errno;
    return fail(why == EADDRNOTAVAIL ? Errc::invalid_argument : Errc::unavailable,
                fmt::format("cannot listen on {}: {}", to_string(at), errno_text(why)));
  }
  const auto got = port_of(socket.get());
  return TcpListener{std::move(socket), got};
}

Result<void> check_listening(const Listening& where) {
  if (where.ports.is_any())
    return {};
  GPUACTORS_TRY(listen_tcp({where.local(), 0}));
  return {};
}

Result<Descriptor> accept_next(int listener) {
  Descriptor socket{::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)};
  if (!socket && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
    return fail(Errc::unavailable, errno_text(errno));
  if (socket) {
    set_option(socket.get(), IPPROTO_TCP, TCP_NODELAY); // fails on a Unix socket, without harm
    set_option(socket.get(), SOL_SOCKET, SO_KEEPALIVE);
  }
  return socket; // empty if the peer is already gone, or for another error of that connection only
}

Result<Descriptor> connect_local(const std::string& name, const Signal& stop, TimePoint until) {
  Descriptor socket{::socket(AF_UNIX, socket_flags, 0)};
  if (!socket)
    return fail(Errc::unavailable, errno_text(errno));
  const auto address = local_address(name);
  while (::connect(socket.get(), generic(address), address.size) != 0) {
    if (errno != EAGAIN && errno != EINTR)
      return refused(errno);
    if (Clock::now() >= until)
      return fail(Errc::deadline_exceeded, "the time is over");
    // poll ignores the negative descriptor, so only `stop` can become ready.
    if (auto waited = wait_for(-1, 0, stop, std::min(until, deadline_after(Clock::now(), backlog_pause)));
        waited.error().code() == Errc::cancelled)
      return fail(waited.error());
  }
  if (!is_same_user(socket.get()))
    return fail(Errc::unavailable, "its Unix socket belongs to another user");
  return socket;
}

Result<Descriptor> connect_tcp(const Endpoint& to, const Signal& stop, TimePoint until) {
  GPUACTORS_LET(addresses, resolve(to, 0));
  auto result = Result<Descriptor>{fail(Errc::unavailable, "the host has no address")};
  std::ptrdiff_t left = 0;
  for (const auto* address = addresses.get(); address != nullptr; address = address->ai_next)
    ++left;
  for (const auto* address = addresses.get(); address != nullptr; address = address->ai_next, --left) {
    // The remaining time is divided, so that an address that does not answer, such as IPv6 behind a firewall, leaves
    // time for the others.
    const auto now = Clock::now();
    result = connect_one(*address, stop, until == never ? until : now + std::max(Duration::zero(), until - now) / left);
    if (result || result.error().code() == Errc::cancelled)
      break;
  }
  return result;
}

} // namespace gpuactors::transport
