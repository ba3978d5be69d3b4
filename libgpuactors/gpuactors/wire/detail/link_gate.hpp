// LinkGate: who gets a connection to this process, and how it gets one elsewhere. Everything before CAF sees a byte:
// dialling, TLS, time limits, the number of strangers. Internal to the layer.
#pragma once

#include <gpuactors/base/endpoint.hpp>
#include <gpuactors/wire/transport/guests.hpp>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace gpuactors::detail {

/// A connection whose other side has shown its certificate; in plaintext, one that was made.
struct LinkSession {
  Descriptor socket;
  /// None in plaintext.
  transport::TlsSession tls;
};

/// CAF's own TLS module fails healthy connections: with logging compiled out it leaves an error of one session in
/// OpenSSL's queue, where the next session finds it; and it spins while a handshake waits. So handshakes are made here,
/// on threads of their own, and CAF gets connections that stand (docs/design/0010-processes-and-links.md).
///
/// Any thread.
class LinkGate {
public:
  using Notice = std::function<void(std::string_view)>;
  using OnReady = std::function<void(LinkSession)>;

  /// @param tls none means plaintext.
  static Result<std::shared_ptr<LinkGate>> make(std::optional<transport::TlsContext> tls, Notice notice);

  /// Ends as `close` does.
  ~LinkGate();
  LinkGate(const LinkGate&) = delete;
  LinkGate& operator=(const LinkGate&) = delete;

  [[nodiscard]] bool is_secure() const noexcept {
    return tls_.has_value();
  }

  /// Connects, and makes the handshake up to the other side's first word. Blocks until `until`.
  /// @returns `unavailable` when nobody answers, `invalid_argument` when the two sides do not trust each other.
  Result<LinkSession> dial(const Endpoint& to, TimePoint until);

  /// Keeps a connection until CAF asks for it; `take` gives it out.
  void keep(const Endpoint& to, LinkSession session);
  std::optional<LinkSession> take(const Endpoint& to);

  /// Makes the handshake with somebody who has connected here, on another thread; calls `ready` there if it goes well.
  void greet(Descriptor socket, OnReady ready);

  /// Says that a connection in plaintext began with the words of TLS.
  void refuse_tls(int socket);
  void refuse_crowd(int socket, std::size_t most);

  /// A connection is given to CAF, or has ended. `entered` refuses more than `limits::links`.
  [[nodiscard]] bool entered();
  void left();

  /// A connection's next message has `now` bytes, the one before had `before`. @returns whether all announcements
  /// together keep to `limits::links_announced_bytes`; always in TLS, whose peers are trusted.
  [[nodiscard]] bool announced(std::size_t before, std::size_t now);

  /// Ends all attempts and handshakes. Idempotent.
  void close();

private:
  LinkGate(std::optional<transport::TlsContext> tls, Notice notice, transport::Signal stop, transport::Signal changed);

  /// Says that somebody was refused, but not again and again.
  void refuse(const std::string& host, const std::string& why);

  std::optional<transport::TlsContext> tls_;
  Notice notice_;
  transport::Signal stop_;
  transport::Signal changed_;
  transport::Guests guests_;
  std::mutex mutex_;
  std::multimap<std::string, LinkSession> kept_;
  // Who was refused last, why, since when it was said, and how often since.
  TimePoint refusals_began_ = TimePoint::min();
  std::size_t refusals_said_ = 0;
  std::size_t refusals_unsaid_ = 0;
  std::atomic<std::size_t> links_{0};
  std::atomic<std::size_t> announced_{0};
};

} // namespace gpuactors::detail
