#include "replica_set.hpp"

#include <apps/serve/run_beside.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

namespace serve {

using gpuactors::ActorRef;
using gpuactors::Clock;
using gpuactors::Cluster;
using gpuactors::Duration;
using gpuactors::Errc;
using gpuactors::Result;
using gpuactors::Share;

using namespace std::chrono_literals;

namespace {

/// How long replicas after the first one may wait for their share before they are tried again: those that have to be
/// there, and those that are only wished for. Nothing else is done meanwhile.
constexpr auto needed_wait = 1s;
constexpr auto wished_wait = 100ms;

/// How long a batch may take before its replica counts as stuck, and how often idle ones are looked at.
constexpr auto longest_batch = 60s;
constexpr auto state_deadline = 10s;
constexpr auto ask_every = 1s;

/// How long the end of a replica is waited for.
constexpr auto longest_kill = 10s;

/// Pauses of the keeper: where the number of replicas may change, and where it does not.
constexpr auto look_often = 50ms;
constexpr auto look_seldom = 500ms;

/// How long new replicas are measured before they serve, at most.
constexpr auto longest_measuring = 2s;

template <class T>
bool are_numbers(std::string_view bytes) {
  for (; bytes.size() >= sizeof(T); bytes.remove_prefix(sizeof(T))) {
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    if (!std::isfinite(value))
      return false;
  }
  return true;
}

/// A network that has diverged in its training answers no numbers, to anybody.
Result<void> check_numbers(const ModelFacts& facts, const wire::BatchReply& reply) {
  if (facts.type == DataType::fp64 ? are_numbers<double>(reply.y()) : are_numbers<float>(reply.y()))
    return {};
  return gpuactors::fail(Errc::invalid_argument,
                         fmt::format("{} answers rows of zeros with what is no finite number: its training has "
                                     "diverged",
                                     facts.title));
}

Share share_of(const ActorRef& actor) {
  const auto lease = actor.lease();
  return lease.devices.empty() ? Share{} : lease.devices.front().share;
}

} // namespace

// -- bell -----------------------------------------------------------------------------------------

void KeeperBell::ring() {
  const std::lock_guard lock{mutex_};
  rung_ = true;
  wake_.notify_all();
}

void KeeperBell::stop() {
  const std::lock_guard lock{mutex_};
  stopped_ = true;
  wake_.notify_all();
}

bool KeeperBell::wait(Duration most) {
  std::unique_lock lock{mutex_};
  wake_.wait_for(lock, most, [this] { return rung_ || stopped_; });
  rung_ = false;
  return !stopped_;
}

bool KeeperBell::stopped() const {
  const std::lock_guard lock{mutex_};
  return stopped_;
}

// -- life -----------------------------------------------------------------------------------------

ReplicaSet::ReplicaSet(Cluster& cluster, std::shared_ptr<Dispatcher> dispatcher, std::shared_ptr<KeeperBell> bell,
                       ReplicaOptions options)
  : cluster_(cluster), dispatcher_(std::move(dispatcher)), bell_(std::move(bell)), options_(std::move(options)),
    scaling_(options_.scaling) {
  // nop
}

Result<std::unique_ptr<ReplicaSet>> ReplicaSet::start(Cluster& cluster, std::shared_ptr<Dispatcher> dispatcher,
                                                      std::shared_ptr<KeeperBell> bell, ReplicaOptions options) {
  const auto initial = options.initial;
  std::unique_ptr<ReplicaSet> set{new ReplicaSet{cluster, std::move(dispatcher), std::move(bell), std::move(options)}};
  for (std::size_t i = 0; i < initial; ++i)
    if (auto started = set->start_one(i == 0 ? set->options_.first_wait : Duration{needed_wait}); !started) {
      if (i == 0)
        return gpuactors::fail(started.error());
      set->scaling_.start_failed(Clock::now());
      break;
    }
  try {
    set->keeper_ = std::thread{[self = set.get()] { self->keep(); }};
  } catch (const std::system_error& error) {
    return gpuactors::fail(gpuactors::Errc::unavailable, fmt::format("a model has no thread: {}", error.what()));
  }
  return set;
}

ReplicaSet::~ReplicaSet() {
  stop();
}

void ReplicaSet::stop() {
  bell_->stop();
  if (keeper_.joinable())
    keeper_.join();
  std::vector<std::thread> ending;
  for (const auto& [id, actor] : actors_)
    ending.push_back(run_beside([this, actor = actor] { kill(actor); }));
  for (auto& thread : ending)
    if (thread.joinable())
      thread.join();
  actors_.clear();
}

void ReplicaSet::end(std::uint64_t id) {
  const auto actor = actors_.find(id);
  if (actor == actors_.end())
    return;
  kill(actor->second);
  actors_.erase(actor);
}

void ReplicaSet::kill(const ActorRef& actor) {
  // Whether it had ended by itself does not matter; one that is stuck, or whose broker is away, goes on ending.
  gpuactors::KillOptions options;
  options.timeout = longest_kill;
  (void)cluster_.kill(actor, options);
}

// -- the keeper -----------------------------------------------------------------------------------

void ReplicaSet::note(const std::string& what) const {
  options_.notice(fmt::format("{}: {}", dispatcher_->facts().title, what));
}

void ReplicaSet::keep() {
  keeping_ = true;
  const auto changes = options_.scaling.min_replicas < options_.scaling.max_replicas;
  while (bell_->wait(changes ? look_often : look_seldom))
    look_around();
}

void ReplicaSet::look_around() {
  for (const auto& lost : dispatcher_->take_lost()) {
    note(fmt::format("replica {} was lost: {}", lost.id, lost.why));
    end(lost.id);
  }
  const auto look = dispatcher_->look();
  const auto step = scaling_.decide(Clock::now(), look);
  const auto needed = look.replicas.size() < options_.scaling.min_replicas;
  for (std::size_t i = 0; i < step.start; ++i) {
    const auto started = start_one(needed ? Duration{needed_wait} : Duration{wished_wait});
    if (started) {
      scaling_.start_succeeded();
      last_failure_.clear();
      continue;
    }
    scaling_.start_failed(Clock::now());
    const auto why = to_string(started.error());
    if (needed && !bell_->stopped() && why != last_failure_)
      note(fmt::format("a replica that is missing could not be started, and is tried again: {}", why));
    last_failure_ = why;
    break;
  }
  if (step.stop && dispatcher_->remove_idle(*step.stop)) {
    note(fmt::format("replica {} has nothing to do and ends", *step.stop));
    end(*step.stop);
  }
  ask_idle_ones(look);
}

void ReplicaSet::ask_idle_ones(const batching::ScalingLook& look) {
  // One that dies while it has nothing to do is found before the next request needs it.
  if (Clock::now() < next_ask_)
    return;
  next_ask_ = Clock::now() + ask_every;
  for (const auto& replica : look.replicas) {
    const auto actor = actors_.find(replica.id);
    if (replica.busy || actor == actors_.end())
      continue;
    auto answer = actor->second.call<wire::ReplicaState>(state_method, wire::AskState{}, state_deadline);
    std::move(answer).then([dispatcher = dispatcher_, id = replica.id](Result<wire::ReplicaState> state) {
      if (state)
        dispatcher->set_memory(id, state->memory_used_bytes());
      else if (state.error().code() != Errc::deadline_exceeded) // it got a long batch meanwhile
        dispatcher->lose(id);
    });
  }
}

// -- one replica ----------------------------------------------------------------------------------

template <class T>
Result<T> ReplicaSet::await(gpuactors::Future<T> coming) const {
  // A broker that is away does not answer, nor does a replica that is stuck: the end must not wait for them.
  constexpr auto step = 100ms;
  for (;;) {
    auto answer = coming.get(step);
    if (!coming.valid())
      return answer;
    if (bell_->stopped()) {
      coming.cancel();
      return gpuactors::fail(Errc::unavailable, "the server ends");
    }
  }
}

Result<ActorRef> ReplicaSet::spawn(Duration queue_timeout) {
  auto resources = options_.resources;
  resources.queue_timeout = queue_timeout;
  const auto& facts = dispatcher_->facts();
  // Another server of this cluster may have a model of this name.
  constexpr int most_names = 1'000;
  for (int i = 0;; ++i) {
    resources.name = fmt::format("{}/{}/{}", facts.name, facts.version, ++last_id_);
    auto actor = await(cluster_.spawn_async(options_.type, options_.config, resources));
    if (actor || actor.error().code() != Errc::already_exists || i == most_names)
      return actor;
  }
}

Result<void> ReplicaSet::start_one(Duration queue_timeout) {
  GPUACTORS_LET(actor, spawn(queue_timeout));
  const auto id = last_id_;
  actors_.emplace(id, actor);
  const auto share = share_of(actor);
  auto state = await(actor.call<wire::ReplicaState>(state_method, wire::AskState{}));
  auto warm = state ? warm_up(actor, share) : Result<void>{gpuactors::fail(state.error())};
  if (!warm) {
    end(id);
    return warm;
  }
  if (keeping_)
    note(fmt::format("replica {} serves, on node {}", id, actor.lease().node));
  dispatcher_->add({id, share, state->memory_used_bytes()}, [actor](wire::Batch batch, BatchDone done) {
    actor.call<wire::BatchReply>(infer_method, std::move(batch), longest_batch).then(std::move(done));
  });
  return {};
}

Result<void> ReplicaSet::warm_up(const ActorRef& actor, Share share) {
  const auto& facts = dispatcher_->facts();
  const auto most = dispatcher_->limits().max_batch;
  const auto run = [&](std::uint64_t rows) -> Result<Duration> {
    wire::Batch batch;
    batch.set_rows(static_cast<std::int64_t>(rows));
    batch.mutable_x()->resize(rows * facts.row_in_bytes);
    const auto start = Clock::now();
    GPUACTORS_LET(reply, await(actor.call<wire::BatchReply>(infer_method, std::move(batch), longest_batch)));
    const auto took = Clock::now() - start;
    GPUACTORS_TRY(check_numbers(facts, reply));
    return took;
  };
  // The largest first: it pages in what all need, and it alone is done where sizes are known from others.
  GPUACTORS_TRY(run(most));
  const auto until = Clock::now() + longest_measuring;
  for (std::uint64_t rows = 1;; rows = std::min(2 * rows, most)) {
    if (!dispatcher_->knows(share, rows)) {
      constexpr int rounds = 3;
      for (int i = 0; i < rounds && Clock::now() < until; ++i) {
        GPUACTORS_LET(took, run(rows));
        dispatcher_->learn(share, rows, took);
      }
    }
    if (rows == most)
      return {};
  }
}

} // namespace serve
