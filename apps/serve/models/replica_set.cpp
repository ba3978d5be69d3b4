#include "replica_set.hpp"

#include <apps/serve/run_beside.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

namespace serve {

using gpuactors::ActorRef;
using gpuactors::Clock;
using gpuactors::Duration;
using gpuactors::Errc;
using gpuactors::Result;

using namespace std::chrono_literals;

namespace {

/// As `needed_wait`, while a replica is being ended, which may take so long; and for those that are only wished for.
constexpr auto ending_wait = 10s;
constexpr auto wished_wait = 100ms;

/// Pauses of the keeper: where the number of replicas may change, and where it does not.
constexpr auto look_often = 50ms;
constexpr auto look_seldom = 500ms;

/// Replicas that are started at the same time.
constexpr std::size_t most_starts = 4;

} // namespace

// -- life -----------------------------------------------------------------------------------------

ReplicaSet::ReplicaSet(std::unique_ptr<ReplicaStarter> starter, std::shared_ptr<Dispatcher> dispatcher,
                       std::shared_ptr<KeeperBell> bell, ReplicaOptions options)
  : starter_(std::move(starter)),
    calls_(std::make_shared<BatchCalls>(starter_->cluster(), dispatcher->facts().takes_tensors,
                                        dispatcher->facts().sequences == wire::SEQUENCE_MEMORY_STATE)),
    dispatcher_(std::move(dispatcher)), bell_(std::move(bell)), options_(std::move(options)),
    scaling_(options_.scaling) {
  // nop
}

Result<std::unique_ptr<ReplicaSet>> ReplicaSet::start(std::unique_ptr<ReplicaStarter> starter,
                                                      std::vector<Started> there,
                                                      std::shared_ptr<Dispatcher> dispatcher,
                                                      std::shared_ptr<KeeperBell> bell, ReplicaOptions options) {
  std::unique_ptr<ReplicaSet> set{
      new ReplicaSet{std::move(starter), std::move(dispatcher), std::move(bell), std::move(options)}};
  GPUACTORS_TRY(set->bring_in_first(std::move(there)));
  for (auto i = set->actors_.size(); i < set->options_.initial; ++i) {
    auto next = set->make_one(needed_wait);
    if (!next && next.error().code() == Errc::no_capacity && set->options_.make_room())
      next = set->make_one(set->options_.room_wait);
    if (!next) {
      set->scaling_.start_failed(Clock::now(), set->actors_.size() < set->options_.scaling.min_replicas);
      set->scaling_.take_back(set->options_.initial);
      set->dispatcher_->note_failed_start(next.error());
      break;
    }
    set->bring_in(*next);
  }
  try {
    set->keeper_ = std::thread{[self = set.get()] { self->keep(); }};
  } catch (const std::system_error& error) {
    // What was found is not to blame, and is there for the next try.
    set->stop(set->options_.found);
    return gpuactors::fail(gpuactors::Errc::unavailable, fmt::format("a model has no thread: {}", error.what()));
  }
  return set;
}

Result<void> ReplicaSet::bring_in_first(std::vector<Started> there) {
  Result<void> outcome;
  // They end together, before another one is started: each may take its time.
  std::vector<ActorRef> unfit;
  for (const auto& one : there) {
    if (actors_.size() == options_.scaling.max_replicas) {
      unfit.push_back(one.actor);
    } else if (const auto ready = measure(one)) {
      bring_in(*ready);
    } else {
      unfit.push_back(one.actor);
      outcome = gpuactors::fail(ready.error());
    }
  }
  starter_->kill(unfit);
  if (!actors_.empty())
    return {};
  if (outcome || !options_.found)
    return outcome;
  // Those that were found had something that a new one need not have.
  GPUACTORS_LET(ready, make_one(options_.room_wait));
  bring_in(ready);
  return {};
}

ReplicaSet::~ReplicaSet() {
  stop();
}

void ReplicaSet::stop(bool replicas_stay) {
  bell_->stop(replicas_stay);
  if (keeper_.joinable())
    keeper_.join();
  {
    const std::lock_guard lock{next_version_};
    if (giving_up_)
      giving_up_->has_ended.set_value(false);
    giving_up_.reset();
  }
  for (const auto& start : starts_) {
    if (start->thread.joinable())
      start->thread.join();
    if (*start->outcome)
      actors_.emplace((*start->outcome)->started.id, (*start->outcome)->started.actor);
  }
  starts_.clear();
  std::vector<ActorRef> last;
  for (const auto& [id, actor] : actors_)
    last.push_back(actor);
  starter_->kill(last);
  for (const auto& end : ends_)
    if (end->thread.joinable())
      end->thread.join();
  ends_.clear();
  actors_.clear();
  calls_->end();
}

void ReplicaSet::end_beside(std::uint64_t id) {
  if (const auto actor = take(id))
    end_beside({id, *actor});
}

void ReplicaSet::end_beside(const Started& replica) {
  // One that is stuck, or whose node does not answer, must not keep the others from being replaced.
  const auto over = std::stable_partition(ends_.begin(), ends_.end(), [](const auto& end) { return !end->is_over; });
  for (auto end = over; end != ends_.end(); ++end)
    if ((*end)->thread.joinable())
      (*end)->thread.join();
  ends_.erase(over, ends_.end());
  const auto& end = ends_.emplace_back(std::make_unique<End>());
  end->id = replica.id;
  end->since = Clock::now();
  end->thread = run_beside([this, actor = replica.actor, it = end.get()] {
    starter_->kill({actor});
    it->is_over = true;
    bell_->ring();
  });
}

bool ReplicaSet::is_ending(std::uint64_t id) const {
  return std::any_of(ends_.begin(), ends_.end(), [id](const auto& end) { return end->id == id && !end->is_over; });
}

std::optional<ActorRef> ReplicaSet::take(std::uint64_t id) {
  auto actor = actors_.extract(id);
  asked_.erase(id);
  leaving_.erase(id);
  if (actor.empty())
    return std::nullopt;
  return std::move(actor.mapped());
}

// -- the keeper -----------------------------------------------------------------------------------

void ReplicaSet::note(const std::string& what) const {
  options_.notice(fmt::format("{}: {}", dispatcher_->facts().title, what));
}

void ReplicaSet::keep() {
  keeping_ = true;
  const auto changes = options_.scaling.min_replicas < options_.scaling.max_replicas;
  while (bell_->wait(changes || !leaving_.empty() ? look_often : look_seldom))
    look_around();
}

void ReplicaSet::look_around() {
  lose_away();
  take_lost();
  take_starts();
  auto look = dispatcher_->look();
  look.starting = static_cast<std::size_t>(std::count_if(
      starts_.begin(), starts_.end(), [this](const auto& start) { return !actors_.contains(start->replaces); }));
  const auto step = scaling_.decide(Clock::now(), look);
  for (std::size_t i = 0; i < step.start; ++i)
    begin_start(step.needed);
  if (step.stop && dispatcher_->remove_idle(*step.stop)) {
    note(fmt::format("replica {} has nothing to do and ends", *step.stop));
    end_beside(*step.stop);
  }
  look_at_nodes();
  see_off();
  give_up();
  ask_replicas(look);
}

void ReplicaSet::lose_away() {
  // They have no second life. A question would find that only if the broker is there, and a batch would wait for it.
  for (const auto& [id, actor] : actors_)
    if (actor.away())
      dispatcher_->lose(id, {Errc::actor_died, "it has ended, or the connection to it is lost"});
}

void ReplicaSet::take_lost() {
  for (const auto& lost : dispatcher_->take_lost()) {
    note(fmt::format("replica {} was lost: {}", lost.id, lost.why));
    end_beside(lost.id);
  }
}

void ReplicaSet::begin_start(bool needed, std::uint64_t replaces) {
  if (starts_.size() >= most_starts)
    return;
  // The share of one that is lost is free when its end is over, usually at once: until then, another place would be
  // found, beside those that serve. Not if it is stuck.
  const auto still_ends = [](const auto& end) { return !end->is_over; };
  const auto ends_soon = [&](const auto& end) { return still_ends(end) && Clock::now() < end->since + needed_wait; };
  if (std::any_of(ends_.begin(), ends_.end(), ends_soon))
    return;
  const auto& start = starts_.emplace_back(std::make_unique<Start>());
  start->replaces = replaces;
  start->needed = needed;
  start->since = Clock::now();
  dispatcher_->note_start(start->since);
  const auto ending = std::any_of(ends_.begin(), ends_.end(), still_ends);
  const Duration wait = !needed ? Duration{wished_wait} : ending ? Duration{ending_wait} : Duration{needed_wait};
  start->thread = run_beside([this, it = start.get(), wait] {
    it->outcome = make_one(wait);
    it->is_over = true;
    bell_->ring();
  });
}

void ReplicaSet::take_starts() {
  // Looked at once: one that ends meanwhile is taken the next time.
  std::vector<std::unique_ptr<Start>> over;
  for (auto& start : starts_)
    if (start->is_over)
      over.push_back(std::move(start));
  std::erase(starts_, nullptr);
  for (const auto& start : over) {
    if (start->thread.joinable())
      start->thread.join();
    take_start(*start);
    // Last, so that those who have waited for it get the replica, or hear why there is none.
    dispatcher_->note_start_over(start->since);
  }
}

void ReplicaSet::take_start(const Start& start) {
  const auto& ready = *start.outcome;
  if (!ready) {
    // What another one still serves for is not missing yet.
    scaling_.start_failed(Clock::now(), start.needed && start.replaces == 0);
    dispatcher_->note_failed_start(ready.error());
    if (start.needed && !bell_->stopped())
      note_failure(fmt::format("a replica that is {} could not be started, and is tried again: {}",
                               start.replaces == 0 ? "missing" : "to take the place of another one",
                               to_string(ready.error())));
    return;
  }
  scaling_.start_succeeded();
  last_failure_.clear();
  // What was said of the node before it granted this would have the replica leave at once.
  if (options_.nodes != nullptr)
    options_.nodes->serves(ready->started.actor.lease().node);
  const auto left = leaving_.find(start.replaces);
  const bool takes_place = left != leaving_.end() && !left->second.retired;
  // There may be fewer now than when it was begun, for the next version.
  if (!takes_place && dispatcher_->look().replicas.size() >= scaling_.limits().max_replicas)
    return end_beside(ready->started);
  bring_in(*ready);
  if (takes_place) {
    left->second.retired = true;
    dispatcher_->retire(left->first);
  }
}

void ReplicaSet::note_failure(std::string what) {
  constexpr std::chrono::minutes repeated_after{1};
  const auto now = Clock::now();
  if (what == last_failure_ && now < next_failure_note_)
    return;
  next_failure_note_ = now + repeated_after;
  last_failure_ = std::move(what);
  note(last_failure_);
}

void ReplicaSet::look_at_nodes() {
  const auto draining = options_.nodes == nullptr ? std::set<std::string>{} : options_.nodes->draining();
  for (const auto& [id, actor] : actors_)
    if (const auto node = actor.lease().node; draining.contains(node))
      leaving_.try_emplace(id, Leaving{false, gpuactors::never,
                                       fmt::format("replica {} has left node {}, which is being emptied", id, node)});
    else if (const auto stays = leaving_.find(id); stays != leaving_.end() && !stays->second.retired)
      leaving_.erase(stays);
  for (const auto& [id, leaving] : leaving_) {
    const auto is_its = [which = id](const auto& start) { return start->replaces == which; };
    if (!leaving.retired && scaling_.may_start(Clock::now(), false)
        && std::none_of(starts_.begin(), starts_.end(), is_its))
      begin_start(true, id);
  }
}

void ReplicaSet::see_off() {
  std::vector<std::uint64_t> gone;
  for (const auto& [id, leaving] : leaving_)
    if (leaving.retired && dispatcher_->remove_idle(id))
      gone.push_back(id);
    else if (leaving.retired && Clock::now() >= leaving.until) {
      dispatcher_->take_out(id, {Errc::unavailable, "its share is given to the next version"});
      gone.push_back(id);
    }
  for (const auto id : gone) {
    note(leaving_.at(id).note);
    end_beside(id);
  }
}

} // namespace serve
