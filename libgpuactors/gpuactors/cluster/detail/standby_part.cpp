#include <gpuactors/base/executor.hpp>
#include <gpuactors/broker/core/standby_core.hpp>
#include <gpuactors/broker/standby_broker.hpp>
#include <gpuactors/cluster/detail/own_address.hpp>
#include <gpuactors/cluster/detail/standby_part.hpp>

#include <fmt/format.h>

#include <future>
#include <mutex>
#include <utility>

namespace gpuactors::detail {

namespace {

/// Passes the answer to a question, or why there is none.
class FollowReply : public OwnReply {
public:
  using Done = std::function<void(Result<v1::StateChanges>)>;

  explicit FollowReply(Done done) : done_(std::move(done)) {
    // nop
  }

  void on_reply(MessageContent& content) override {
    done_(std::move(content.get_mutable_as<v1::StateChanges>(0)));
  }

  void on_error(Error error) override {
    done_(fail(std::move(error)));
  }

private:
  Done done_;
};

/// The nodes of the broker that serves at this address now; nothing if none does. Waits for its answer, no longer than
/// a connection may take.
std::optional<std::set<std::string>> served_at(DaemonCore& core, const Endpoint& at, const v1::FollowState& question) {
  using Nodes = std::optional<std::set<std::string>>;
  auto answered = std::make_shared<std::promise<Nodes>>();
  auto answer = answered->get_future();
  core.links().connect(at, limits::connect_timeout, [&core, answered, question](Result<caf::strong_actor_ptr> handle) {
    // One of a release that this one does not understand may serve.
    if (!handle)
      return answered->set_value(handle.error().code() == Errc::unsupported ? Nodes{std::in_place} : std::nullopt);
    core.port().ask(std::make_shared<FollowReply>([answered](const Result<v1::StateChanges>& changes) {
                      answered->set_value(changes
                                              ? Nodes{std::in_place, changes->nodes().begin(), changes->nodes().end()}
                                              : std::nullopt);
                    }),
                    *handle, deadline_after(Clock::now(), limits::connect_timeout), question);
  });
  return answer.get();
}

} // namespace

Result<std::optional<ActiveBroker>> broker_to_follow(DaemonCore& core, const BrokerDaemon& options) {
  if (options.store.empty()) {
    if (options.standby_of.empty())
      return std::optional<ActiveBroker>{};
    return fail(Errc::invalid_argument,
                fmt::format("a broker that stands by for the one at {} keeps a copy of its state: it needs a store",
                            options.standby_of));
  }
  BrokerRole role;
  {
    GPUACTORS_LET(store, StateStore::open(options.store));
    GPUACTORS_LET(kept, role_in(*store));
    role = std::move(kept);
  }
  std::optional<Endpoint> other;
  if (!options.standby_of.empty()) {
    GPUACTORS_LET(named, parse_endpoint(options.standby_of));
    other = std::move(named);
  } else if (role.other) {
    if (auto known = parse_endpoint(*role.other))
      other = std::move(*known);
  }
  const auto start = start_of(role, other.has_value());
  if (start == BrokerStart::serve)
    return std::optional<ActiveBroker>{};
  std::optional<ActiveBroker> active;
  if (start == BrokerStart::stand_by)
    active = ActiveBroker{std::move(*other), {}};
  else if (auto nodes = served_at(core, *other, start_question(role)))
    active = ActiveBroker{*other, std::move(*nodes)};
  if (!options.forget_standby)
    return active;
  if (active)
    return fail(Errc::invalid_argument,
                fmt::format("no broker stands by for this one, which itself stands by for the one at {}: nothing is to "
                            "be forgotten (--no-standby)",
                            to_string(active->endpoint)));
  GPUACTORS_LET(store, StateStore::open(options.store));
  GPUACTORS_TRY(forget_standby(*store));
  return active;
}

// -- the state ------------------------------------------------------------------------------------

/// What the threads share on which answers and nodes come.
class StandbyPart::State : public std::enable_shared_from_this<State> {
public:
  State(DaemonCore& core, StandbyCore standby, std::function<void(std::string_view)> notice)
    : core_(core), standby_(std::in_place, std::move(standby)), notice_(std::move(notice)) {
    // nop
  }

  /// There is a connection to the active broker, or none any more.
  void connected(Result<caf::strong_actor_ptr> active) {
    std::unique_lock lock{mutex_};
    active_ = active ? std::move(*active) : nullptr;
    if (!standby_)
      return;
    if (!active) {
      const auto line = standby_->unreachable(active.error());
      lock.unlock();
      return say(line);
    }
    ask(lock);
  }

  void asked(const std::string& node) {
    const std::lock_guard lock{mutex_};
    if (standby_)
      standby_->asked(node, Clock::now());
  }

  void followed(const v1::FollowState& by) {
    const std::lock_guard lock{mutex_};
    if (standby_)
      standby_->followed(by);
  }

  std::optional<Result<std::string>> look() {
    const std::lock_guard lock{mutex_};
    return standby_->look(Clock::now());
  }

  /// No answer is taken any more, and the store is closed.
  void close() {
    {
      const std::lock_guard lock{mutex_};
      active_ = nullptr;
      standby_.reset();
    }
    writer_.stop();
  }

  /// Dials again, since there is no answer.
  std::function<void(Error)> again;

private:
  void ask(std::unique_lock<std::mutex>& lock) {
    if (active_ == nullptr || !standby_)
      return;
    auto to = active_;
    auto question = standby_->question();
    lock.unlock();
    core_.port().ask(std::make_shared<FollowReply>([weak = weak_from_this(), to](Result<v1::StateChanges> changes) {
                       if (const auto self = weak.lock())
                         self->writer_.post(
                             [weak, to, kept = std::make_shared<Result<v1::StateChanges>>(std::move(changes))] {
                               if (const auto still = weak.lock())
                                 still->answered(to, *kept);
                             });
                     }),
                     to, deadline_after(Clock::now(), core_.links().options().timeout), std::move(question));
  }

  void answered(const caf::strong_actor_ptr& by, const Result<v1::StateChanges>& changes) {
    std::unique_lock lock{mutex_};
    if (by != active_ || !standby_)
      return;
    auto step = standby_->answered(changes, Clock::now());
    if (step.next == StandbyCore::Step::Next::ask && !step.notice)
      return ask(lock);
    lock.unlock();
    say(step.notice);
    if (step.next == StandbyCore::Step::Next::dial)
      return again(std::move(*step.why));
    const auto pause = step.next == StandbyCore::Step::Next::ask ? Duration{} : Duration{limits::follow_interval};
    core_.links().after(pause, [weak = weak_from_this(), by] {
      const auto self = weak.lock();
      if (self == nullptr)
        return;
      std::unique_lock later{self->mutex_};
      if (by == self->active_)
        self->ask(later);
    });
  }

  void say(const std::optional<std::string>& line) const {
    if (line)
      notice_(*line);
  }

  DaemonCore& core_;
  std::mutex mutex_;
  std::optional<StandbyCore> standby_;
  const std::function<void(std::string_view)> notice_;
  caf::strong_actor_ptr active_;
  // Answers are kept here, one after the other: a disk that takes its time must not hold up the event loop, which would
  // look to the active broker as if this process were dead.
  Executor writer_;
};

// -- the part -------------------------------------------------------------------------------------

StandbyPart::~StandbyPart() {
  if (redial_ != nullptr)
    redial_->stop();
  if (state_ != nullptr)
    state_->close();
}

Result<void> StandbyPart::start(DaemonCore& core, const BrokerDaemon& options, const DaemonOptions& daemon,
                                const ActiveBroker& active) {
  core_ = &core;
  const auto where = to_string(active.endpoint);
  GPUACTORS_LET(listen, parse_endpoint(options.listen));
  GPUACTORS_LET(opened, StateStore::open(options.store));
  std::shared_ptr<StateStore> store = std::move(opened);
  GPUACTORS_LET(role, role_in(*store));
  GPUACTORS_TRY(begin_to_stand_by(*store, where));
  // The port first: the active broker is told where it is.
  const auto seen = std::make_shared<std::weak_ptr<State>>();
  const auto mutex = std::make_shared<std::mutex>();
  const auto with_state = [seen, mutex](const auto& use) {
    std::shared_ptr<State> state;
    {
      const std::lock_guard lock{*mutex};
      state = seen->lock();
    }
    if (state != nullptr)
      use(*state);
  };
  actor_ = core.spawn<StandbyBroker>(
      core.links().lanes(), where,
      [with_state](const std::string& node) { with_state([&](State& state) { state.asked(node); }); },
      [with_state](const v1::FollowState& by) { with_state([&](State& state) { state.followed(by); }); });
  GPUACTORS_LET(port, core.links().publish(actor_, listen));
  endpoint_ = {listen.host, port};
  GPUACTORS_LET(known, advertised(options.advertise, endpoint_, active.endpoint));
  const Succession::Rules rules{core.links().options().timeout, limits::vote_lasts, options.standby_votes};
  StandbyCore standby{std::move(store), std::move(role), {to_string(known), where, rules, active.nodes}, Clock::now()};
  state_ = std::make_shared<State>(core, std::move(standby), daemon.notice);
  redial_ = std::make_shared<Redial>(core.links(), std::vector{active.endpoint},
                                     [weak = std::weak_ptr{state_}](Result<caf::strong_actor_ptr> handle) {
                                       if (const auto state = weak.lock())
                                         state->connected(std::move(handle));
                                     });
  state_->again = [weak = std::weak_ptr{redial_}](Error why) {
    if (const auto redial = weak.lock())
      redial->again(std::move(why));
  };
  {
    const std::lock_guard lock{*mutex};
    *seen = state_;
  }
  redial_->start();
  return {};
}

Result<bool> StandbyPart::wait(Termination& termination) {
  constexpr std::chrono::milliseconds slice{50};
  while (!termination.wait_for(slice)) {
    const auto due = state_->look();
    if (!due)
      continue;
    GPUACTORS_LET(why, *due);
    why_ = std::move(why);
    return true;
  }
  return false;
}

Result<void> StandbyPart::hand_over() {
  redial_->stop();
  state_->close();
  GPUACTORS_TRY(core_->links().unpublish(endpoint_.port));
  caf::anon_send_exit(actor_, caf::exit_reason::user_shutdown);
  actor_ = nullptr;
  return {};
}

} // namespace gpuactors::detail
