// One replica of a set: how it is looked at and measured before it serves, and asked whether it lives while it does.
#include "actor_stream.hpp"
#include "replica_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace serve {

using gpuactors::ActorRef;
using gpuactors::Clock;
using gpuactors::Duration;
using gpuactors::Errc;
using gpuactors::Result;
using gpuactors::Share;

using namespace std::chrono_literals;

namespace {

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

/// How long new replicas are measured before they serve, at most.
constexpr auto longest_measuring = 2s;

/// What is asked every now and then is a part of no request, and would begin a trace each time: this one is not
/// recorded, unless the sampler records whatever it sees.
constexpr gpuactors::TraceContext nobodys_trace{~std::uint64_t{0}, ~std::uint64_t{0}, ~std::uint64_t{0}, false};

/// How long an idle replica may take to say what it is, and how often replicas are asked that.
constexpr auto description_deadline = 10s;
constexpr auto ask_every = 1s;

} // namespace

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
  auto ready = measure(started);
  if (!ready)
    starter_->kill({started.actor});
  return ready;
}

Result<ReplicaSet::Ready> ReplicaSet::measure(const Started& started) {
  const auto share = share_of(started.actor);
  GPUACTORS_LET(description, check_description(started.actor));
  if (!dispatcher_->facts().generative) { // to what is generated, no zeros are the beginning
    GPUACTORS_TRY(warm_up(started.actor, share));
  }
  return Ready{started, share, description.memory_used_bytes()};
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
  // The largest first: it pages in what all need.
  GPUACTORS_TRY(run(most, std::max(options_.longest_silence, options_.start_timeout)));
  const auto until = Clock::now() + longest_measuring;
  for (std::uint64_t rows = 1;; rows = std::min(2 * rows, most)) {
    // Once for what the first batch of a size has to prepare, which says nothing about the next ones.
    if (rows < most && Clock::now() < until) {
      GPUACTORS_TRY(run(rows, options_.longest_silence));
    }
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
