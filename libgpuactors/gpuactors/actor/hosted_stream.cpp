#include <gpuactors/actor/hosted_stream.hpp>
#include <gpuactors/base/units.hpp>
#include <gpuactors/wire/protobuf.hpp>

#include <fmt/format.h>

namespace gpuactors::detail {

namespace {

Failure late() {
  return fail(Errc::deadline_exceeded, "the call's deadline has passed");
}

} // namespace

Result<void> HostedStream::write(Payload item) {
  GPUACTORS_TRY(item.check_size());
  const std::lock_guard lock{mutex_};
  if (end_)
    return fail(Errc::invalid_argument, "the stream was finished before");
  if (withdrawn_ || !way_.reader_is_there())
    return fail(Errc::cancelled, "the caller does not want more items or is gone, or this holder is ending");
  if (is_late())
    return late();
  const auto bytes = item.wire_size();
  if (waiting_.empty() && has_room()) {
    send(std::move(item), bytes);
    return {};
  }
  if (waiting_bytes_ + bytes > limits::open_stream_bytes)
    return fail(Errc::queue_full,
                fmt::format("{} items of {} wait for the caller, who reads too slowly: {} are allowed", waiting_.size(),
                            format_bytes(waiting_bytes_), format_bytes(limits::open_stream_bytes)));
  waiting_.emplace_back(std::move(item), bytes);
  waiting_bytes_ += bytes;
  return {};
}

void HostedStream::send(Payload item, std::size_t bytes) {
  --credits_;
  on_way_.push_back(bytes);
  on_way_bytes_ += bytes;
  way_.send(StreamItem{way_.call, std::move(item)});
}

void HostedStream::finish(Result<void> end) {
  std::unique_lock lock{mutex_};
  if (end_)
    return;
  // A caller that still reads would take what it has for all.
  if (withdrawn_)
    end = fail(way_.why_ended());
  else if (end && is_late())
    end = late();
  end_ = std::move(end);
  if (!*end_ || waiting_.empty() || !way_.reader_is_there())
    answer(std::move(lock));
}

void HostedStream::drop() noexcept {
  {
    const std::lock_guard lock{mutex_};
    dropped_ = true;
    // A method that fails drops it on its way, and what it says counts.
    if (in_method_ || promised_)
      return;
  }
  finish(fail(Errc::task_failed, "the stream was dropped without an end"));
}

void HostedStream::promise_end() {
  const std::lock_guard lock{mutex_};
  promised_ = true;
}

void HostedStream::method_returned(const Result<Payload>& answer) {
  if (!answer)
    finish(fail(answer.error()));
  bool dropped = false;
  {
    const std::lock_guard lock{mutex_};
    in_method_ = false;
    dropped = dropped_;
  }
  if (dropped)
    drop();
}

void HostedStream::answer(std::unique_lock<std::mutex> lock) {
  waiting_.clear();
  waiting_bytes_ = 0;
  if (std::exchange(answered_, true))
    return;
  auto end = *end_;
  lock.unlock();
  way_.reply(end ? Result<Payload>{Payload::of(google::protobuf::Empty{})} : Result<Payload>{fail(end.error())});
}

bool HostedStream::stop_requested() const {
  {
    const std::lock_guard lock{mutex_};
    if (withdrawn_ || end_)
      return true;
  }
  return !way_.reader_is_there() || is_late();
}

std::size_t HostedStream::waiting() const {
  const std::lock_guard lock{mutex_};
  return waiting_.size();
}

void HostedStream::begin(std::uint32_t left) {
  const std::lock_guard lock{mutex_};
  grant_credit(credits_, left);
  on_way_before_ += limits::stream_window - left;
}

void HostedStream::credit(std::uint32_t items) {
  std::unique_lock lock{mutex_};
  for (items = grant_credit(credits_, items); items > 0; --items)
    if (on_way_before_ > 0 || on_way_.empty()) { // also before `begin`
      --on_way_before_;
    } else {
      on_way_bytes_ -= on_way_.front();
      on_way_.pop_front();
    }
  while (has_room() && !waiting_.empty()) {
    auto [item, bytes] = std::move(waiting_.front());
    waiting_.pop_front();
    waiting_bytes_ -= bytes;
    send(std::move(item), bytes);
  }
  if (end_ && waiting_.empty())
    answer(std::move(lock));
}

void HostedStream::withdraw() {
  std::unique_lock lock{mutex_};
  withdrawn_ = true;
  if (end_ && !waiting_.empty()) // as in `finish`
    end_ = fail(way_.why_ended());
  waiting_.clear();
  waiting_bytes_ = 0;
  auto functions = std::exchange(withdrawals_, {});
  if (end_)
    answer(std::move(lock));
  else
    lock.unlock();
  for (const auto& function : functions)
    function();
}

void HostedStream::on_withdraw(std::function<void()> function) {
  {
    const std::lock_guard lock{mutex_};
    if (!withdrawn_) {
      withdrawals_.push_back(std::move(function));
      return;
    }
  }
  function();
}

void HostedStream::look() {
  if (!way_.reader_is_there())
    withdraw();
}

} // namespace gpuactors::detail
