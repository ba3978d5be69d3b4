#include "replica_set.hpp"

#include "actor_stream.hpp"

#include <apps/serve/run_beside.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <span>
#include <system_error>
#include <tuple>
#include <utility>

namespace serve {

using gpuactors::ActorRef;
using gpuactors::Clock;
using gpuactors::Duration;
using gpuactors::Errc;
using gpuactors::Result;
using gpuactors::Share;

using namespace std::chrono_literals;

namespace {

/// How long replicas after the first one may wait for their share before they are tried again: those that have to be
/// there, and those that are only wished for.
constexpr auto needed_wait = 1s;
// The same while a lost replica is being ended, which may take so long.
constexpr auto ending_wait = 10s;
constexpr auto wished_wait = 100ms;

/// How long an idle replica may take to say what it is, and how often replicas are asked that.
constexpr auto description_deadline = 10s;
constexpr auto ask_every = 1s;

/// Pauses of the keeper: where the number of replicas may change, and where it does not.
constexpr auto look_often = 50ms;
constexpr auto look_seldom = 500ms;

/// What is asked every now and then is a part of no request, and would begin a trace each time: this one is not
/// recorded, unless the sampler records whatever it sees.
constexpr gpuactors::TraceContext nobodys_trace{~std::uint64_t{0}, ~std::uint64_t{0}, ~std::uint64_t{0}, false};

/// Replicas that are started at the same time.
constexpr std::size_t most_starts = 4;

/// How long new replicas are measured before they serve, at most.
constexpr auto longest_measuring = 2s;

template <class T>
bool are_numbers(std::span<const std::byte> bytes) {
  for (; bytes.size() >= sizeof(T); bytes = bytes.subspan(sizeof(T))) {
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    if (!std::isfinite(value))
      return false;
  }
  return true;
}

/// A network that has diverged in its training answers no numbers, to anybody.
Result<void> check_numbers(const ModelFacts& facts, const BatchReply& reply) {
  for (std::size_t i = 0; i < facts.outputs.size(); ++i) {
    const auto bytes = reply.outputs[i].view();
    const auto wide = facts.outputs[i].type == DataType::fp64;
    if (!(wide ? are_numbers<double>(bytes) : are_numbers<float>(bytes)))
      return gpuactors::fail(Errc::invalid_argument,
                             fmt::format("{} answers rows of zeros with what is no finite number: its training has "
                                         "diverged",
                                         facts.title));
  }
  return {};
}

Share share_of(const ActorRef& actor) {
  const auto lease = actor.lease();
  return lease.devices.empty() ? Share{} : lease.devices.front().share;
}

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
      set->scaling_.start_failed(Clock::now());
      set->scaling_.take_back(set->options_.initial);
      set->dispatcher_->note_failed_start();
      break;
    }
    set->bring_in(*next);
  }
  try {
    set->keeper_ = std::thread{[self = set.get()] { self->keep(); }};
  } catch (const std::system_error& error) {
    return gpuactors::fail(gpuactors::Errc::unavailable, fmt::format("a model has no thread: {}", error.what()));
  }
  return set;
}

Result<void> ReplicaSet::bring_in_first(std::vector<Started> there) {
  Result<void> outcome;
  for (auto& one : there) {
    if (actors_.size() == options_.scaling.max_replicas) {
      starter_->kill(one.actor);
      continue;
    }
    // Which ends one that cannot serve.
    if (const auto ready = measure(std::move(one)))
      bring_in(*ready);
    else
      outcome = gpuactors::fail(ready.error());
  }
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
  std::vector<std::thread> ending;
  for (const auto& [id, actor] : actors_)
    ending.push_back(run_beside([this, actor = actor] { starter_->kill(actor); }));
  for (auto& thread : ending)
    if (thread.joinable())
      thread.join();
  for (const auto& end : ends_)
    if (end->thread.joinable())
      end->thread.join();
  ends_.clear();
  actors_.clear();
  calls_->end();
}

void ReplicaSet::end(std::uint64_t id) {
  if (const auto actor = take(id))
    starter_->kill(*actor);
}

void ReplicaSet::end_beside(std::uint64_t id) {
  const auto actor = take(id);
  if (!actor)
    return;
  // One that is stuck, or whose node does not answer, must not keep the others from being replaced.
  const auto over = std::stable_partition(ends_.begin(), ends_.end(), [](const auto& end) { return !end->is_over; });
  for (auto end = over; end != ends_.end(); ++end)
    if ((*end)->thread.joinable())
      (*end)->thread.join();
  ends_.erase(over, ends_.end());
  const auto& end = ends_.emplace_back(std::make_unique<End>());
  end->since = Clock::now();
  end->thread = run_beside([this, actor = *actor, it = end.get()] {
    starter_->kill(actor);
    it->is_over = true;
    bell_->ring();
  });
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
  take_lost();
  take_starts();
  auto look = dispatcher_->look();
  look.starting = static_cast<std::size_t>(std::count_if(
      starts_.begin(), starts_.end(), [this](const auto& start) { return !actors_.contains(start->replaces); }));
  const auto step = scaling_.decide(Clock::now(), look);
  const auto needed = look.replicas.size() < options_.scaling.min_replicas;
  for (std::size_t i = 0; i < step.start; ++i)
    begin_start(needed);
  if (step.stop && dispatcher_->remove_idle(*step.stop)) {
    note(fmt::format("replica {} has nothing to do and ends", *step.stop));
    end(*step.stop);
  }
  look_at_nodes();
  see_off();
  give_up();
  ask_replicas(look);
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
  const auto is_ending = [](const auto& end) { return !end->is_over; };
  const auto ends_soon = [&](const auto& end) { return is_ending(end) && Clock::now() < end->since + needed_wait; };
  if (std::any_of(ends_.begin(), ends_.end(), ends_soon))
    return;
  const auto& start = starts_.emplace_back(std::make_unique<Start>());
  start->replaces = replaces;
  start->needed = needed;
  const auto ending = std::any_of(ends_.begin(), ends_.end(), is_ending);
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
    const auto& ready = *start->outcome;
    if (!ready) {
      scaling_.start_failed(Clock::now());
      dispatcher_->note_failed_start();
      if (start->needed && !bell_->stopped())
        note_failure(fmt::format("a replica that is {} could not be started, and is tried again: {}",
                                 start->replaces == 0 ? "missing" : "to take the place of another one",
                                 to_string(ready.error())));
      continue;
    }
    scaling_.start_succeeded();
    last_failure_.clear();
    // What was said of the node before it granted this would have the replica leave at once.
    if (options_.nodes != nullptr)
      options_.nodes->serves(ready->started.actor.lease().node);
    const auto left = leaving_.find(start->replaces);
    const bool takes_place = left != leaving_.end() && !left->second.retired;
    // There may be fewer now than when it was begun, for the next version.
    if (!takes_place && dispatcher_->look().replicas.size() >= scaling_.limits().max_replicas) {
      starter_->kill(ready->started.actor);
      continue;
    }
    bring_in(*ready);
    if (takes_place) {
      left->second.retired = true;
      dispatcher_->retire(left->first);
    }
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
    if (!leaving.retired && scaling_.may_start(Clock::now()) && std::none_of(starts_.begin(), starts_.end(), is_its))
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
    end(id);
  }
}

// -- room for the next version --------------------------------------------------------------------

bool ReplicaSet::give_up_one(gpuactors::TimePoint until, const KeeperBell& stopped) {
  std::future<bool> has_ended;
  {
    const std::lock_guard lock{next_version_};
    giving_up_.emplace();
    giving_up_->until = until;
    giving_up_->since = Clock::now();
    has_ended = giving_up_->has_ended.get_future();
  }
  bell_->ring();
  while (has_ended.wait_for(100ms) != std::future_status::ready)
    if (stopped.stopped())
      return false;
  return has_ended.get();
}

void ReplicaSet::take_back() {
  const std::lock_guard lock{next_version_};
  taken_back_ = true;
  bell_->ring();
}

void ReplicaSet::give_up() {
  const std::lock_guard lock{next_version_};
  if (std::exchange(taken_back_, false) && before_ > 0) {
    scaling_.take_back(before_);
    before_ = 0;
  }
  if (!giving_up_)
    return;
  const auto answer = [this](bool has_ended) {
    giving_up_->has_ended.set_value(has_ended);
    giving_up_.reset();
  };
  if (giving_up_->id != 0) {
    if (!actors_.contains(giving_up_->id))
      answer(true);
    return;
  }
  const auto replicas = dispatcher_->look().replicas;
  if (before_ == 0)
    before_ = replicas.size();
  const auto stay = (before_ + 1) / 2;
  if (replicas.size() <= stay)
    return answer(false);
  scaling_.give_up_beyond(std::max(stay, giving_up_->left.value_or(replicas.size() - 1)));
  giving_up_->left = scaling_.limits().max_replicas;
  // A start that waits for a share would get the one that becomes free; it does not wait for long.
  if (!starts_.empty() && Clock::now() < giving_up_->since + 2 * needed_wait)
    return;
  const auto id = least_needed(replicas);
  if (!id)
    return answer(false);
  dispatcher_->retire(*id);
  leaving_[*id] = {true, giving_up_->until, fmt::format("replica {} has made room for the next version", *id)};
  giving_up_->id = *id;
}

std::optional<std::uint64_t> ReplicaSet::least_needed(const std::vector<batching::ReplicaLook>& replicas) const {
  // The one that has been idle for longest: one that keeps sequences counts as not idle. None of a node that gives
  // nothing to anybody.
  const auto key = [this](const batching::ReplicaLook& one) {
    return std::tuple{leaving_.contains(one.id), one.busy, one.idle_since};
  };
  const auto found =
      std::min_element(replicas.begin(), replicas.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
  if (found == replicas.end() || leaving_.contains(found->id))
    return std::nullopt;
  return found->id;
}

void ReplicaSet::ask_replicas(const batching::ScalingLook& look) {
  // One that dies while it has nothing to do is found before the next request needs it. A generative one answers
  // between its steps, too, and nothing else tells that it is stuck: its requests may take any time.
  if (Clock::now() < next_ask_)
    return;
  next_ask_ = Clock::now() + ask_every;
  const gpuactors::TraceScope scope{nobodys_trace};
  const auto generative = dispatcher_->facts().generative;
  for (const auto& [id, actor] : actors_) {
    // One that retires is none of those that are looked at, and may be stuck all the same.
    const auto idle = std::any_of(look.replicas.begin(), look.replicas.end(),
                                  [which = id](const auto& replica) { return replica.id == which && !replica.busy; });
    if (!idle && !generative)
      continue;
    auto& asked = asked_[id];
    if (asked == nullptr)
      asked = std::make_shared<std::atomic<bool>>(false);
    if (asked->exchange(true))
      continue;
    const Duration time = generative ? options_.longest_silence : Duration{description_deadline};
    auto answer = actor.call<wire::ReplicaDescription>(describe_method, google::protobuf::Empty{}, time);
    std::move(answer).then(
        [dispatcher = dispatcher_, generative, asked, id = id](Result<wire::ReplicaDescription> description) {
          *asked = false;
          if (description)
            dispatcher->set_memory(id, description->memory_used_bytes());
          else if (generative) {
            // Any other error is an answer: its thread is alive, and its texts are not to blame.
            const auto code = description.error().code();
            if (code == Errc::deadline_exceeded || ends_replica(code))
              dispatcher->lose(id, description.error());
          } else if (description.error().code() != Errc::deadline_exceeded) // it got a long batch meanwhile
            dispatcher->lose(id, {Errc::actor_died, "the replica has ended"});
        });
  }
}

// -- one replica ----------------------------------------------------------------------------------

Result<ReplicaSet::Ready> ReplicaSet::make_one(Duration queue_timeout) {
  GPUACTORS_LET(started, starter_->spawn(queue_timeout));
  return measure(std::move(started));
}

Result<ReplicaSet::Ready> ReplicaSet::measure(Started started) {
  const auto share = share_of(started.actor);
  auto description = check_description(started.actor);
  Result<void> warm;
  if (!description)
    warm = gpuactors::fail(description.error());
  else if (!dispatcher_->facts().generative) // to what is generated, no zeros are the beginning
    warm = warm_up(started.actor, share);
  if (!warm) {
    starter_->kill(started.actor);
    return gpuactors::fail(warm.error());
  }
  return Ready{std::move(started), share, description->memory_used_bytes()};
}

void ReplicaSet::bring_in(const Ready& ready) {
  const auto& [id, actor] = ready.started;
  actors_.emplace(id, actor);
  if (keeping_)
    note(fmt::format("replica {} serves, on node {}", id, actor.lease().node));
  const ReplicaFacts facts{id, ready.share, ready.memory_used_bytes};
  if (dispatcher_->facts().generative)
    return dispatcher_->add_generative(facts, stream_from(actor));
  // From its sending: those before it are part of it.
  const Duration time = options_.longest_silence * static_cast<int>(1 + options_.ahead);
  dispatcher_->add(facts, [calls = calls_, actor = actor, time](const Batch& batch, BatchDone done) {
    calls->call(actor, batch, time, std::move(done));
  });
}

Result<wire::ReplicaDescription> ReplicaSet::check_description(const ActorRef& actor) const {
  GPUACTORS_LET(description, starter_->describe(actor));
  GPUACTORS_TRY(check_same(dispatcher_->facts(), description));
  return description;
}

Result<void> ReplicaSet::warm_up(const ActorRef& actor, Share share) {
  const auto& facts = dispatcher_->facts();
  const auto most = dispatcher_->limits().max_batch;
  std::size_t widest = 0;
  for (const auto& input : facts.inputs)
    widest = std::max(widest, input.row_bytes);
  const std::vector<std::byte> zeros(most * widest); // texts of the length 0
  const auto run = [&](std::uint64_t rows, Duration patience) -> Result<Duration> {
    Batch batch;
    batch.rows = rows;
    for (const auto& input : facts.inputs)
      batch.inputs.push_back({std::span{zeros}.first(rows * input.row_bytes)});
    if (facts.has_sequences())
      batch.sequences.emplace_back().set_rows(static_cast<std::int64_t>(rows)); // in none
    const auto promise = std::make_shared<gpuactors::Promise<BatchReply>>();
    const auto start = Clock::now();
    calls_->call(actor, batch, patience, [promise](Result<BatchReply> reply) { promise->set(std::move(reply)); });
    auto reply = starter_->await(promise->future());
    const auto took = Clock::now() - start;
    if (!reply && bell_->stopped())
      return gpuactors::fail(reply.error());
    if (!reply)
      return gpuactors::fail(reply.error().code(),
                             fmt::format("{} does not answer a batch of {} rows of zeros{}: {}", facts.title, rows,
                                         facts.takes_texts ? " and empty texts" : "", reply.error().message()));
    GPUACTORS_TRY(check_reply(facts, rows, *reply));
    if (options_.numbers_only) {
      GPUACTORS_TRY(check_numbers(facts, *reply));
    }
    return took;
  };
  // The largest first: it pages in what all need, and it alone is done where sizes are known from others.
  GPUACTORS_TRY(run(most, std::max(options_.longest_silence, options_.start_timeout)));
  const auto until = Clock::now() + longest_measuring;
  for (std::uint64_t rows = 1;; rows = std::min(2 * rows, most)) {
    if (!dispatcher_->knows(share, rows)) {
      constexpr int rounds = 3;
      for (int i = 0; i < rounds && Clock::now() < until; ++i) {
        GPUACTORS_LET(took, run(rows, options_.longest_silence));
        dispatcher_->learn(share, rows, took);
      }
    }
    if (rows == most)
      return {};
  }
}

} // namespace serve
