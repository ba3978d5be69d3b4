// Links: connections between the processes of a cluster, over CAF's remoting. Nothing here blocks the caller, and
// nothing waits for ever: CAF alone would do both.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/endpoint.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/wire/certificates.hpp>
#include <gpuactors/wire/request_port.hpp>

#include <functional>
#include <memory>
#include <optional>

namespace gpuactors {

namespace detail {
class LinkGate;
} // namespace detail

/// How a process talks to others. The same in all processes of a cluster.
struct LinkOptions {
  /// Mutual TLS with these; none means plaintext, which only an operator may wish.
  std::optional<CertificateFiles> certificates{};
  /// How often a process shows that it is alive, and how long the others wait for a sign of it.
  Duration heartbeat = limits::heartbeat;
  Duration timeout = limits::link_timeout;
  /// Told in one line of who was refused; any thread.
  std::function<void(std::string_view)> notice = [](std::string_view) {};
};

/// Loads CAF's remoting into a configuration. Before the actor system is made.
void configure_links(caf::actor_system_config& config, const LinkOptions& options);

/// The connections of one process. Any thread.
class Links {
public:
  using OnConnected = std::function<void(Result<caf::strong_actor_ptr>)>;

  /// @param port whose deadlines serve; closed before the links go.
  /// @returns `invalid_argument` for certificates that cannot be used.
  static Result<std::unique_ptr<Links>> make(caf::actor_system& system, RequestPort& port, LinkOptions options);

  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  /// Closes them.
  ~Links();

  /// Ends attempts that are under way; their callbacks are called. Connections that stand end with the actor system.
  /// By one thread; what is asked of it afterwards fails, as its port is closed.
  void close();

  /// Lets others connect to `actor`. Blocks for a moment; not from an actor.
  /// @returns the port, chosen if `listen.port` is 0; `unavailable` when it is taken.
  Result<std::uint16_t> publish(const caf::strong_actor_ptr& actor, const Endpoint& listen);

  /// Connects to the actor that a process published. `done` is called once, on any thread, and must not block.
  ///
  /// Errors: `unavailable` (nobody listens there, or no answer within `timeout`), `invalid_argument` (one side speaks
  /// TLS and the other does not, or they trust different authorities). The handle's connection is this process's own:
  /// what is attached to it hears of the other's death at once, and within `LinkOptions::timeout` if it is frozen.
  void connect(const Endpoint& to, Duration timeout, const OnConnected& done);

  /// Calls `due` after `wait`, on a thread of the port. Not after the port was closed.
  void after(Duration wait, std::function<void()> due);

  [[nodiscard]] const LinkOptions& options() const noexcept {
    return options_;
  }

  /// The connections that stand.
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

/// Keeps one connection: dials until it stands, and again when it is lost, with growing pauses and some jitter.
class Redial : public std::enable_shared_from_this<Redial> {
public:
  /// Told of every change: the handle, or why there is none. On any thread; must not block.
  using OnChange = std::function<void(Result<caf::strong_actor_ptr>)>;

  Redial(Links& links, Endpoint to, OnChange on_change);

  /// Starts to dial. Once.
  void start();

  /// No more calls of `on_change` begin after it. Idempotent.
  void stop();

  /// The other side did not answer as it should, and `why`: dial again after a pause.
  void again(Error why);

private:
  void dial();
  void connected(const caf::strong_actor_ptr& handle);
  void lost(Error error);

  Links& links_;
  Endpoint to_;
  std::mutex mutex_;
  OnChange on_change_;
  bool stopped_ = false;
  int failures_ = 0;
  std::uint64_t round_ = 0;
};

} // namespace gpuactors
