#include <gpuactors/wire/detail/link_gate.hpp>
#include <gpuactors/wire/transport/retry_pause.hpp>

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
/// Whoever takes connections in plaintext says at once what it speaks.
constexpr std::chrono::seconds greeting_patience{1};
/// Between attempts to connect to a port that ends connections without a word.
constexpr Duration first_pause = std::chrono::milliseconds{50};
constexpr Duration longest_pause = std::chrono::milliseconds{500};
/// First bytes: of CAF's protocol, with which connections began before there were greetings, and of TLS.
constexpr char caf_of_acceptor = 0;
constexpr char caf_of_dialler = 1;
constexpr char tls_alert = 0x15;
constexpr char tls_handshake = 0x16;

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

/// Appends what the other side says, up to the end of its greeting, or as far as it can be one. One byte at a time:
/// what follows is CAF's.
Result<void> hear(transport::Channel& channel, std::string& text, TimePoint until) {
  while (may_be_greeting(text) && !text.ends_with('\n')) {
    std::byte next{};
    GPUACTORS_TRY(channel.read_some(&next, 1, until));
    text += static_cast<char>(next);
  }
  return {};
}

Result<void> say(transport::Channel& channel, const Greeting& own, TimePoint until) {
  const auto line = to_line(own);
  return channel.write_all(reinterpret_cast<const std::byte*>(line.data()), line.size(), Duration::max(), until);
}

std::optional<Greeting> greeting_in(std::string_view text) {
  if (!text.ends_with('\n'))
    return std::nullopt;
  text.remove_suffix(1);
  return read_greeting(text);
}

bool begins_with(std::string_view text, char first) {
  return !text.empty() && text.front() == first;
}

} // namespace

Result<std::shared_ptr<LinkGate>> LinkGate::make(std::optional<transport::TlsContext> tls, Notice notice,
                                                 Greeting own) {
  GPUACTORS_LET(stop, transport::Signal::make());
  GPUACTORS_LET(changed, transport::Signal::make());
  return std::shared_ptr<LinkGate>{
      new LinkGate{std::move(tls), std::move(notice), std::move(own), std::move(stop), std::move(changed)}};
}

LinkGate::LinkGate(std::optional<transport::TlsContext> tls, Notice notice, Greeting own, transport::Signal stop,
                   transport::Signal changed)
  : tls_(std::move(tls)), notice_(std::move(notice)), own_(std::move(own)), stop_(std::move(stop)),
    changed_(std::move(changed)), guests_(changed_, limits::links) {
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
  for (const auto socket : meeting_)
    ::shutdown(socket, SHUT_RDWR);
}

void LinkGate::begin_meeting(int socket) {
  const std::lock_guard lock{mutex_};
  meeting_.insert(socket);
  if (stop_.is_set())
    ::shutdown(socket, SHUT_RDWR);
}

void LinkGate::end_meeting(int socket) {
  const std::lock_guard lock{mutex_};
  meeting_.erase(socket);
  met_.notify_all();
}

void LinkGate::await_meetings() {
  constexpr std::chrono::seconds most{1};
  std::unique_lock lock{mutex_};
  met_.wait_for(lock, most, [this] { return meeting_.empty(); });
}

Result<LinkSession> LinkGate::dial(const Endpoint& to, TimePoint until) {
  for (transport::RetryPause pause{first_pause, longest_pause};;) {
    auto session = dial_once(to, until);
    if (session || session.error().code() != Errc::worker_died)
      return session;
    const auto again = deadline_after(Clock::now(), pause.next());
    const auto waited = transport::wait_for(-1, 0, stop_, std::min(again, until));
    if (again >= until || waited.error().code() == Errc::cancelled)
      return fail(Errc::unavailable, session.error().message());
  }
}

Result<LinkSession> LinkGate::dial_once(const Endpoint& to, TimePoint until) {
  auto socket = transport::connect_tcp(to, stop_, until);
  if (!socket && socket.error().code() == Errc::worker_died)
    return fail(Errc::unavailable, fmt::format("nobody listens at {}", to_string(to)));
  if (!socket)
    return fail(Errc::unavailable, fmt::format("no connection to {}: {}", to_string(to), socket.error().message()));
  set_options(socket->get());
  transport::Channel channel{std::move(*socket), stop_};
  if (tls_)
    GPUACTORS_TRY(secure(channel, to, until));
  GPUACTORS_TRY(meet(channel, to, until));
  auto peer = tls_ ? channel.peer(*tls_) : transport::TlsPeer{};
  auto [ready, session] = std::move(channel).release();
  return LinkSession{std::move(ready), std::move(session), std::move(peer)};
}

Result<void> LinkGate::secure(transport::Channel& channel, const Endpoint& to, TimePoint until) const {
  auto secured = channel.secure(*tls_, transport::TlsPart::connects_to_node, until);
  // The peer's first bytes tell whether it accepts this side's certificate.
  if (secured)
    secured = channel.wait_for_bytes(until);
  if (!secured && secured.error().code() == Errc::deadline_exceeded)
    return fail(Errc::unavailable, fmt::format("{} took the connection but did not answer in time", to_string(to)));
  if (!secured && secured.error().code() == Errc::worker_died)
    return fail(Errc::worker_died, fmt::format("{} ended the connection during the handshake", to_string(to)));
  if (!secured)
    return fail(secured.error().code() == Errc::cancelled ? Errc::unavailable : Errc::invalid_argument,
                fmt::format("{} is not trusted, or does not trust this process: {}", to_string(to),
                            explain(secured.error().message())));
  return {};
}

Result<void> LinkGate::meet(transport::Channel& channel, const Endpoint& to, TimePoint until) const {
  std::string text;
  bool has_spoken = false;
  auto heard = hear(channel, text, tls_ ? until : std::min(until, deadline_after(Clock::now(), greeting_patience)));
  if (!heard && heard.error().code() == Errc::deadline_exceeded && !tls_) {
    // One that expects TLS is silent, and says why it ends the connection once it has heard something.
    has_spoken = true;
    heard = say(channel, own_, until);
    if (heard)
      heard = hear(channel, text, until);
  }
  const bool ended = !heard && heard.error().code() == Errc::worker_died;
  if (!tls_ && ((ended && has_spoken) || begins_with(text, tls_alert)))
    return fail(Errc::invalid_argument, fmt::format("{} ended the connection: it may speak TLS, which --insecure turns "
                                                    "off here",
                                                    to_string(to)));
  if (ended)
    return fail(text.empty() ? Errc::worker_died : Errc::unavailable,
                fmt::format("{} ended the connection during the handshake", to_string(to)));
  if (!heard && heard.error().code() == Errc::deadline_exceeded)
    return fail(Errc::unavailable, fmt::format("{} took the connection but did not answer in time", to_string(to)));
  if (!heard)
    return fail(Errc::unavailable, fmt::format("no connection to {}: {}", to_string(to), heard.error().message()));
  if (begins_with(text, caf_of_acceptor))
    return fail(before_revisions(own_, to_string(to)));
  const auto other = greeting_in(text);
  if (!other)
    return fail(Errc::invalid_argument, fmt::format("{} is no port of gpuactors", to_string(to)));
  // Also without a common revision: the other side then says the same to its people.
  const auto said = has_spoken ? Result<void>{} : say(channel, own_, until);
  GPUACTORS_TRY(agree(own_, *other, to_string(to)));
  if (!said)
    return fail(Errc::unavailable, fmt::format("{} ended the connection during the handshake", to_string(to)));
  return {};
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
  guests_.join_ended();
  auto ignored = never;
  if (stop_.is_set() || guests_.make_room(ignored) == transport::Room::none)
    return; // a rejected peer dials again
  guests_.add(transport::Channel{std::move(socket), stop_},
              [this, ready = std::move(ready)](transport::Guests::Guest& guest) {
                if (!receive(guest))
                  return;
                // The guest is no longer a stranger, so it is not evicted while its connection is released.
                guest.set(transport::GuestState::busy);
                auto peer = tls_ ? guest.channel().peer(*tls_) : transport::TlsPeer{};
                auto [socket, session] = std::move(guest.channel()).release();
                ready(LinkSession{std::move(socket), std::move(session), std::move(peer)});
              });
}

bool LinkGate::receive(transport::Guests::Guest& guest) {
  auto& channel = guest.channel();
  auto host = host_of(channel.socket());
  const auto until = deadline_after(Clock::now(), limits::connect_timeout);
  if (tls_) {
    if (auto secured = channel.secure(*tls_, transport::TlsPart::accepts, until); !secured) {
      // A peer that disconnects or stays silent, such as a port scan, is not reported.
      if (secured.error().code() == Errc::unavailable)
        refuse(host, explain(secured.error().message()));
      return false;
    }
    guest.set(transport::GuestState::busy);
    host += fmt::format(" ({})", channel.peer(*tls_).caller().name);
  }
  std::string text;
  const bool has_heard = say(channel, own_, until) && hear(channel, text, until);
  const auto other = greeting_in(text);
  if (!has_heard || !other) {
    if (const auto verdict = verdict_on(text); !verdict.empty() && !stop_.is_set())
      refuse(host, verdict);
    return false;
  }
  const auto agreed = agree(own_, *other, "it");
  if (!agreed)
    refuse(host, agreed.error().message());
  return agreed.has_value();
}

std::string LinkGate::verdict_on(const std::string& text) const {
  if (begins_with(text, caf_of_dialler))
    return before_revisions(own_, "it").message();
  if (!tls_)
    return begins_with(text, tls_handshake) ? "it speaks TLS: one of the two was started with --insecure" : "";
  // Its certificate says that it belongs to the cluster. Releases from before revisions end the connection when they
  // hear a greeting.
  return text.empty() ? fmt::format("it has ended without saying what it speaks: its process has, or it runs a release "
                                    "from before revisions; this process runs release {}",
                                    own_.release)
                      : "it speaks no protocol of gpuactors";
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

bool LinkGate::entered(const LinkSession& session) {
  const auto& caller = session.peer.caller();
  if (links_.enter(caller))
    return true;
  refuse_peer(session.socket.get(), caller.name,
              fmt::format("this process has too many connections: {} at most, of which {} of one client's name, and a "
                          "quarter for those who serve",
                          limits::links, links_.most_of_one()));
  return false;
}

void LinkGate::left(const Caller& caller) {
  links_.leave(caller);
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
