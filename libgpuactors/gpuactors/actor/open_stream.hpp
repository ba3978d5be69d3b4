// OpenStream: a streamed reply that stays open when its method has returned. With it, one actor answers many callers at
// once, piece by piece: it generates for all of its requests together, or reports events to its watchers.
//
//   gpuactors::Result<void> Chat::generate(const Prompt& prompt, gpuactors::ReplyStream<Piece>& out) {
//     GPUACTORS_LET(reply, out.keep());
//     running_.push_back({prompt, std::move(reply)});
//     if (running_.size() == 1)
//       post([this] { step(); }); // one piece for each of `running_`, and posts itself again while there are any
//     return {};
//   }
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/wire/payload.hpp>

#include <cstddef>
#include <memory>
#include <utility>

namespace gpuactors {

namespace detail {

/// The call that an `OpenStream` writes to. Any thread.
class KeptStream {
public:
  KeptStream() = default;
  KeptStream(const KeptStream&) = delete;
  KeptStream& operator=(const KeptStream&) = delete;
  virtual ~KeptStream() = default;

  virtual Result<void> write(Payload item) = 0;
  /// Ends the stream; only the first end counts.
  virtual void finish(Result<void> end) = 0;
  /// Ends the stream because its owner is gone.
  virtual void drop() noexcept = 0;
  [[nodiscard]] virtual bool stop_requested() const = 0;
  [[nodiscard]] virtual std::size_t waiting() const = 0;
};

} // namespace detail

/// The producing end of a streamed reply that stays open after its method (`ReplyStream::keep`). Items reach the caller
/// in order, before the end. Movable; any thread, one at a time. Destroying it unfinished ends the stream with
/// `task_failed` or, inside the method that kept it, with the error that this method returns, if any. If the actor
/// ends, the caller gets `actor_died`. After an orderly end, the caller has all items.
///
/// No member waits. Items for which the caller has no room (`limits::stream_window` unread items) are queued here, up
/// to `limits::open_stream_bytes`.
template <ProtobufMessage T>
class OpenStream {
public:
  explicit OpenStream(std::shared_ptr<detail::KeptStream> stream) : stream_(std::move(stream)) {
    // nop
  }

  OpenStream(OpenStream&&) noexcept = default;

  OpenStream& operator=(OpenStream&& other) noexcept {
    if (this != &other) {
      drop();
      stream_ = std::move(other.stream_);
    }
    return *this;
  }

  OpenStream(const OpenStream&) = delete;
  OpenStream& operator=(const OpenStream&) = delete;

  ~OpenStream() {
    drop();
  }

  /// Sends `item`, or queues it until the caller has room.
  /// @returns `cancelled` if the caller withdrew or is gone, or the actor is ending; `deadline_exceeded` after the
  ///          call's deadline; `queue_full` if the queue has no room for `item`: the caller reads too slowly, so write
  ///          later or finish with this error; `invalid_argument` if the item is too large, or the stream was finished
  ///          or moved from.
  Result<void> write(T item) {
    if (stream_ == nullptr)
      return fail(Errc::invalid_argument, "the stream was finished before, or moved from");
    return stream_->write(Payload::of(std::move(item)));
  }

  /// Ends the stream in order, after the items written so far.
  void finish() {
    end({});
  }

  /// Ends the stream with `error` at once, and drops queued items.
  void finish(Error error) {
    end(fail(std::move(error)));
  }

  /// Returns whether nobody waits for items any more: the caller withdrew or is gone, the call's deadline has passed,
  /// or the actor is ending; also after the end. Cheap.
  [[nodiscard]] bool stop_requested() const {
    return stream_ == nullptr || stream_->stop_requested();
  }

  /// Returns how many items are queued until the caller has room, so that the producer may pause.
  [[nodiscard]] std::size_t waiting() const {
    return stream_ != nullptr ? stream_->waiting() : 0;
  }

private:
  void end(Result<void> result) {
    if (const auto stream = std::exchange(stream_, nullptr))
      stream->finish(std::move(result));
  }

  void drop() noexcept {
    if (const auto stream = std::exchange(stream_, nullptr))
      stream->drop();
  }

  std::shared_ptr<detail::KeptStream> stream_;
};

} // namespace gpuactors
