// ActorRef: a handle to an actor in the cluster, for calling its methods.
#pragma once

#include <gpuactors/actor/interface.hpp>
#include <gpuactors/actor/lease_info.hpp>
#include <gpuactors/cluster/pending.hpp>
#include <gpuactors/v1/actor.pb.h>
#include <gpuactors/v1/control.pb.h>
#include <gpuactors/wire/protobuf.hpp>

#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

namespace caf {
class actor;
} // namespace caf

namespace gpuactors {

namespace detail {
struct ActorCell;
} // namespace detail

/// How an actor ended for good.
struct ActorEnd {
  ActorId id;
  std::string name;
  std::string type;
  /// Why the actor ended: a code, and a sentence for people. `actor_died`: it was killed while it ran, or ended itself
  /// (with the reason given to `Actor::end`). `worker_died` or `lease_revoked`: its process, node or device was lost,
  /// with no restarts left. `cancelled`: it was ended before it was placed, or between two lives. The error of its
  /// constructor. `no_capacity`, `infeasible` and others, as `Cluster::spawn` returns them: it never got a place.
  /// `not_found`: the broker knows that it has ended, but not how.
  Error reason;
};

/// Reads a streamed reply item by item: messages, or payloads if their C++ type is not known. Movable; one thread at a
/// time. Destroying it before the end withdraws the call.
template <class T>
requires ProtobufMessage<T> || std::same_as<T, Payload>
class StreamReader {
public:
  explicit StreamReader(std::shared_ptr<detail::StreamSource<T>> source) : source_(std::move(source)) {
    // nop
  }

  StreamReader(StreamReader&&) noexcept = default;

  StreamReader& operator=(StreamReader&& other) noexcept {
    if (this != &other) {
      cancel();
      source_ = std::move(other.source_);
    }
    return *this;
  }

  ~StreamReader() {
    cancel();
  }

  /// Waits for the next item, at most `timeout`; by default until the stream's own deadline.
  /// @returns the item; nothing at the end; the error that ended the stream; `deadline_exceeded` after `timeout` (the
  ///          stream continues: call again); `invalid_argument` if the reader was moved from, or if an actor waits for
  ///          more than a second for a stream of itself, which is then withdrawn.
  Result<std::optional<T>> next(Duration timeout = Duration::max()) {
    if (source_ == nullptr)
      return fail(Errc::invalid_argument, "the stream reader was moved from");
    return source_->next(deadline_after(Clock::now(), timeout));
  }

  /// Returns whether `next` would return at once: an item or the end is there, or the reader was moved from.
  [[nodiscard]] bool ready() const {
    return source_ == nullptr || source_->ready();
  }

  /// Calls `function()` once, on the cluster's callback thread, as soon as `next` would not wait because an item or the
  /// end has arrived. To read many streams: call `next` while the reader is `ready`, then `when_ready` again unless
  /// `next` returned the end. A reader that waits to do so makes the producer wait. A new function replaces one that
  /// has not been called. The end always arrives, also when the reader is destroyed. After the cluster's end, the
  /// function runs on the thread that delivers the item or the end; for a moved-from reader, it runs at once.
  /// Exceptions are reported on standard error.
  template <std::invocable F>
  void when_ready(F function) {
    auto run = [kept = std::make_shared<F>(std::move(function))] {
      try {
        (*kept)();
      } catch (...) {
        detail::report_exception("StreamReader::when_ready");
      }
    };
    if (source_ != nullptr)
      source_->when_ready(std::move(run));
    else
      run();
  }

  /// Calls `function(T)` with each item until the end. `function` returns nothing, or a `Result<void>` whose error ends
  /// the reading.
  /// @param timeout how long to wait for each item; by default as long as the stream lasts.
  /// @returns the error that ended the stream, that of `function`, or `deadline_exceeded`.
  template <class F>
  Result<void> for_each(F function, Duration timeout = Duration::max()) {
    for (;;) {
      GPUACTORS_LET(item, next(timeout));
      if (!item)
        return {};
      if constexpr (std::is_void_v<std::invoke_result_t<F&, T>>)
        function(std::move(*item));
      else
        GPUACTORS_TRY(function(std::move(*item)));
    }
  }

  /// Asks the producer to stop; items already sent can still be read.
  void cancel() {
    if (source_ != nullptr)
      source_->stop();
  }

private:
  std::shared_ptr<detail::StreamSource<T>> source_;
};

/// A handle to an actor. Copyable, cheap; any thread. It follows the actor through restarts. Handles do not keep an
/// actor alive: `Cluster::kill`, the end of its program (unless detached) or of the cluster ends it.
class ActorRef {
public:
  ActorRef() = default;

  explicit ActorRef(std::shared_ptr<detail::ActorCell> cell) : cell_(std::move(cell)) {
    // nop
  }

  explicit operator bool() const noexcept {
    return cell_ != nullptr;
  }

  /// Return the actor's id, name and type; zero and empty strings for an empty reference.
  [[nodiscard]] ActorId id() const noexcept;
  [[nodiscard]] const std::string& name() const noexcept;
  [[nodiscard]] const std::string& type() const noexcept;

  /// Returns the reference as a message, for a field of the program's own messages: `*message.mutable_peer() =
  /// ref.to_message()`. A receiver in any process of the cluster finds the actor with `Cluster::find(message.peer())`.
  /// The message stays valid across restarts of the actor and of the broker, and does not keep the actor alive. For an
  /// empty reference, returns an empty message, which `find` refuses.
  [[nodiscard]] v1::ActorHandle to_message() const;

  /// Returns node, devices, process and lease as of the actor's last start; empty for an empty reference.
  [[nodiscard]] v1::ActorInfo info() const;

  /// Returns the lease of the actor's last start: its node, devices and shares. Empty for an empty reference.
  [[nodiscard]] LeaseInfo lease() const;

  /// Returns whether the actor's life that this program knows has ended. If restarts are left, the actor may return,
  /// and calls wait for that until their deadlines. False for an empty reference.
  [[nodiscard]] bool away() const noexcept;

  /// If the actor is `away`, asks the broker in the background where it lives now; when it has been found, `away` is
  /// false. Sends one request at a time, `limits::redial_longest` apart. Calls do this themselves. Any thread.
  void seek() const;

  /// Returns how many calls of this program the actor has not answered, including the one that it runs. 0 for an empty
  /// reference. Any thread.
  [[nodiscard]] std::size_t waiting_calls() const noexcept;

  /// Returns why the actor has ended for good, as `actor_died`, if this program has learnt it from a call or a wait;
  /// then spawn another one. Nothing while the actor lives or may live again, and for an empty reference. Any thread.
  [[nodiscard]] std::optional<Error> ended() const;

  /// Returns a future that is ready when the actor has ended for good, at once if it already has. The future survives
  /// restarts of the actor and the broker and lost connections, and does not keep the actor alive. Use its `then` to
  /// start a replacement; the function is kept until the end. All waits for one actor share one request. An actor must
  /// not wait for its own end in a method: it would be asked to end first, and the wait would not be fulfilled.
  ///
  /// Errors of the future: `unavailable` (the cluster was closed first), `cancelled`, `invalid_argument` (an empty
  /// reference), `unsupported` (the broker's release does not report ends), `queue_full` (too many requests of this
  /// client's name wait), `not_found` (the broker does not know the actor: it ended long ago or under an earlier
  /// broker, or belongs to another cluster). Any thread.
  [[nodiscard]] Future<ActorEnd> when_ended() const;

  /// Returns the CAF actor behind the handle, for CAF programs: include <gpuactors/wire/messages.hpp> to send it
  /// `(std::string method, gpuactors::Payload)`, monitor it or link to it. A restart changes it. Null for an empty
  /// reference and after the end of the cluster.
  [[nodiscard]] caf::actor handle() const;

  /// Calls `method`; the answer must arrive within `deadline`. Move the input in to avoid a copy.
  ///
  /// Errors of the future: `not_found` (no such method, with similar names), `invalid_argument` (message types; an
  /// actor that waits for a call of itself, see `Actor::after`), `queue_full` (`max_pending_calls`),
  /// `deadline_exceeded`, `actor_died`, `worker_died`, and the method's own errors.
  template <ProtobufMessage Out = google::protobuf::Empty, ProtobufMessage In = google::protobuf::Empty>
  Future<Out> call(std::string_view method, In input = {}, Duration deadline = limits::call_deadline) const {
    auto state = std::make_shared<detail::WorkState<Out, detail::PendingCall>>();
    start(state, *state, method, Payload::of(std::move(input)), descriptor_of<Out>(), deadline, false);
    return Future<Out>{std::move(state)};
  }

  /// Calls a method whose messages the compiler checks.
  template <ProtobufMessage In, ProtobufMessage Out>
  Future<Out> call(const Method<In, Out>& method, std::type_identity_t<In> input = {},
                   Duration deadline = limits::call_deadline) const {
    return call<Out, In>(method.name(), std::move(input), deadline);
  }

  /// Calls `method` like `call`, with messages whose C++ types this program does not know.
  [[nodiscard]] Future<Payload> call_payload(std::string_view method, Payload input,
                                             Duration deadline = limits::call_deadline) const;

  /// Calls a method whose reply is a stream of `Item`s. The deadline applies to the whole stream.
  template <ProtobufMessage Item, ProtobufMessage In = google::protobuf::Empty>
  [[nodiscard]] StreamReader<Item> stream(std::string_view method, In input = {},
                                          Duration deadline = Duration::max()) const {
    auto state = std::make_shared<detail::StreamState<Item, detail::PendingCall>>();
    start(state, method, Payload::of(std::move(input)), Item::descriptor(), deadline, true);
    return StreamReader<Item>{std::move(state)};
  }

  /// Calls a streaming method whose messages the compiler checks.
  template <ProtobufMessage In, ProtobufMessage Item>
  [[nodiscard]] StreamReader<Item> stream(const StreamMethod<In, Item>& method, std::type_identity_t<In> input = {},
                                          Duration deadline = Duration::max()) const {
    return stream<Item, In>(method.name(), std::move(input), deadline);
  }

  /// Calls a streaming method like `stream`, with messages whose C++ types this program does not know.
  [[nodiscard]] StreamReader<Payload> stream_payload(std::string_view method, Payload input,
                                                     Duration deadline = Duration::max()) const;

private:
  void start(const std::shared_ptr<detail::PendingCall>& call, detail::FutureCore& future, std::string_view method,
             Payload input, const google::protobuf::Descriptor* output, Duration deadline, bool stream) const;
  void start(const std::shared_ptr<detail::PendingCall>& call, std::string_view method, Payload input,
             const google::protobuf::Descriptor* output, Duration deadline, bool stream) const;

  std::shared_ptr<detail::ActorCell> cell_;
};

} // namespace gpuactors
