#include <gpuactors/wire/detail/link_gate.hpp>

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

namespace gpuactors::detail {

namespace {

constexpr std::chrono::seconds refusals_counted_for{10};
constexpr std::size_t refusals_said_most = 5;
/// Whoever takes connections in plaintext says at once who it is.
constexpr std::chrono::seconds greeting_patience{1};

std::string host_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  std::array<char, NI_MAXHOST> host{};
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0
      || ::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host.data(), host.size(), nullptr, 0,
                       NI_NUMERICHOST)
             != 0)
    return "somebody";
  return host.data();
}

void set_options(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

/// Translates OpenSSL's error text into one that tells what to do.
std::string explain(const std::string& error) {
  const auto has = [&](std::string_view part) { return error.find(part) != std::string::npos; };
  if (has("revoked"))
    return "the certificate was revoked: issue another with gpuactors certs issue, with a new key";
  if (has("certificate purpose") || has("unsupported certificate"))
    return "the certificate of the side that listens is a client's: a broker or node needs another (gpuactors certs "
           "issue NAME)";
  if (has("wrong version number") || has("packet length too long") || has("http request") || has("record layer"))
    return "it does not speak TLS: one of the two was started with --insecure";
  if (has("expired"))
    return "the certificate has expired: gpuactors certs show tells when, gpuactors certs issue makes a new one";
  if (has("unknown ca") || has("certificate verify failed") || has("bad signature") || has("decrypt error"))
    return "the two certificates are not of the same authority";
  if (has("certificate required") || has("peer did not return a certificate"))
    return "it shows no certificate";
  return error;
}

} // namespace

Result<std::shared_ptr<LinkGate>> LinkGate::make(std::optional<transport::TlsContext> tls, Notice notice) {
  GPUACTORS_LET(stop, transport::Signal::make());
  GPUACTORS_LET(changed, transport::Signal::make());
  return std::shared_ptr<LinkGate>{
      new LinkGate{std::move(tls), std::move(notice), std::move(stop), std::move(changed)}};
}

LinkGate::LinkGate(std::optional<transport::TlsContext> tls, Notice notice, transport::Signal stop,
                   transport::Signal changed)
  : tls_(std::move(tls)), notice_(std::move(notice)), stop_(std::move(stop)), changed_(std::move(changed)),
    guests_(changed_, limits::links) {
  // nop
}

LinkGate::~LinkGate() {
  close();
}

void LinkGate::close() {
  stop_.set();
  guests_.join_all();
  const std::lock_guard lock{mutex_};
  kept_.clear();
}

Result<LinkSession> LinkGate::dial(const Endpoint& to, TimePoint until) {
  auto socket = transport::connect_tcp(to, stop_, until);
  if (!socket && socket.error().code() == Errc::worker_died)
    return fail(Errc::unavailable, fmt::format("nobody listens at {}", to_string(to)));
  if (!socket)
    return fail(Errc::unavailable, fmt::format("no connection to {}: {}", to_string(to), socket.error().message()));
  set_options(socket->get());
  transport::Channel channel{std::move(*socket), stop_};
  if (!tls_) {
    const auto greeted = channel.wait_for_bytes(std::min(until, deadline_after(Clock::now(), greeting_patience)));
    const bool is_silent = !greeted && greeted.error().code() == Errc::deadline_exceeded;
    return LinkSession{std::move(channel).release().first, nullptr, {}, is_silent};
  }
  auto secured = channel.secure(*tls_, transport::TlsPart::connects_to_node, until);
  // The peer's first bytes tell whether it accepts this side's certificate.
  if (secured)
    secured = channel.wait_for_bytes(until);
  if (!secured && secured.error().code() == Errc::deadline_exceeded)
    return fail(Errc::unavailable, fmt::format("{} took the connection but did not answer in time", to_string(to)));
  if (!secured && secured.error().code() == Errc::worker_died)
    return fail(Errc::unavailable, fmt::format("{} ended the connection during the handshake", to_string(to)));
  if (!secured)
    return fail(secured.error().code() == Errc::cancelled ? Errc::unavailable : Errc::invalid_argument,
                fmt::format("{} is not trusted, or does not trust this process: {}", to_string(to),
                            explain(secured.error().message())));
  auto peer = channel.peer(*tls_);
  auto [ready, session] = std::move(channel).release();
  return LinkSession{std::move(ready), std::move(session), std::move(peer)};
}

void LinkGate::keep(const Endpoint& to, LinkSession session) {
  const std::lock_guard lock{mutex_};
  kept_.emplace(to_string(to), std::move(session));
}

std::optional<LinkSession> LinkGate::take(const Endpoint& to) {
  const std::lock_guard lock{mutex_};
  const auto found = kept_.find(to_string(to));
  if (found == kept_.end())
    return std::nullopt;
  auto session = std::move(found->second);
  kept_.erase(found);
  return session;
}

void LinkGate::greet(Descriptor socket, OnReady ready) {
  set_options(socket.get());
  if (!tls_)
    return ready(LinkSession{std::move(socket), nullptr, {}});
  guests_.join_ended();
  auto ignored = never;
  if (stop_.is_set() || !guests_.make_room(ignored))
    return; // a rejected peer dials again
  guests_.add(transport::Channel{std::move(socket), stop_},
              [this, ready = std::move(ready)](transport::Guests::Guest& guest) {
                const auto host = host_of(guest.channel().socket());
                const auto until = deadline_after(Clock::now(), limits::connect_timeout);
                if (auto secured = guest.channel().secure(*tls_, transport::TlsPart::accepts, until); !secured) {
                  // A peer that disconnects or stays silent, such as a port scan, is not reported.
                  if (secured.error().code() == Errc::unavailable)
                    refuse(host, explain(secured.error().message()));
                  return;
                }
                // The guest is no longer a stranger, so it is not evicted while its connection is released.
                guest.set(transport::GuestState::busy);
                auto peer = guest.channel().peer(*tls_);
                auto [socket, session] = std::move(guest.channel()).release();
                ready(LinkSession{std::move(socket), std::move(session), std::move(peer)});
              });
}

void LinkGate::refuse_tls(int socket) {
  refuse(host_of(socket), "it speaks TLS: one of the two was started with --insecure");
}

void LinkGate::refuse_crowd(int socket, std::size_t most) {
  refuse(host_of(socket), fmt::format("this process may have {} descriptors, and they are used up (ulimit -n)", most));
}

void LinkGate::refuse_peer(int socket, const std::string& name, std::string_view why) {
  refuse(fmt::format("{} ({})", host_of(socket), name), std::string{why});
}

void LinkGate::refuse(const std::string& host, const std::string& why) {
  std::string line;
  {
    // A peer can provoke any number of refusals, for different reasons; it must not fill the log.
    const std::lock_guard lock{mutex_};
    const auto now = Clock::now();
    if (now >= refusals_began_ + refusals_counted_for) {
      refusals_began_ = now;
      refusals_said_ = 0;
    }
    if (refusals_said_ == refusals_said_most) {
      ++refusals_unsaid_;
      return;
    }
    ++refusals_said_;
    line = fmt::format("refused a connection from {}: {}", host, why);
    if (const auto unsaid = std::exchange(refusals_unsaid_, 0); unsaid > 0)
      line += fmt::format(" ({} more were refused since the line before)", unsaid);
  }
  notice_(line);
}

bool LinkGate::entered() {
  if (links_.fetch_add(1) < limits::links)
    return true;
  --links_;
  return false;
}

void LinkGate::left() {
  --links_;
}

bool LinkGate::announced(std::size_t before, std::size_t now) {
  const auto counted = [](std::size_t bytes) { return bytes > limits::link_small_message_bytes ? bytes : 0; };
  if (is_secure() || (counted(before) == 0 && counted(now) == 0))
    return true;
  if (announced_.fetch_add(counted(now)) + counted(now) > limits::links_announced_bytes) {
    announced_ -= counted(now);
    return false;
  }
  announced_ -= counted(before);
  return true;
}

} // namespace gpuactors::detail
