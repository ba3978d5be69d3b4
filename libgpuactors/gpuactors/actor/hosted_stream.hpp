// HostedStream: the stream of a call that came as a CAF message and stays open when its method has returned. Internal
// to the layer.
#pragma once

#include <gpuactors/actor/open_stream.hpp>
#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/wire/messages.hpp>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace gpuactors::detail {

/// Adds what a reader grants to the `credit` of its stream, but not more than it can owe: with what is on its way to
/// the reader, the credit is `limits::stream_window` at most.
/// @returns how many of the items count.
inline std::uint32_t grant_credit(std::uint32_t& credit, std::uint32_t items) noexcept {
  items = std::min(items, limits::stream_window - std::min(credit, limits::stream_window));
  credit += items;
  return items;
}

/// Where the items and the answer of a call go.
struct StreamWay {
  CallId call;
  TimePoint deadline = never;
  /// Both any thread.
  std::function<void(StreamItem)> send;
  std::function<void(Result<Payload>)> reply;
  std::function<bool()> reader_is_there;
  /// What callers get when the actor has ended before its answer.
  std::function<Error()> why_ended;
};

/// Any thread. Answers the call once: behind its last item, or when nobody reads it any more.
class HostedStream final : public KeptStream {
public:
  explicit HostedStream(StreamWay way) : way_(std::move(way)) {
    // nop
  }

  Result<void> write(Payload item) override;
  void finish(Result<void> end) override;
  void drop() noexcept override;
  [[nodiscard]] bool stop_requested() const override;
  [[nodiscard]] std::size_t waiting() const override;

  /// A future of the method will end the stream, whoever drops it.
  void promise_end();

  /// The method that has kept the stream has returned: with an error, that is the end.
  void method_returned(const Result<Payload>& answer);

  /// Begins with the credit that the call has left of `limits::stream_window`.
  void begin(std::uint32_t left);

  /// The reader has taken `items`, and has room for as many more.
  void credit(std::uint32_t items);

  /// The call was cancelled, its reader is gone, or its actor ends. Idempotent.
  void withdraw();

  /// Has `function` called once if the call is withdrawn; at once if it was.
  void on_withdraw(std::function<void()> function);

  /// Withdraws the call if its reader is gone. To be called now and then.
  void look();

private:
  [[nodiscard]] bool is_late() const {
    return way_.deadline != never && Clock::now() >= way_.deadline;
  }
  [[nodiscard]] bool has_room() const {
    return credits_ > 0 && on_way_bytes_ < limits::stream_window_bytes;
  }
  void send(Payload item, std::size_t bytes);
  /// With the lock, which it gives back before it answers.
  void answer(std::unique_lock<std::mutex> lock);

  const StreamWay way_;
  mutable std::mutex mutex_;
  // Guarded by the mutex.
  std::uint32_t credits_ = 0;
  /// Items that the reader has not taken: those that the method sent before it kept the stream, and the sizes of later
  /// ones.
  std::int64_t on_way_before_ = 0;
  std::deque<std::size_t> on_way_;
  std::size_t on_way_bytes_ = 0;
  std::deque<std::pair<Payload, std::size_t>> waiting_;
  std::size_t waiting_bytes_ = 0;
  std::optional<Result<void>> end_;
  /// The method that has kept the stream runs; its owner dropped it meanwhile; somebody else will end it.
  bool in_method_ = true;
  bool dropped_ = false;
  bool promised_ = false;
  bool answered_ = false;
  bool withdrawn_ = false;
  std::vector<std::function<void()>> withdrawals_;
};

} // namespace gpuactors::detail
