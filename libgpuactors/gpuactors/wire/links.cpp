#include <gpuactors/base/random_id.hpp>
#include <gpuactors/wire/closed.hpp>
#include <gpuactors/wire/detail/link_middleman.hpp>
#include <gpuactors/wire/links.hpp>
#include <gpuactors/wire/sockets.hpp>

#include <caf/io/middleman.hpp>
#include <caf/io/network/default_multiplexer.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <list>
#include <random>
#include <set>
#include <thread>

namespace gpuactors {

Result<void> check_times(Duration heartbeat, Duration timeout) {
  const auto within = [](std::string_view what, Duration given, Duration least, Duration most) -> Result<void> {
    if (given >= least && given <= most)
      return {};
    return fail(Errc::invalid_argument, fmt::format("the {} is {} s: {} to {} s are expected", what, to_seconds(given),
                                                    to_seconds(least), to_seconds(most)));
  };
  GPUACTORS_TRY(within("heartbeat", heartbeat, limits::heartbeat_least, limits::heartbeat_most));
  GPUACTORS_TRY(within("link timeout", timeout, limits::link_timeout_least, limits::link_timeout_most));
  // One heartbeat may be late.
  if (2 * heartbeat <= timeout)
    return {};
  return fail(
      Errc::invalid_argument,
      fmt::format("the heartbeat is {} s and the link timeout {} s: others would take the process for dead. The "
                  "link timeout is at least twice as long",
                  to_seconds(heartbeat), to_seconds(timeout)));
}

void configure_links(caf::actor_system_config& config, const LinkOptions& options) {
  config.load<caf_version::Middleman<caf::io::network::default_multiplexer>>();
  caf_version::set_heartbeat(config, options.heartbeat, options.timeout);
}

namespace {

/// Calls a function when the port delivers the answer or an error.
class Answer : public OwnReply {
public:
  using Done = std::function<void(Result<MessageContent*>)>;

  explicit Answer(Done done) : done_(std::move(done)) {
    // nop
  }

  void on_reply(MessageContent& content) override {
    done_(&content);
  }

  void on_error(Error error) override {
    done_(fail(std::move(error)));
  }

private:
  Done done_;
};

/// Like `RequestPort::ask`, for an actor of this process and for CAF messages that cannot be serialized.
template <class... Ts>
void ask_here(RequestPort& port, const std::shared_ptr<PendingReply>& pending, const caf::strong_actor_ptr& to,
              TimePoint deadline, Ts&&... xs) {
  if (auto ticket = port.add(pending, to, deadline))
    caf_version::enqueue(to, port.handle(), *ticket, std::forward<Ts>(xs)...);
  else
    pending->on_error(ticket.error());
}

} // namespace

// -- Links ----------------------------------------------------------------------------------------

/// The dialling threads, one for each attempt, so that a host that does not answer delays no other attempt.
class Links::Attempts {
public:
  /// Runs `attempt` on a new thread. @returns `unavailable` after `stop`, or if the machine has no thread left.
  Result<void> run(std::function<void()> attempt) {
    const std::lock_guard lock{mutex_};
    if (stopped_)
      return fail(cluster_closed());
    threads_.remove_if([](Entry& entry) {
      if (!*entry.over)
        return false;
      entry.thread.join();
      return true;
    });
    auto over = std::make_shared<std::atomic<bool>>(false);
    try {
      threads_.push_back({over, std::thread{[over, attempt = std::move(attempt)] {
                            attempt();
                            *over = true;
                          }}});
    } catch (const std::system_error& error) { // from std::thread
      return fail(Errc::unavailable, fmt::format("no thread to connect with: {} (ulimit -u)", error.what()));
    }
    return {};
  }

  /// Waits for all attempts. The wait is short, because the gate has been closed, but for one that looks up a name:
  /// that takes as long as the system's resolver does.
  void stop() {
    std::list<Entry> threads;
    {
      const std::lock_guard lock{mutex_};
      stopped_ = true;
      threads.swap(threads_);
    }
    for (auto& entry : threads)
      entry.thread.join();
  }

private:
  struct Entry {
    std::shared_ptr<std::atomic<bool>> over;
    std::thread thread;
  };

  std::mutex mutex_;
  std::list<Entry> threads_;
  bool stopped_ = false;
};

Result<std::unique_ptr<Links>> Links::make(caf::actor_system& system, RequestPort& port, LinkOptions options) {
  std::optional<transport::TlsContext> tls;
  if (options.certificates) {
    GPUACTORS_LET(loaded, transport::TlsContext::load(*options.certificates, options.notice));
    tls = std::move(loaded);
  }
  GPUACTORS_LET(gate, detail::LinkGate::make(std::move(tls), options.notice));
  return std::unique_ptr<Links>{new Links{system, port, std::move(options), std::move(gate)}};
}

Links::Links(caf::actor_system& system, RequestPort& port, LinkOptions options, std::shared_ptr<detail::LinkGate> gate)
  : system_(system), port_(port), options_(std::move(options)), gate_(std::move(gate)),
    lanes_(std::make_shared<Lanes>(system, gate_->is_secure())),
    middleman_(detail::spawn_link_middleman(system, gate_, lanes_, options_.timeout)),
    attempts_(std::make_unique<Attempts>()) {
  port_.use(lanes_);
}

Links::~Links() {
  close();
}

void Links::close() {
  if (std::exchange(closed_, true))
    return;
  gate_->close();
  attempts_->stop();
  gate_->await_meetings();
  caf::anon_send_exit(middleman_, caf::exit_reason::user_shutdown);
  // The middleman's thread ends with the last handle, and the actor system waits for that thread. Only attempts use the
  // handle, and they have ended.
  middleman_ = nullptr;
}

std::optional<CertificateLife> Links::certificate_life() const {
  return gate_->certificate_life();
}

Result<std::uint16_t> Links::publish(const caf::strong_actor_ptr& actor, const Endpoint& listen) {
  std::promise<Result<std::uint16_t>> port;
  auto answer = std::make_shared<Answer>([&](Result<MessageContent*> content) {
    if (!content)
      port.set_value(fail(content.error()));
    else if ((*content)->match_elements<std::uint16_t>())
      port.set_value((*content)->get_as<std::uint16_t>(0));
    else
      port.set_value(fail(Errc::internal, "CAF answered with another message than it should"));
  });
  auto host = listen.host;
  auto shown = actor;
  ask_here(port_, answer, middleman_, deadline_after(Clock::now(), limits::link_timeout), caf::publish_atom_v,
           listen.port, std::move(shown), std::set<std::string>{}, std::move(host), true);
  auto result = port.get_future().get();
  if (!result)
    return fail(Errc::unavailable,
                fmt::format("cannot listen at {}: {}; the port may be taken, or the address not this machine's",
                            to_string(listen), result.error().message()));
  return result;
}

Result<Endpoint> Links::publish_in(const Listening& where, const caf::strong_actor_ptr& actor) {
  GPUACTORS_TRY(transport::check_listening(where));
  GPUACTORS_LET(port, listen_in(where.ports, random_id(), [&](std::uint16_t at) {
                  return publish(actor, Endpoint{where.local(), at});
                }));
  return Endpoint{where.host, port};
}

Result<void> Links::unpublish(std::uint16_t port) {
  std::promise<Result<void>> closed;
  auto answer = std::make_shared<Answer>([&](const Result<MessageContent*>& content) {
    closed.set_value(content ? Result<void>{} : fail(content.error()));
  });
  ask_here(port_, answer, middleman_, deadline_after(Clock::now(), limits::link_timeout), caf::close_atom_v, port);
  if (const auto result = closed.get_future().get(); !result)
    return fail(Errc::internal, fmt::format("port {} cannot be closed: {}", port, result.error().message()));
  return {};
}

void Links::connect(const Endpoint& to, Duration timeout, const OnConnected& done) {
  // A connection may end although all is well, for example because the other side has just begun one to this process.
  // One more attempt follows then.
  constexpr int attempts = 2;
  dial(to, deadline_after(Clock::now(), timeout), attempts, done);
}

void Links::dial(const Endpoint& to, TimePoint deadline, int attempts, const OnConnected& done) {
  const auto begun = attempts_->run([this, to, deadline, attempts, done] {
    auto session = gate_->dial(to, deadline);
    // In plaintext, one that ends without a word may have been about to: a process that stood still, and was killed.
    if (!session && attempts > 1 && !gate_->is_secure() && session.error().code() == Errc::invalid_argument)
      return dial(to, deadline, attempts - 1, done);
    if (!session)
      return done(fail(session.error()));
    gate_->keep(to, std::move(*session));
    auto answer = std::make_shared<Answer>([this, to, deadline, attempts, done](Result<MessageContent*> content) {
      static_cast<void>(gate_->take(to)); // still there if CAF already had a connection
      using Interfaces = std::set<std::string>;
      if (content && (*content)->match_elements<caf::node_id, caf::strong_actor_ptr, Interfaces>()) {
        auto handle = (*content)->get_as<caf::strong_actor_ptr>(1);
        if (handle != nullptr && handle->node() == system_.node())
          return done(fail(Errc::invalid_argument, fmt::format("{} is a port of this process itself", to_string(to))));
        if (handle != nullptr)
          return done(std::move(handle));
        return done(fail(Errc::invalid_argument, fmt::format("{} is no port of gpuactors", to_string(to))));
      }
      if (content)
        return done(fail(Errc::internal, "CAF answered a connection with another message than it should"));
      const auto& error = content.error();
      // CAF's heartbeat does not wait for the first bytes of a fresh connection: on a busy machine it may close one, or
      // several.
      if (error.code() == Errc::unavailable && !port_.closed() && Clock::now() < deadline)
        return dial(to, deadline, attempts, done);
      if (error.code() == Errc::unavailable)
        return done(fail(error));
      if (error.code() == Errc::deadline_exceeded)
        return done(
            fail(Errc::unavailable, fmt::format("{} took the connection but did not answer in time", to_string(to))));
      if (attempts > 1)
        return dial(to, deadline, attempts - 1, done);
      done(fail(Errc::invalid_argument,
                fmt::format("{} ended the connection{} ({})", to_string(to),
                            gate_->is_secure() ? "" : ": it may speak TLS, which --insecure turns off here",
                            error.message())));
    });
    auto host = to.host;
    ask_here(port_, answer, middleman_, deadline, caf::connect_atom_v, std::move(host), to.port);
  });
  if (!begun)
    done(fail(begun.error()));
}

void Links::after(Duration wait, std::function<void()> due) {
  [[maybe_unused]] const auto ticket = port_.after(wait, std::move(due));
}

void Links::on_end(const caf::strong_actor_ptr& actor, std::function<void()> function) {
  port_.on_end(actor, [function = std::move(function)](const caf::error&) { function(); });
}

// -- Redial ---------------------------------------------------------------------------------------

Redial::Redial(Links& links, std::vector<Endpoint> to, OnChange on_change)
  : links_(links), to_(std::move(to)), turns_(to_.size()), on_change_(std::move(on_change)), watched_(to_.size()) {
  // nop
}

void Redial::start() {
  dial();
}

void Redial::stop() {
  {
    OnChange dropped; // destroyed after the lock is released
    const std::lock_guard lock{mutex_};
    stopped_ = true;
    dropped.swap(on_change_);
  }
  std::unique_lock lock{mutex_};
  told_.wait(lock, [this, own = std::this_thread::get_id()] {
    return std::all_of(telling_.begin(), telling_.end(), [own](auto thread) { return thread == own; });
  });
}

void Redial::again(Error why) {
  std::unique_lock lock{mutex_};
  // The connection that this is about is lost already.
  if (state_ != State::dialling)
    lost(std::move(lock), std::move(why), true);
}

void Redial::dial() {
  Endpoint to;
  {
    const std::lock_guard lock{mutex_};
    if (stopped_)
      return;
    state_ = State::dialling;
    to = to_[turns_.at()];
  }
  links_.connect(to, limits::connect_timeout, [self = shared_from_this()](Result<caf::strong_actor_ptr> handle) {
    if (handle)
      self->connected(*handle);
    else
      self->lost(std::unique_lock{self->mutex_}, handle.error(), false);
  });
}

void Redial::connected(const caf::strong_actor_ptr& handle) {
  std::unique_lock lock{mutex_};
  if (stopped_)
    return;
  // CAF has one handle for a peer as long as it lives: one that refuses again and again is watched once.
  auto& watched = watched_[turns_.at()];
  const bool is_known = watched.get() == handle.get();
  watched = caf::weak_actor_ptr{handle.get()};
  turns_.connected();
  state_ = State::connected;
  peer_ = handle.get();
  tell(std::move(lock), handle, [this, &handle, is_known] {
    if (!is_known)
      links_.on_end(handle, [weak = weak_from_this(), peer = handle.get()] {
        if (const auto self = weak.lock())
          self->ended(peer);
      });
    else if (!caf_version::is_reachable(handle)) // it may have ended before it was connected again
      ended(handle.get());
  });
}

void Redial::ended(const caf::actor_control_block* peer) {
  std::unique_lock lock{mutex_};
  if (state_ != State::connected || peer_ != peer)
    return;
  auto whose = to_string(to_[turns_.at()]);
  lost(std::move(lock), Error{Errc::unavailable, fmt::format("the connection to {} is lost", whose)}, false);
}

void Redial::lost(std::unique_lock<std::mutex> lock, Error error, bool refused) {
  if (stopped_)
    return;
  state_ = State::dialling;
  thread_local std::minstd_rand random{std::random_device{}()};
  const auto pause = refused ? turns_.refused(random()) : turns_.lost(random());
  tell(std::move(lock), fail(std::move(error)), [this, pause] {
    links_.after(pause, [weak = weak_from_this()] {
      if (const auto self = weak.lock())
        self->dial();
    });
  });
}

void Redial::tell(std::unique_lock<std::mutex> lock, Result<caf::strong_actor_ptr> change,
                  const std::function<void()>& then) {
  const auto own = std::this_thread::get_id();
  telling_.push_back(own);
  auto on_change = on_change_;
  lock.unlock();
  on_change(std::move(change));
  on_change = nullptr; // whoever stops waits for what it owns, too
  lock.lock();
  const bool goes_on = !stopped_;
  lock.unlock();
  // Who stops waits for this, too: the links may be gone afterwards.
  if (goes_on)
    then();
  lock.lock();
  telling_.erase(std::find(telling_.begin(), telling_.end(), own));
  told_.notify_all();
}

} // namespace gpuactors
