// LinkGate: admits connections to this process and makes connections to others. It does everything that happens before
// CAF sees a byte: dialling, TLS, what both sides speak, time limits, the number of strangers. Internal to the layer.
#pragma once

#include <gpuactors/base/endpoint.hpp>
#include <gpuactors/wire/detail/crowd.hpp>
#include <gpuactors/wire/greeting.hpp>
#include <gpuactors/wire/transport/budget.hpp>
#include <gpuactors/wire/transport/guests.hpp>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

namespace gpuactors::detail {

/// A connection whose peer has shown its certificate, unless it is in plaintext, and speaks what this process does.
struct LinkSession {
  Descriptor socket;
  /// The TLS session; null in plaintext.
  transport::TlsSession tls;
  transport::TlsPeer peer;
};

/// Makes the TLS handshakes on its own threads and gives CAF established connections, because CAF's own TLS module
/// fails healthy ones: with logging compiled out it leaves an error of one session in OpenSSL's queue, where the next
/// session finds it; and it spins while a handshake waits (docs/design/0010-processes-and-links.md).
///
/// Any thread.
class LinkGate {
public:
  using Notice = std::function<void(std::string_view)>;
  using OnReady = std::function<void(LinkSession)>;

  /// @param tls the certificates; none means plaintext.
  /// @param own what this process says that it speaks.
  static Result<std::shared_ptr<LinkGate>> make(std::optional<transport::TlsContext> tls, Notice notice,
                                                Greeting own = own_greeting());

  /// Ends as `close` does.
  ~LinkGate();
  LinkGate(const LinkGate&) = delete;
  LinkGate& operator=(const LinkGate&) = delete;

  [[nodiscard]] bool is_secure() const noexcept {
    return tls_.has_value();
  }

  /// The life of this process's certificate; nothing in plaintext.
  [[nodiscard]] std::optional<CertificateLife> certificate_life() const {
    return tls_ ? std::optional{tls_->life()} : std::nullopt;
  }

  /// Connects, makes the TLS handshake, and exchanges greetings. Blocks until `until` at most: a port that ends the
  /// connection before it has said anything, as one does to which many come at once, is dialled again until then.
  /// @returns `unavailable` if nobody answers, `invalid_argument` if the two sides do not trust each other or there is
  ///          no port of gpuactors, `unsupported` if they speak nothing in common.
  Result<LinkSession> dial(const Endpoint& to, TimePoint until);

  /// Keeps a connection until CAF asks for it; `take` then returns it, or nothing if there is none.
  void keep(const Endpoint& to, LinkSession session);
  std::optional<LinkSession> take(const Endpoint& to);

  /// Does the same with a peer that has connected to this process, on another thread, and calls `ready` there on
  /// success.
  void greet(Descriptor socket, OnReady ready);

  /// Report a refused connection: one for which too few of the process's `most` descriptors are left, or one that was
  /// accepted and ends because of what its peer has done.
  void refuse_crowd(int socket, std::size_t most);
  void refuse_peer(int socket, const std::string& name, std::string_view why);

  /// Count a connection that is given to CAF, or that has ended. `entered` refuses one for which there is no place
  /// among the `limits::links`, and then returns false.
  [[nodiscard]] bool entered(const LinkSession& session);
  void left(const Caller& caller);

  /// What waits for the client, of what waits for all clients together; null for who administers.
  [[nodiscard]] std::shared_ptr<transport::Budget::Part> waiting_for(const Caller& peer) const {
    return peer.administers ? nullptr : transport::Budget::part_of(waiting_for_clients_, peer.name);
  }

  /// Accounts for a connection's next message of `now` bytes, after one of `before` bytes. @returns whether all
  /// announced messages together stay within `limits::links_announced_bytes`; always true with TLS, whose peers are
  /// trusted.
  [[nodiscard]] bool announced(std::size_t before, std::size_t now);

  /// Count a connection that this process has begun while CAF waits for the other side's handshake: it ends with
  /// `close`, as CAF would wait for as long as the other side keeps it.
  void begin_meeting(int socket);
  void end_meeting(int socket);

  /// Waits, after `close`, until CAF has noticed the end of these: what waits for them would keep its thread otherwise,
  /// if CAF's event loop ended first. At most for a second.
  void await_meetings();

  /// Ends all attempts and handshakes. Idempotent.
  void close();

private:
  LinkGate(std::optional<transport::TlsContext> tls, Notice notice, Greeting own, transport::Signal stop,
           transport::Signal changed);

  /// Dials once. @returns `worker_died` if the other side ends the connection without a word.
  Result<LinkSession> dial_once(const Endpoint& to, TimePoint until);
  /// Secures a connection that this process has begun.
  Result<void> secure(transport::Channel& channel, const Endpoint& to, TimePoint until) const;
  /// Exchanges greetings over it.
  Result<void> meet(transport::Channel& channel, const Endpoint& to, TimePoint until) const;
  /// Does both with a connection that was accepted, and reports why not. @returns whether it may go on.
  bool receive(transport::Guests::Guest& guest);
  /// What is to be reported of a peer that has said `text` and has then ended or is waited for no longer: empty if
  /// nothing.
  [[nodiscard]] std::string verdict_on(const std::string& text) const;
  /// Reports a refused connection, at a limited rate.
  void refuse(const std::string& host, const std::string& why);

  std::optional<transport::TlsContext> tls_;
  Notice notice_;
  const Greeting own_;
  transport::Signal stop_;
  transport::Signal changed_;
  transport::Guests guests_;
  std::mutex mutex_;
  std::multimap<std::string, LinkSession> kept_;
  std::set<int> meeting_;
  std::condition_variable met_;
  // For the limited rate: the start of the current period, the lines reported in it, and the refusals since the last
  // reported line.
  TimePoint refusals_began_ = TimePoint::min();
  std::size_t refusals_said_ = 0;
  std::size_t refusals_unsaid_ = 0;
  Crowd links_{limits::links};
  const std::shared_ptr<transport::Budget> waiting_for_clients_ = std::make_shared<transport::Budget>();
  std::atomic<std::size_t> announced_{0};
};

} // namespace gpuactors::detail
