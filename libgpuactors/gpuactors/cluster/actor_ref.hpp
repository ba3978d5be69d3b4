// ActorRef: a handle to an actor somewhere in the cluster, to call its methods by.
#pragma once

#include <gpuactors/cluster/pending.hpp>
#include <gpuactors/wire/protobuf.hpp>

#include <concepts>
#include <memory>
#include <string>
#include <string_view>

namespace gpuactors {

/// A streamed reply, item by item: messages, or payloads where their C++ type is not known. Movable; one thread at a
/// time. Dropping it before the end withdraws the call.
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

  /// Waits for the next item, at most `timeout`.
  /// @returns the item; nothing at the end; the error that ended the stream, or `deadline_exceeded` (ask again);
  ///          `invalid_argument` when the reader was moved from.
  Result<std::optional<T>> next(Duration timeout = limits::call_deadline) {
    if (source_ == nullptr)
      return fail(Errc::invalid_argument, "the stream reader was moved from");
    return source_->next(deadline_after(Clock::now(), timeout));
  }

  /// Asks the producer to stop; items that are under way can still be taken.
  void cancel() {
    if (source_ != nullptr)
      source_->stop();
  }

private:
  std::shared_ptr<detail::StreamSource<T>> source_;
};

/// A handle to an actor. Copyable, cheap; any thread. It follows the actor over restarts. Handles do not keep an actor
/// alive: `Cluster::kill` or the end of the cluster ends it.
class ActorRef {
public:
  ActorRef() = default;

  explicit ActorRef(std::shared_ptr<detail::ActorCell> cell) : cell_(std::move(cell)) {
    // nop
  }

  explicit operator bool() const noexcept {
    return cell_ != nullptr;
  }

  /// Zero and empty texts for an empty reference.
  [[nodiscard]] ActorId id() const noexcept;
  [[nodiscard]] const std::string& name() const noexcept;
  [[nodiscard]] const std::string& type() const noexcept;

  /// Node, devices, process and lease as of its last start; empty for an empty reference.
  [[nodiscard]] v1::ActorInfo info() const;

  /// Whether it has ended, as far as is known here; what had restarts left may be back later. Calls wait for that as
  /// long as their deadlines allow. False for an empty reference.
  [[nodiscard]] bool away() const noexcept;

  /// The CAF actor behind it, for CAF programs: send it `(std::string method, gpuactors::Payload)`, monitor it, link to
  /// it. It changes with a restart. Null for an empty reference and once the cluster has ended.
  [[nodiscard]] caf::actor handle() const;

  /// Calls `method`; the answer must come within `deadline`. The input is moved, not copied, if you give it so.
  ///
  /// Errors of the future: `not_found` (no such method, with the nearest names), `invalid_argument` (message types),
  /// `queue_full` (`max_pending_calls`), `deadline_exceeded`, `actor_died`, and what the method returns.
  template <ProtobufMessage Out = google::protobuf::Empty, ProtobufMessage In = google::protobuf::Empty>
  Future<Out> call(std::string_view method, In input = {}, Duration deadline = limits::call_deadline) const {
    auto state = std::make_shared<detail::WorkState<Out, detail::PendingCall>>();
    start(state, *state, method, Payload::of(std::move(input)), Out::descriptor(), deadline, false);
    return Future<Out>{std::move(state)};
  }

  /// The same with messages whose C++ types are not known here.
  [[nodiscard]] Future<Payload> call_payload(std::string_view method, Payload input,
                                             Duration deadline = limits::call_deadline) const;

  /// Calls a method whose reply is a stream of `Item`s. The deadline is that of the whole stream.
  template <ProtobufMessage Item, ProtobufMessage In = google::protobuf::Empty>
  [[nodiscard]] StreamReader<Item> stream(std::string_view method, In input = {},
                                          Duration deadline = Duration::max()) const {
    auto state = std::make_shared<detail::StreamState<Item, detail::PendingCall>>();
    start(state, method, Payload::of(std::move(input)), Item::descriptor(), deadline, true);
    return StreamReader<Item>{std::move(state)};
  }

  /// The same with messages whose C++ types are not known here.
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
