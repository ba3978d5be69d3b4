#include <gpuactors/wire/detail/probe.hpp>
#include <gpuactors/wire/links.hpp>

#include <caf/io/all.hpp>
#include <caf/openssl/all.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <random>
#include <set>
#include <thread>

namespace gpuactors {

void configure_links(caf::actor_system_config& config, const LinkOptions& options) {
  config.load<caf::io::middleman>();
  caf_version::set_heartbeat(config, options.heartbeat, options.timeout);
  if (!options.certificates)
    return;
  config.load<caf::openssl::manager>();
  caf_version::set_tls(config, options.certificates->authority, options.certificates->certificate,
                       options.certificates->key);
}

namespace {

/// Calls a function when the port answers or gives up.
class Answer : public PendingReply {
public:
  using Done = std::function<void(Result<caf::strong_actor_ptr>)>;

  Answer(std::string where, bool secure, Done done)
    : where_(std::move(where)), secure_(secure), done_(std::move(done)) {
    // nop
  }

  void on_reply(caf_version::Content& content) override {
    using Interfaces = std::set<std::string>;
    if (!content.match_elements<caf::node_id, caf::strong_actor_ptr, Interfaces>())
      return done_(fail(Errc::internal, "CAF answered a connection with another message than it should"));
    auto handle = content.get_as<caf::strong_actor_ptr>(1);
    if (handle == nullptr)
      return done_(fail(Errc::invalid_argument, fmt::format("{} is no port of gpuactors", where_)));
    done_(std::move(handle));
  }

  void on_error(Error error) override {
    if (error.code() == Errc::unavailable)
      return done_(fail(std::move(error)));
    if (error.code() == Errc::deadline_exceeded)
      return done_(fail(Errc::unavailable, fmt::format("{} took the connection but did not answer in time", where_)));
    const auto why = secure_ ? "it speaks no TLS, or its certificate and ours are not of the same authority"
                             : "it may speak TLS, which --insecure turns off here";
    done_(fail(Errc::invalid_argument, fmt::format("{} refused the connection: {} ({})", where_, why, error.message())));
  }

private:
  std::string where_;
  bool secure_;
  Done done_;
};

class Timer : public PendingReply {
public:
  explicit Timer(std::function<void()> due) : due_(std::move(due)) {
    // nop
  }

  void on_reply(caf_version::Content&) override {
    // nop
  }

  void on_error(Error error) override {
    if (error.code() == Errc::deadline_exceeded)
      due_();
  }

private:
  std::function<void()> due_;
};

} // namespace

// -- Links ----------------------------------------------------------------------------------------

/// The threads that look whether somebody listens, one an attempt: a host that does not answer delays no other.
class Links::Attempts {
public:
  void run(std::function<void(const std::atomic<bool>&)> attempt) {
    const std::lock_guard lock{mutex_};
    threads_.remove_if([](Entry& entry) {
      if (!*entry.over)
        return false;
      entry.thread.join();
      return true;
    });
    auto over = std::make_shared<std::atomic<bool>>(false);
    threads_.push_back({over, std::thread{[this, over, attempt = std::move(attempt)] {
                          attempt(stop_);
                          *over = true;
                        }}});
  }

  ~Attempts() {
    stop_ = true;
    for (auto& entry : threads_)
      entry.thread.join();
  }

private:
  struct Entry {
    std::shared_ptr<std::atomic<bool>> over;
    std::thread thread;
  };

  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::list<Entry> threads_;
};

Links::Links(caf::actor_system& system, RequestPort& port, LinkOptions options)
  : system_(system), port_(port), options_(std::move(options)), attempts_(std::make_shared<Attempts>()) {
  middleman_ = caf::actor_cast<caf::strong_actor_ptr>(options_.certificates ? system.openssl_manager().actor_handle()
                                                                            : system.middleman().actor_handle());
}

Links::~Links() = default;

Result<std::uint16_t> Links::publish(const caf::strong_actor_ptr& actor, const Endpoint& listen) {
  const auto handle = caf::actor_cast<caf::actor>(actor);
  const auto* host = listen.host.c_str();
  auto port = options_.certificates ? caf::openssl::publish(handle, listen.port, host, true)
                                    : system_.middleman().publish(handle, listen.port, host, true);
  if (!port)
    return fail(Errc::unavailable,
                fmt::format("cannot listen at {}: {}", to_string(listen), caf_version::render(port.error())));
  return *port;
}

void Links::connect(const Endpoint& to, Duration timeout, OnConnected done) {
  const auto deadline = deadline_after(Clock::now(), timeout);
  attempts_->run([this, to, timeout, deadline, done = std::move(done)](const std::atomic<bool>& stop) {
    if (auto found = detail::probe(to, timeout, stop); !found)
      return done(fail(found.error()));
    auto answer = std::make_shared<Answer>(to_string(to), options_.certificates.has_value(), done);
    port_.ask(answer, middleman_, deadline, caf::connect_atom_v, to.host, to.port);
  });
}

void Links::after(Duration wait, std::function<void()> due) {
  [[maybe_unused]] auto ticket =
      port_.add(std::make_shared<Timer>(std::move(due)), nullptr, deadline_after(Clock::now(), wait));
}

// -- Redial ---------------------------------------------------------------------------------------

Redial::Redial(Links& links, Endpoint to, OnChange on_change)
  : links_(links), to_(std::move(to)), on_change_(std::move(on_change)) {
  // nop
}

void Redial::start() {
  dial();
}

void Redial::stop() {
  const std::lock_guard lock{mutex_};
  stopped_ = true;
  on_change_ = nullptr;
}

void Redial::again() {
  lost(Error{Errc::unavailable, fmt::format("{} did not answer as it should", to_string(to_))});
}

void Redial::dial() {
  {
    const std::lock_guard lock{mutex_};
    if (stopped_)
      return;
  }
  links_.connect(to_, limits::connect_timeout, [self = shared_from_this()](Result<caf::strong_actor_ptr> handle) {
    if (handle)
      self->connected(*handle);
    else
      self->lost(handle.error());
  });
}

void Redial::connected(const caf::strong_actor_ptr& handle) {
  OnChange on_change;
  std::uint64_t round = 0;
  {
    const std::lock_guard lock{mutex_};
    if (stopped_)
      return;
    failures_ = 0;
    round = ++round_;
    on_change = on_change_;
  }
  on_change(handle);
  handle->get()->attach_functor([weak = weak_from_this(), round] {
    const auto self = weak.lock();
    if (self == nullptr)
      return;
    {
      const std::lock_guard lock{self->mutex_};
      if (self->round_ != round)
        return;
    }
    self->lost(Error{Errc::unavailable, fmt::format("the connection to {} is lost", to_string(self->to_))});
  });
}

void Redial::lost(Error error) {
  OnChange on_change;
  Duration pause{};
  {
    const std::lock_guard lock{mutex_};
    if (stopped_)
      return;
    ++round_;
    on_change = on_change_;
    // Doubles from the shortest to the longest pause; up to a quarter more, so that many do not come at once.
    const auto doubled = limits::redial_shortest * (1U << std::min(failures_++, 10));
    pause = std::min<Duration>(doubled, limits::redial_longest);
    thread_local std::minstd_rand random{std::random_device{}()};
    pause += Duration{static_cast<Duration::rep>(random() % static_cast<std::uint64_t>(pause.count() / 4 + 1))};
  }
  on_change(fail(std::move(error)));
  links_.after(pause, [weak = weak_from_this()] {
    if (const auto self = weak.lock())
      self->dial();
  });
}

} // namespace gpuactors
