#include <gpuactors/broker/core/state_copy.hpp>
#include <gpuactors/broker/core/state_feed.hpp>
#include <gpuactors/broker/core/succession.hpp>
#include <gpuactors/broker/standby_broker.hpp>
#include <gpuactors/cluster/detail/own_address.hpp>
#include <gpuactors/cluster/detail/standby_part.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <mutex>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

namespace gpuactors::detail {

namespace {

/// The key in `StateSection::ids` of the nodes that the active broker had, by name, one in each line.
constexpr const char* nodes_key = "nodes";

std::set<std::string> lines_of(const std::string& text) {
  std::set<std::string> lines;
  std::istringstream in{text};
  for (std::string line; std::getline(in, line);)
    lines.insert(line);
  return lines;
}

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

/// Whether a broker serves at this address now. Waits for its answer, no longer than a connection may take.
/// @param term of the own state: a broker with an older one counts as none.
bool serves(DaemonCore& core, const Endpoint& at, std::uint64_t term) {
  v1::FollowState question;
  question.set_term(term);
  auto answered = std::make_shared<std::promise<bool>>();
  auto answer = answered->get_future();
  core.links().connect(at, limits::connect_timeout, [&core, answered, question](Result<caf::strong_actor_ptr> handle) {
    if (!handle) // one of a release that this one does not understand may serve
      return answered->set_value(handle.error().code() == Errc::unsupported);
    core.port().ask(std::make_shared<FollowReply>([answered](const Result<v1::StateChanges>& changes) {
                      answered->set_value(changes.has_value());
                    }),
                    *handle, deadline_after(Clock::now(), limits::connect_timeout), question);
  });
  return answer.get();
}

} // namespace

Result<std::optional<std::string>> own_entry(const StateStore& store, const char* key) {
  GPUACTORS_LET(entries, store.load(StateSection::ids));
  for (auto& entry : entries)
    if (entry.key == StateKey{std::string{key}})
      return std::optional{std::move(entry.value)};
  return std::optional<std::string>{};
}

Result<std::uint64_t> term_in(const StateStore& store) {
  GPUACTORS_LET(term, own_entry(store, term_key));
  return term ? std::strtoull(term->c_str(), nullptr, 10) : 0;
}

Result<std::optional<Endpoint>> broker_to_follow(DaemonCore& core, const BrokerDaemon& options) {
  std::optional<Endpoint> named;
  if (!options.standby_of.empty()) {
    GPUACTORS_LET(endpoint, parse_endpoint(options.standby_of));
    named = std::move(endpoint);
    if (options.store.empty())
      return fail(Errc::invalid_argument,
                  fmt::format("a broker that stands by for the one at {} keeps a copy of its state: it needs a store",
                              options.standby_of));
  }
  if (options.store.empty())
    return named;
  std::optional<Endpoint> other = named;
  bool has_served = false;
  std::uint64_t own_term = 0;
  {
    GPUACTORS_LET(store, StateStore::open(options.store));
    GPUACTORS_LET(served, own_entry(*store, serves_key));
    GPUACTORS_LET(known, own_entry(*store, standby_key));
    GPUACTORS_LET(term, term_in(*store));
    has_served = served.has_value();
    own_term = term;
    if (!other && known)
      if (auto endpoint = parse_endpoint(*known))
        other = std::move(*endpoint);
  }
  // One that has stood by when it ended goes on with that.
  return other && (!has_served || serves(core, *other, own_term)) ? other : std::nullopt;
}

// -- the state ------------------------------------------------------------------------------------

/// What the threads share on which answers and nodes come.
class StandbyPart::State : public std::enable_shared_from_this<State> {
public:
  /// What the store says.
  struct Own {
    std::uint64_t term = 0;
    std::string lineage;
    bool has_copy = false;
  };

  State(DaemonCore& core, std::shared_ptr<StateStore> store, Own own, Succession succession, Endpoint active,
        std::string address, std::function<void(std::string_view)> notice)
    : core_(core), store_(std::move(store)), copy_(std::in_place, store_, address, own.term, own.has_copy),
      succession_(std::move(succession)), own_(std::move(own)), address_(std::move(address)),
      active_address_(to_string(active)), notice_(std::move(notice)) {
    if (own_.has_copy)
      succession_.copied();
  }

  /// There is a connection to the active broker, or none any more.
  void connected(Result<caf::strong_actor_ptr> active) {
    std::unique_lock lock{mutex_};
    if (!active && active.error().code() == Errc::unsupported)
      failure_ = active.error();
    active_ = active ? std::move(*active) : nullptr;
    ask(lock);
  }

  void asked(const std::string& node) {
    const std::lock_guard lock{mutex_};
    succession_.asked(node, Clock::now());
  }

  /// The other broker stands by for this one, too: the one with the later state serves.
  void followed(const v1::FollowState& by) {
    const std::lock_guard lock{mutex_};
    if (closed_ || by.address() != active_address_)
      return;
    const auto& own = copy_->next();
    if (std::tuple{own.has_copy(), own.term(), address_} > std::tuple{by.has_copy(), by.term(), by.address()})
      is_first_ = true;
  }

  /// Nothing while the other one serves, or should be waited for.
  std::optional<Result<std::string>> look() {
    const std::lock_guard lock{mutex_};
    if (failure_)
      return fail(*failure_);
    const auto now = Clock::now();
    if (is_first_)
      return std::string{"it stands by for this one, and has no later state"};
    if (!succession_.is_due(now))
      return std::nullopt;
    return succession_.describe(now);
  }

  /// No answer is taken any more, and the store is closed.
  void close() {
    const std::lock_guard lock{mutex_};
    active_ = nullptr;
    closed_ = true;
    copy_.reset();
    store_.reset();
  }

  /// Dials again, since there is no answer.
  std::function<void(Error)> again;

private:
  void ask(std::unique_lock<std::mutex>& lock) {
    if (active_ == nullptr || closed_)
      return;
    auto to = active_;
    auto question = copy_->next();
    lock.unlock();
    core_.port().ask(std::make_shared<FollowReply>([weak = weak_from_this(), to](Result<v1::StateChanges> changes) {
                       if (const auto self = weak.lock())
                         self->answered(to, std::move(changes));
                     }),
                     to, deadline_after(Clock::now(), core_.links().options().timeout), std::move(question));
  }

  void answered(const caf::strong_actor_ptr& by, Result<v1::StateChanges> changes) {
    std::unique_lock lock{mutex_};
    if (by != active_ || closed_)
      return;
    const auto code = changes ? Errc{} : changes.error().code();
    if (!changes && (code == Errc::unsupported || code == Errc::already_exists))
      failure_ = changes.error();
    if (!changes && code != Errc::stale_epoch) {
      lock.unlock();
      return again(changes.error());
    }
    Result<bool> more = false;
    if (changes) {
      more = take(*changes);
    } else {
      // It stands by, too. `followed` decides, unless it follows another one.
      succession_.answered(succession_.nodes(), Clock::now());
      say(changes.error().message());
    }
    if (!more && more.error().code() == Errc::unsupported)
      failure_ = more.error();
    else if (!more)
      say(fmt::format("the copy of its state: {}", more.error().message()));
    if (more && *more)
      return ask(lock);
    lock.unlock();
    core_.links().after(limits::follow_interval, [weak = weak_from_this(), by] {
      const auto self = weak.lock();
      if (self == nullptr)
        return;
      std::unique_lock later{self->mutex_};
      if (by == self->active_)
        self->ask(later);
    });
  }

  Result<bool> take(const v1::StateChanges& changes) {
    std::set<std::string> nodes{changes.nodes().begin(), changes.nodes().end()};
    // One that has just begun does not know its nodes yet.
    if (changes.settling())
      nodes.insert(succession_.nodes().begin(), succession_.nodes().end());
    const bool are_new = nodes != succession_.nodes();
    // Whatever becomes of the copy: it is alive.
    succession_.answered(std::move(nodes), Clock::now());
    if (own_.has_copy && own_.lineage != changes.lineage()) {
      failure_ =
          Error{Errc::invalid_argument,
                fmt::format("the broker at {} has the state of another cluster, or of this one anew, without what is "
                            "in the store here: to follow it all the same, remove that file",
                            active_address_)};
      return fail(*failure_);
    }
    if (are_new) {
      std::string lines;
      for (const auto& node : succession_.nodes())
        lines += node + '\n';
      store_->put(StateSection::ids, std::string{nodes_key}, std::move(lines));
      GPUACTORS_TRY(store_->commit());
    }
    const bool was_complete = copy_->is_complete();
    auto more = copy_->take(changes);
    if (!was_complete && copy_->is_complete()) {
      own_.has_copy = true;
      own_.lineage = changes.lineage();
      succession_.copied();
      notice_("follows the active broker: it has a copy of its state");
    }
    return more;
  }

  void say(std::string what) {
    if (what != said_)
      notice_(said_ = std::move(what));
  }

  DaemonCore& core_;
  std::mutex mutex_;
  std::shared_ptr<StateStore> store_;
  std::optional<StateCopy> copy_;
  Succession succession_;
  Own own_;
  const std::string address_;
  const std::string active_address_;
  bool is_first_ = false;
  std::function<void(std::string_view)> notice_;
  caf::strong_actor_ptr active_;
  std::optional<Error> failure_;
  std::string said_;
  bool closed_ = false;
};

// -- the part -------------------------------------------------------------------------------------

StandbyPart::~StandbyPart() {
  if (redial_ != nullptr)
    redial_->stop();
}

Result<void> StandbyPart::start(DaemonCore& core, const BrokerDaemon& options, const DaemonOptions& daemon,
                                Endpoint active) {
  core_ = &core;
  active_ = std::move(active);
  GPUACTORS_LET(listen, parse_endpoint(options.listen));
  GPUACTORS_LET(opened, StateStore::open(options.store));
  std::shared_ptr<StateStore> store = std::move(opened);
  GPUACTORS_LET(nodes, own_entry(*store, nodes_key));
  GPUACTORS_LET(term, term_in(*store));
  GPUACTORS_LET(lineage, own_entry(*store, lineage_key));
  GPUACTORS_LET(copied, own_entry(*store, copied_key));
  GPUACTORS_LET(served, own_entry(*store, serves_key));
  State::Own own{term, lineage.value_or(""), copied || served};
  store->erase(StateSection::ids, std::string{serves_key});
  store->put(StateSection::ids, std::string{standby_key}, to_string(active_));
  if (own.has_copy)
    store->put(StateSection::ids, std::string{copied_key}, "1");
  GPUACTORS_TRY(store->commit());
  GPUACTORS_LET(host, is_any_address(listen.host) ? address_towards(active_) : Result<std::string>{listen.host});
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
      core.links().lanes(), to_string(active_),
      [with_state](const std::string& node) { with_state([&](State& state) { state.asked(node); }); },
      [with_state](const v1::FollowState& by) { with_state([&](State& state) { state.followed(by); }); });
  GPUACTORS_LET(port, core.links().publish(actor_, listen));
  endpoint_ = {listen.host, port};
  const Succession::Rules rules{core.links().options().timeout, limits::vote_lasts, options.standby_votes};
  Succession succession{rules, lines_of(nodes.value_or("")), Clock::now()};
  state_ = std::make_shared<State>(core, std::move(store), std::move(own), std::move(succession), active_,
                                   to_string(Endpoint{host, port}), daemon.notice);
  redial_ = std::make_shared<Redial>(core.links(), std::vector{active_},
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
