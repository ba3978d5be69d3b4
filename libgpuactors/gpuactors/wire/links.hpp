// Links: connections between the processes of a cluster, over CAF's remoting. Unlike CAF's own calls, these functions
// neither block the caller nor wait without a time limit.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/dial_turns.hpp>
#include <gpuactors/base/endpoint.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/listening.hpp>
#include <gpuactors/wire/certificates.hpp>
#include <gpuactors/wire/request_port.hpp>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace gpuactors {

namespace detail {
class LinkGate;
} // namespace detail

/// How a process communicates with others. The options must be the same in all processes of a cluster.
struct LinkOptions {
  /// The certificates for mutual TLS. None means plaintext, which only an operator may choose.
  std::optional<CertificateFiles> certificates{};
  /// Interval of this process's signs of life, and the silence after which a peer counts as dead.
  Duration heartbeat = limits::heartbeat;
  Duration timeout = limits::link_timeout;
  /// Receives one line for each report of refused connections, and of the process's own certificates. Called on any
  /// thread.
  std::function<void(std::string_view)> notice = [](std::string_view) {};
};

/// Checks the times of `LinkOptions`.
/// @returns `invalid_argument` if they are out of their limits, or if others would wait less long than the process is
///          silent.
[[nodiscard]] Result<void> check_times(Duration heartbeat, Duration timeout);

/// Loads CAF's remoting into a configuration. Call it before the actor system is created.
void configure_links(caf::actor_system_config& config, const LinkOptions& options);

/// The connections of one process. Any thread.
class Links {
public:
  using OnConnected = std::function<void(Result<caf::strong_actor_ptr>)>;

  /// @param port provides the deadlines; it must be closed before the links are destroyed.
  /// @returns `invalid_argument` for certificates that cannot be used.
  static Result<std::unique_ptr<Links>> make(caf::actor_system& system, RequestPort& port, LinkOptions options);

  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  /// Closes the links, as `close` does.
  ~Links();

  /// Ends the attempts in progress; their callbacks are called. Established connections end with the actor system. To
  /// be called by one thread; later requests fail, because the port is closed by then.
  void close();

  /// Lets other processes connect to `actor`. Blocks briefly; do not call it from an actor.
  /// @returns the port, chosen by the system if `listen.port` is 0; `unavailable` if it is taken.
  Result<std::uint16_t> publish(const caf::strong_actor_ptr& actor, const Endpoint& listen);

  /// The same at a port of `where` that is free.
  /// @returns the address by which others reach it; `unavailable` if no port is free.
  Result<Endpoint> publish_in(const Listening& where, const caf::strong_actor_ptr& actor);

  /// Closes a port. Connections that were made to it stay. Blocks as `publish`.
  /// @returns `internal` if there is no such port.
  Result<void> unpublish(std::uint16_t port);

  /// Connects to the actor that a process published. `done` is called once, on any thread, and must not block.
  ///
  /// Errors: `unavailable` (nobody listens there, or no answer within `timeout`), `invalid_argument` (one side speaks
  /// TLS and the other does not, or they trust different authorities). The handle belongs to this process's own
  /// connection: a functor attached to it runs at once when the peer dies, and within `LinkOptions::timeout` if the
  /// peer freezes.
  void connect(const Endpoint& to, Duration timeout, const OnConnected& done);

  /// Calls `due` after `wait`, on the port's timer thread. Never calls it once the port is closed.
  void after(Duration wait, std::function<void()> due);

  /// Calls `function` when `actor` ends, as `RequestPort::on_end` does.
  void on_end(const caf::strong_actor_ptr& actor, std::function<void()> function);

  /// The life of this process's certificate, as its file is now; nothing in plaintext.
  [[nodiscard]] std::optional<CertificateLife> certificate_life() const;

  [[nodiscard]] const LinkOptions& options() const noexcept {
    return options_;
  }

  /// Returns the lanes: the established connections.
  [[nodiscard]] const std::shared_ptr<Lanes>& lanes() const noexcept {
    return lanes_;
  }

private:
  class Attempts;

  Links(caf::actor_system& system, RequestPort& port, LinkOptions options, std::shared_ptr<detail::LinkGate> gate);

  void dial(const Endpoint& to, TimePoint deadline, int attempts, const OnConnected& done);

  caf::actor_system& system_;
  RequestPort& port_;
  LinkOptions options_;
  std::shared_ptr<detail::LinkGate> gate_;
  std::shared_ptr<Lanes> lanes_;
  caf::strong_actor_ptr middleman_;
  std::unique_ptr<Attempts> attempts_;
  bool closed_ = false;
};

/// Maintains one connection: dials until it is established, and again when it is lost, with growing pauses and some
/// jitter. Of several addresses it tries one after the other, and pauses after the last.
class Redial : public std::enable_shared_from_this<Redial> {
public:
  /// Receives every change: the peer's handle, or why there is none. Called on any thread; must not block.
  using OnChange = std::function<void(Result<caf::strong_actor_ptr>)>;

  /// @param to one address at least.
  Redial(Links& links, std::vector<Endpoint> to, OnChange on_change);

  /// Starts to dial. Call it once.
  void start();

  /// Stops dialling, and waits for the calls of `on_change` that run on other threads: once it has returned, none
  /// begins, and none runs but one that has called `stop` itself. Idempotent.
  void stop();

  /// Reports that the peer did not answer as expected (`why`), and dials again after a pause. Nothing happens where it
  /// is dialled already, because the connection was lost meanwhile.
  void again(Error why);

private:
  /// `dialling`: an attempt is under way, or due after a pause.
  enum class State : std::uint8_t { idle, dialling, connected };

  void dial();
  void connected(const caf::strong_actor_ptr& handle);
  /// With the lock, which it gives back.
  /// @param refused whether there is a connection, which is of no use.
  void lost(std::unique_lock<std::mutex> lock, Error error, bool refused);
  /// The peer, or the connection to it, has ended.
  void ended(const caf::actor_control_block* peer);
  /// With the lock, which it gives back: calls `on_change`, and then `then`, unless it was stopped meanwhile.
  void tell(std::unique_lock<std::mutex> lock, Result<caf::strong_actor_ptr> change, const std::function<void()>& then);

  Links& links_;
  const std::vector<Endpoint> to_;
  std::mutex mutex_;
  std::condition_variable told_;
  // Guarded by the mutex.
  DialTurns turns_;
  OnChange on_change_;
  /// The threads that call it now.
  std::vector<std::thread::id> telling_;
  bool stopped_ = false;
  State state_ = State::idle;
  /// The latest peer; compared, not followed.
  const caf::actor_control_block* peer_ = nullptr;
  /// By address: the latest peer there, whose end is watched.
  std::vector<caf::weak_actor_ptr> watched_;
};

} // namespace gpuactors
