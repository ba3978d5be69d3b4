// The requests of one version of a model on their way to its replicas and back.
#pragma once

#include "batch.hpp"
#include "batch_trace.hpp"
#include "generation.hpp"
#include "histogram.hpp"
#include "model_facts.hpp"
#include "pending.hpp"

#include <apps/serve/batching/absence.hpp>
#include <apps/serve/batching/batch_queue.hpp>
#include <apps/serve/batching/scaling.hpp>
#include <apps/serve/batching/sequences.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace serve {

/// What is known of a replica while it serves.
struct ReplicaFacts {
  std::uint64_t id = 0;
  gpuactors::Share share;
  std::uint64_t memory_used_bytes = 0;
};

/// One that does not serve any more, and what was noticed of it.
struct LostReplica {
  std::uint64_t id = 0;
  std::string why;
};

struct DispatcherOptions {
  ModelFacts facts;
  batching::QueueLimits limits;
  /// Batches that may wait at a replica behind the one that runs.
  std::size_t ahead = 0;
  /// Requests that a replica of a generative model runs at once.
  std::size_t max_running = 1;
  /// Fills replicas of a generative model to a half before it gives the next one anything, and all to a half with
  /// sequences, so that those that are not needed stay idle and can go.
  bool fills = false;
  /// For models with sequences.
  batching::SequenceLimits sequences = {};
  /// How many replicas there should be at least.
  std::size_t wanted_replicas = 1;
  /// How long requests wait for a replica, where none serves, from the first start on that has failed: see
  /// `batching::Absence`.
  gpuactors::Duration replica_wait = std::chrono::seconds{30};
};

/// Whether the error of a call to a replica says that it is gone. A deadline is the call's own.
[[nodiscard]] bool ends_replica(gpuactors::Errc code) noexcept;

/// What happened so far, as of one moment.
struct DispatcherSnapshot {
  ModelStatistics statistics;
  batching::QueueCounts counts;
  std::vector<ReplicaFacts> replicas;
  /// Replicas that were lost since the start, starts that failed, and how many there should be at least.
  std::uint64_t lost = 0;
  std::uint64_t failed_starts = 0;
  std::size_t wanted_replicas = 1;
  /// Requests that were refused since there was no replica, and none to wait for.
  std::uint64_t refused_without_replica = 0;
  std::uint64_t max_batch = 0;
  Latencies latencies;
  bool generative = false;
  /// Requests at replicas, and items that went to clients.
  std::uint64_t running = 0;
  std::uint64_t items = 0;
  /// None where the model has no sequences.
  std::optional<std::uint64_t> sequences;
};

/// A queue of requests, and the replicas that take batches from it, the least loaded first.
///
/// All members from any thread. Answers come on the threads of callers, of replicas' replies, or on a thread of its own
/// which fires timeouts when they are due. Every request is answered once, whatever becomes of the replicas: a batch
/// whose replica is lost waits again at its old place. In a generative model each request is a batch of its own, of
/// which a replica has several at once. Requests of a sequence go one by one, in order, to the replica that has what
/// they build on. Where no replica serves, requests wait for one as long as it makes sense (`batching::Absence`).
class Dispatcher : public std::enable_shared_from_this<Dispatcher> {
public:
  /// @param replicas_changed  called without a lock when a replica was lost.
  static gpuactors::Result<std::shared_ptr<Dispatcher>> start(DispatcherOptions options,
                                                              std::function<void()> replicas_changed);

  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;
  /// Closes.
  ~Dispatcher();

  // -- requests --------------------------------------------------------------------------------

  /// Takes over a request whose size fits, and answers it. @returns false, without an answer, after `close` began.
  bool submit(const std::shared_ptr<Pending>& pending);

  /// The client has gone: answers with `cancelled`, unless it is answered.
  void cancel(Pending& pending);

  // -- replicas --------------------------------------------------------------------------------

  void add(ReplicaFacts replica, RunBatch run);
  void add_generative(ReplicaFacts replica, RunStream run);

  /// Has a replica get nothing more, save what belongs to the state that it keeps: `remove_idle` can take it out then.
  void retire(std::uint64_t id);

  /// Takes a replica out. @returns false when it is busy, has sequences, or is not here.
  bool remove_idle(std::uint64_t id);

  /// A replica was found dead, or stuck, not by an answer to a request; what it has goes to others.
  void lose(std::uint64_t id, const gpuactors::Error& why);

  /// Takes out a replica that is to end although it is busy: as `lose`, but nobody is to blame.
  void take_out(std::uint64_t id, const gpuactors::Error& why);

  /// A start of a replica is on its way, until it is over: for those that wait where none serves. Starts are told apart
  /// by when they began.
  void note_start(gpuactors::TimePoint began);
  void note_start_over(gpuactors::TimePoint began);

  /// A start of a replica has failed, and why.
  void note_failed_start(const gpuactors::Error& why);

  /// Takes nothing new until `open`, save what builds on state that is here; what was accepted goes on as long as a
  /// replica serves. @param why  what those are told that are refused.
  void refuse_new(std::string why);
  /// Takes requests again.
  void open();

  /// Those that were lost since the last call.
  std::vector<LostReplica> take_lost();

  void set_memory(std::uint64_t id, std::uint64_t used_bytes);

  /// Learns how long a batch took outside of the service of requests.
  void learn(gpuactors::Share share, std::uint64_t rows, gpuactors::Duration took);
  [[nodiscard]] bool knows(gpuactors::Share share, std::uint64_t rows) const;

  [[nodiscard]] batching::ScalingLook look();
  /// How many serve; those that retire do not count, here and in `snapshot`.
  [[nodiscard]] std::size_t replicas() const;

  /// Whether requests are taken, and a replica serves them.
  [[nodiscard]] bool serves() const;

  /// Why not: "it has no replica: ...", with what the last start failed with, or how the last one was lost. Empty while
  /// it serves.
  [[nodiscard]] std::string why_not() const;

  // -- streams of generative models, told by `Generation` ----------------------------------------

  /// An item of a flight is about to go to the client. @returns false if the request is not that flight's any more.
  bool delivers(Pending& pending, std::uint64_t flight);

  /// A stream has ended as it should. @returns false if the request was not that flight's any more.
  bool stream_ended(const std::shared_ptr<Pending>& pending, std::uint64_t flight);

  /// A stream has ended with an error: of the request, or of the replica.
  void stream_failed(const std::shared_ptr<Pending>& pending, std::uint64_t flight, const gpuactors::Error& error);

  // -- state -----------------------------------------------------------------------------------

  [[nodiscard]] DispatcherSnapshot snapshot() const;

  [[nodiscard]] const ModelFacts& facts() const noexcept {
    return options_.facts;
  }

  [[nodiscard]] const batching::QueueLimits& limits() const noexcept {
    return options_.limits;
  }

  [[nodiscard]] std::size_t max_running() const noexcept {
    return options_.max_running;
  }

  /// Whether a request of that sequence builds on state that is here, and is taken, also while `close` waits for it.
  [[nodiscard]] bool continues(std::string_view sequence) const;

  /// Whether there is a sequence of that name, with state or a cache.
  [[nodiscard]] bool has_sequence(std::string_view sequence) const;

  /// Takes no more requests, waits until all are answered or `until`, and fails the rest with `unavailable`.
  /// Idempotent.
  /// @param sequences_end  Waits for the ends of sequences with state, too, and still takes their requests.
  void close(gpuactors::TimePoint until, bool sequences_end = false);

  /// A sequence has been started anew elsewhere, and ends with the requests that are here.
  void end_sequence(std::string_view sequence);

  /// No `close` waits for the ends of sequences, from now on.
  void drop_sequences();

private:
  /// A batch at a replica.
  struct Flight {
    std::vector<batching::RequestPtr> members;
    std::uint64_t rows = 0;
    gpuactors::TimePoint start;
    BatchTrace trace;
  };

  struct Replica {
    ReplicaFacts facts;
    /// One of the two.
    std::shared_ptr<const RunBatch> run;
    std::shared_ptr<const RunStream> stream;
    std::map<std::uint64_t, Flight> flights;
    /// When it will be done with its batches, by the table; since when it has been idle, without any.
    gpuactors::TimePoint free_at;
    gpuactors::TimePoint idle_since;
    /// It is about to end: it gets nothing but what belongs to the state that it keeps.
    bool leaving = false;
  };

  /// A batch at a replica, for its reply, without what it carries: a reply may come late, or never.
  struct Sent {
    std::uint64_t replica = 0;
    std::uint64_t flight = 0;
    std::uint64_t rows = 0;
    /// Of each member.
    std::vector<std::uint64_t> member_rows;
  };

  /// A reply that fits its batch; of outputs with texts, the bytes of each member, since no row says where they are.
  struct CheckedReply {
    BatchReply reply;
    std::vector<std::vector<std::span<const std::byte>>> texts;
  };

  /// What is done without the lock.
  struct Launch {
    std::shared_ptr<const RunBatch> run;
    std::shared_ptr<const RunStream> stream;
    std::uint64_t replica = 0;
    std::uint64_t flight = 0;
    std::uint64_t rows = 0;
    std::vector<batching::RequestPtr> members;
    /// What the call is a part of.
    gpuactors::TraceContext trace;
  };
  struct Answer {
    Answer(std::shared_ptr<Pending> whose, gpuactors::Result<InferReply> what)
      : pending(std::move(whose)), result(std::move(what)) {
      // nop
    }

    std::shared_ptr<Pending> pending;
    gpuactors::Result<InferReply> result;
  };
  struct Actions {
    std::vector<Launch> launches;
    std::vector<Answer> answers;
    bool replicas_changed = false;
  };

  Dispatcher(DispatcherOptions options, std::function<void()> replicas_changed);

  void run_timer();
  void landed(const Sent& batch, gpuactors::Result<BatchReply> reply);
  void act(Actions actions);
  /// Sends what goes to replicas in the order of its flights; one thread at a time does that, for all.
  void launch_in_order();
  void launch(const Launch& launch);
  /// Looks at every text of a reply: without the lock.
  [[nodiscard]] gpuactors::Result<CheckedReply> check(const Sent& batch, BatchReply reply) const;
  void launch_stream(const Launch& launch);
  void add(ReplicaFacts facts, std::shared_ptr<const RunBatch> run, std::shared_ptr<const RunStream> stream);
  /// A replica goes, with what it has: it died, or is to end.
  void part_with(std::uint64_t id, const gpuactors::Error& why, bool died);

  // With the lock.
  void pump(gpuactors::TimePoint now, Actions& actions);
  /// Sends a batch to a replica that has room. @returns false where there is none, or no request for it: then nothing
  /// has changed that another try would find.
  bool send_next(gpuactors::TimePoint now, Actions& actions);
  bool begin_batch(Replica& replica, const batching::BatchQueue::Filter& may_go, gpuactors::TimePoint now,
                   Actions& actions);
  [[nodiscard]] std::size_t most_flights() const;
  [[nodiscard]] bool has_room(const Replica& replica) const;
  /// Whether its batches take more than twice as long as was expected: it may be stuck, and what would be sent to it
  /// now would be stuck behind them.
  [[nodiscard]] bool is_late(const Replica& replica, gpuactors::TimePoint now) const;
  [[nodiscard]] bool is_in_flight(const Launch& launch) const;
  std::vector<Replica*> with_room(gpuactors::TimePoint now);
  [[nodiscard]] bool may_go(const batching::Request& request, const Replica& replica, gpuactors::TimePoint now) const;
  /// Whether a request may go to a replica that has nothing of its sequence.
  [[nodiscard]] bool may_go_anywhere(const batching::Request& request) const;
  /// So many sequences are no reason to begin another one elsewhere, where replicas come and go.
  [[nodiscard]] std::size_t few_sequences() const;
  /// To the queue, and to its sequence. What is refused has changed nothing.
  gpuactors::Result<void> admit(const std::shared_ptr<Pending>& pending, gpuactors::TimePoint now);
  /// A request was answered, or failed; with it fail those of its sequence that build on it.
  void leave_sequence(batching::Request& request, bool answered, gpuactors::TimePoint now, Actions& actions);
  [[nodiscard]] bool has_state(std::string_view sequence, gpuactors::TimePoint now) const;
  /// Nothing is left to do.
  bool is_drained(gpuactors::TimePoint now);
  /// Fails the requests that need what a replica had.
  void lose_sequences(std::uint64_t replica, const gpuactors::Error& error, gpuactors::TimePoint now, Actions& actions);
  void put_back(const batching::RequestPtr& request);
  void answer_batch(Flight& flight, const CheckedReply& reply, gpuactors::TimePoint now, Actions& actions);
  void fail_batch(const Flight& flight, const gpuactors::Error& error, gpuactors::TimePoint now, Actions& actions);
  /// The reply was larger than a message: of the size that the text says.
  void fail_large(const Flight& flight, std::string_view size, gpuactors::TimePoint now, Actions& actions);
  /// The state that a request has left cannot be built on.
  void spoil_sequence(batching::Request& request, gpuactors::TimePoint now, Actions& actions);
  /// @param flight  the one whose error this is; 0: none.
  void lose(Replica& replica, const gpuactors::Error& error, gpuactors::TimePoint now, Actions& actions,
            std::uint64_t flight = 0);
  /// What a replica has goes to others, or fails.
  /// @param died  counts for the requests that were at it, but for those of a flight that had not begun; 0: none.
  void empty(Replica& replica, const gpuactors::Error& error, bool died, gpuactors::TimePoint now, Actions& actions,
             std::uint64_t not_begun = 0);
  void fail(const batching::RequestPtr& request, gpuactors::Error error, const char* reason, gpuactors::TimePoint now,
            Actions& actions);
  void lose_stream(const batching::RequestPtr& request, const gpuactors::Error& error, bool died,
                   gpuactors::TimePoint now, Actions& actions);
  /// The request is not its replica's any more.
  void leave_replica(Pending& pending, gpuactors::TimePoint now);
  bool send_in_sequences(gpuactors::TimePoint now, Actions& actions);
  Replica* least_loaded(gpuactors::TimePoint now);
  /// When its next batch begins, as far as its times are known.
  [[nodiscard]] static gpuactors::TimePoint begins_at(const Replica& replica, gpuactors::TimePoint now);
  /// What a replica with less of it is chosen by.
  using Load = std::pair<gpuactors::TimePoint, std::size_t>;
  [[nodiscard]] Load load_of(const Replica& replica, gpuactors::TimePoint now) const;
  /// Until when requests that were lost with a replica wait for one of them that runs.
  [[nodiscard]] gpuactors::TimePoint suspected_until() const;
  [[nodiscard]] batching::Capacity capacity(gpuactors::TimePoint now) const;
  void wake_timer();
  /// When the timer has something to do.
  [[nodiscard]] gpuactors::TimePoint wakes_at() const;
  void note_drained();

  // With the lock, where no replica serves (dispatcher_absence.cpp).
  [[nodiscard]] bool has_serving() const;
  /// The last replica that served may have gone; why, if so.
  void note_gone(const std::string& why);
  /// Whether nobody is to wait for a replica.
  [[nodiscard]] bool is_hopeless(gpuactors::TimePoint now);
  /// Whether a request is not even to wait.
  [[nodiscard]] bool is_refused(const Pending& pending, gpuactors::TimePoint now);
  [[nodiscard]] gpuactors::Error cannot_serve() const;
  /// Fails those that wait for a replica.
  void give_up_waiting(gpuactors::TimePoint now, Actions& actions);
  /// What a request is told that is due.
  [[nodiscard]] gpuactors::Error overdue(const batching::Request& request, gpuactors::TimePoint now) const;

  const DispatcherOptions options_;
  const std::function<void()> replicas_changed_;

  mutable std::mutex mutex_;
  // Guarded by the mutex.
  batching::BatchTimes times_;
  batching::BatchQueue queue_;
  batching::Sequences sequences_;
  batching::Absence absence_;
  std::map<std::uint64_t, Replica> replicas_;
  std::vector<LostReplica> lost_;
  std::uint64_t lost_count_ = 0;
  std::uint64_t failed_starts_ = 0;
  std::uint64_t refused_without_replica_ = 0;
  std::uint64_t last_flight_ = 0;
  /// What goes to replicas, where the order matters; whether a thread sends it.
  std::deque<Launch> launches_;
  bool launching_ = false;
  ModelStatistics statistics_;
  Latencies latencies_;
  std::uint64_t items_ = 0;
  /// When a batch that is held back goes; what the timer sleeps until.
  gpuactors::TimePoint ask_again_ = gpuactors::never;
  gpuactors::TimePoint timer_until_ = gpuactors::never;
  bool closing_ = false;
  /// While it closes, sequences go on.
  bool sequences_go_on_ = false;
  bool sequences_dropped_ = false;
  bool stopping_ = false;
  std::condition_variable timer_wake_;
  std::condition_variable drained_;

  std::mutex join_mutex_;
  std::thread timer_;
};

} // namespace serve
