#include "batch_queue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace serve::batching {

using gpuactors::deadline_after;
using gpuactors::Duration;
using gpuactors::Errc;
using gpuactors::never;
using gpuactors::Result;
using gpuactors::Share;
using gpuactors::TimePoint;

namespace {

/// One in so many requests that an idle replica would have been refused is tried nevertheless: nothing else would
/// correct a table that is too pessimistic.
constexpr std::uint64_t probe_every = 16;

/// Each time that batches grew and an answer was too large again, so many times as many must be answered before the
/// next.
constexpr std::uint64_t patience_grows = 4;
constexpr std::uint64_t most_patience = 1U << 24;

/// How much earlier than at the last moment a batch that is held back goes: whoever asks again is woken a little late,
/// and a batch takes a little longer than the last ones. Without it, what waits until its deadline is always late.
Duration slack(Duration took) {
  return std::max(Duration{std::chrono::milliseconds{1}}, took / 4);
}

} // namespace

std::string in_milliseconds(Duration duration) {
  return fmt::format("{:.3f} ms", std::chrono::duration<double, std::milli>{duration}.count());
}

// -- coming in ------------------------------------------------------------------------------------

Result<void> BatchQueue::admit(const RequestPtr& request, TimePoint now, const Capacity& capacity) {
  if (request->rows == 0 || request->rows > limits_.max_batch)
    return gpuactors::fail(Errc::invalid_argument,
                           fmt::format("a request has 1 to {} rows, this one {}", limits_.max_batch, request->rows));
  if (request->bytes > limits_.max_batch_bytes)
    return gpuactors::fail(Errc::invalid_argument, fmt::format("a request has up to {} bytes, this one {}",
                                                               limits_.max_batch_bytes, request->bytes));
  if (waiting_.size() >= limits_.max_requests
      || request->rows > limits_.max_rows - std::min(waiting_rows_, limits_.max_rows)) {
    ++counts_.refused_full;
    ++counts_.refused_busy;
    return gpuactors::fail(Errc::queue_full,
                           fmt::format("the queue is full: {} requests with {} rows wait, and {} requests with {} rows "
                                       "may",
                                       waiting_.size(), waiting_rows_, limits_.max_requests, limits_.max_rows));
  }
  if (request->bytes > limits_.max_bytes - std::min(waiting_bytes_, limits_.max_bytes)) {
    ++counts_.refused_full;
    ++counts_.refused_busy;
    return gpuactors::fail(Errc::queue_full, fmt::format("the queue is full: requests of {} bytes wait, and {} may",
                                                         waiting_bytes_, limits_.max_bytes));
  }
  GPUACTORS_TRY(check_deadline(*request, now, capacity));
  ++counts_.admitted;
  request->place = Place{request->priority, ++last_number_};
  start_waiting(request);
  note_due(*request);
  return {};
}

Result<void> BatchQueue::check_deadline(Request& request, TimePoint now, const Capacity& capacity) {
  if (request.deadline == never || capacity.replicas == 0)
    return {};
  if (request.deadline <= now) {
    ++counts_.refused_late;
    return gpuactors::fail(Errc::deadline_exceeded, fmt::format("its timeout passed {} before all of it was read",
                                                                in_milliseconds(now - request.deadline)));
  }
  const auto end = expected_end(request, now, capacity);
  if (end <= request.deadline)
    return {};
  if (waiting_.empty() && capacity.free_at <= now && ++refused_idle_ % probe_every == 0) {
    request.alone = true;
    return {};
  }
  ++counts_.refused_late;
  if (deadline_after(now, times_.estimate(capacity.share, request.rows)) <= request.deadline)
    ++counts_.refused_busy;
  return gpuactors::fail(Errc::queue_full,
                         fmt::format("no answer can come in time: as long as batches take now, it would come in {}, "
                                     "and {} are left",
                                     in_milliseconds(end - now), in_milliseconds(request.deadline - now)));
}

TimePoint BatchQueue::expected_end(const Request& request, TimePoint now, const Capacity& capacity) const {
  // What is served before it goes in full batches, evenly over the replicas; it takes part in the one after them.
  std::uint64_t ahead = 0;
  for (auto it = rows_by_priority_.begin(); it != rows_by_priority_.end() && it->first <= request.priority; ++it)
    ahead += it->second;
  const auto rounds = ahead / batch_rows_ / capacity.replicas;
  const auto full = times_.estimate(capacity.share, batch_rows_);
  const auto own = std::max(request.rows, std::min(ahead % batch_rows_ + request.rows, batch_rows_));
  auto end = deadline_after(std::max(now, capacity.free_at), times_.estimate(capacity.share, own));
  if (full > Duration::zero() && rounds > 0)
    end = rounds > static_cast<std::uint64_t>((never - end) / full) ? never
                                                                    : end + full * static_cast<Duration::rep>(rounds);
  return end;
}

TimePoint BatchQueue::due_of(const Request& request) noexcept {
  // That it waits once more, since its batch was lost, is nothing that it could have known.
  const auto waits_first = request.state == Request::State::waiting && !request.again;
  return waits_first ? std::min(request.deadline, request.begin_by) : request.deadline;
}

void BatchQueue::note_due(const Request& request) {
  if (const auto due = due_of(request); due != never)
    dues_.emplace(due, request.place);
}

void BatchQueue::forget_due(const Request& request) {
  if (const auto due = due_of(request); due != never)
    dues_.erase(Due{due, request.place});
}

void BatchQueue::start_waiting(const RequestPtr& request) {
  request->state = Request::State::waiting;
  waiting_rows_ += request->rows;
  waiting_bytes_ += request->bytes;
  rows_by_priority_[request->place.priority] += request->rows;
  waiting_.emplace(request->place, request);
}

void BatchQueue::stop_waiting(Request& request) {
  waiting_rows_ -= request.rows;
  waiting_bytes_ -= request.bytes;
  const auto rows = rows_by_priority_.find(request.place.priority);
  rows->second -= request.rows;
  if (rows->second == 0)
    rows_by_priority_.erase(rows);
  waiting_.erase(request.place);
}

// -- batches --------------------------------------------------------------------------------------

BatchQueue::Next BatchQueue::next(TimePoint start, Share share, bool may_wait, const Filter& may_go) {
  Next result;
  std::uint64_t bytes = 0;    // of the batch
  auto earliest = never;      // of the deadlines in the batch
  auto first_arrived = never; // of its requests
  auto begins_by = never;     // at the latest, however full it is
  bool complete = false;      // it would not take one more
  bool waited = false;        // one of its requests was in a batch before
  for (auto it = waiting_.begin(); it != waiting_.end() && !complete;) {
    const auto request = it->second;
    ++it;
    if (may_go && !may_go(*request))
      continue;
    if (request->alone) {
      complete = true;
      if (!result.batch.empty())
        break;
    } else if (deadline_after(start, times_.estimate(share, request->rows)) > request->deadline) {
      // Not even a batch of its own would be done in time.
      remove(*request);
      ++counts_.dropped;
      result.late.push_back(request);
      continue;
    }
    const auto rows = result.rows + request->rows;
    const auto deadline = std::min(earliest, request->deadline);
    if ((rows > batch_rows_ && !result.batch.empty()) || request->bytes > limits_.max_batch_bytes - bytes
        || (!request->alone && deadline_after(start, times_.estimate(share, rows)) > deadline)) {
      complete = true;
      break;
    }
    result.batch.push_back(request);
    result.rows = rows;
    bytes += request->bytes;
    earliest = deadline;
    first_arrived = std::min(first_arrived, request->arrived);
    begins_by = std::min(begins_by, request->begin_by);
    waited = waited || request->again;
    complete = complete || rows >= batch_rows_;
  }
  if (may_wait && !complete && !waited && !result.batch.empty() && limits_.max_delay > Duration::zero()) {
    const auto took = times_.estimate(share, result.rows);
    const auto latest = earliest == never ? never : earliest - took - slack(took);
    const auto begin = begins_by == never ? never : begins_by - slack(Duration::zero());
    const auto until = std::min({deadline_after(first_arrived, limits_.max_delay), latest, begin});
    if (start < until) {
      result.batch.clear();
      result.rows = 0;
      result.ask_again = until;
      return result;
    }
  }
  for (const auto& request : result.batch) {
    const auto due = due_of(*request);
    stop_waiting(*request);
    request->state = Request::State::running;
    running_.emplace(request->place, request);
    if (due_of(*request) != due) { // it has begun in time: only its deadline is left
      dues_.erase(Due{due, request->place});
      note_due(*request);
    }
  }
  return result;
}

bool BatchQueue::settle(Request& request) {
  if (!remove(request))
    return false;
  ++counts_.answered;
  return true;
}

bool BatchQueue::give_up(Request& request) {
  if (!remove(request))
    return false;
  ++counts_.failed;
  return true;
}

bool BatchQueue::put_back(const RequestPtr& request) {
  if (request->state != Request::State::running)
    return false;
  running_.erase(request->place);
  request->again = true;
  start_waiting(request);
  return true;
}

void BatchQueue::lower_rows(std::uint64_t rows) {
  if (!rows_before_)
    rows_before_ = batch_rows_;
  if (std::exchange(has_grown_, false))
    patience_ = std::min(patience_grows * patience_, most_patience);
  batch_rows_ = std::min(batch_rows_, std::max<std::uint64_t>(rows / 2, 1));
  fitting_ = 0;
}

void BatchQueue::one_was_large() {
  if (rows_before_)
    batch_rows_ = *std::exchange(rows_before_, std::nullopt);
}

void BatchQueue::rows_fit(std::uint64_t rows) {
  // Two of half the rows would be one batch: this one is as large as its requests allow.
  if (2 * rows <= batch_rows_)
    return;
  rows_before_.reset();
  if (batch_rows_ == limits_.max_batch || ++fitting_ < patience_)
    return;
  batch_rows_ = std::min(2 * batch_rows_, limits_.max_batch);
  has_grown_ = true;
  fitting_ = 0;
}

const Request* BatchQueue::first(const Filter& may_go) const {
  for (const auto& [place, request] : waiting_)
    if (may_go(*request))
      return request.get();
  return nullptr;
}

std::size_t BatchQueue::count(const Filter& may_go) const {
  return static_cast<std::size_t>(
      std::count_if(waiting_.begin(), waiting_.end(), [&](const auto& item) { return may_go(*item.second); }));
}

// -- going out ------------------------------------------------------------------------------------

bool BatchQueue::remove(Request& request) {
  if (request.state == Request::State::outside)
    return false;
  forget_due(request);
  if (request.state == Request::State::waiting)
    stop_waiting(request);
  else
    running_.erase(request.place);
  request.state = Request::State::outside;
  return true;
}

std::vector<RequestPtr> BatchQueue::expire(TimePoint now) {
  std::vector<RequestPtr> result;
  while (!dues_.empty() && dues_.begin()->first <= now) {
    const auto place = dues_.begin()->second;
    const auto waiting = waiting_.find(place);
    const auto request = waiting != waiting_.end() ? waiting->second : running_.at(place);
    ++(request->state == Request::State::waiting ? counts_.expired_waiting : counts_.expired_running);
    remove(*request);
    result.push_back(request);
  }
  return result;
}

bool BatchQueue::cancel(Request& request) {
  if (!remove(request))
    return false;
  ++counts_.cancelled;
  return true;
}

std::vector<RequestPtr> BatchQueue::take_all() {
  std::vector<RequestPtr> result;
  for (const auto* requests : {&running_, &waiting_})
    for (const auto& [place, request] : *requests)
      result.push_back(request);
  for (const auto& request : result)
    give_up(*request);
  return result;
}

std::vector<RequestPtr> BatchQueue::take_waiting(const Filter& stays) {
  std::vector<RequestPtr> result;
  for (const auto& [place, request] : waiting_)
    if (!stays(*request))
      result.push_back(request);
  for (const auto& request : result)
    give_up(*request);
  return result;
}

TimePoint BatchQueue::next_due() const {
  return dues_.empty() ? never : dues_.begin()->first;
}

} // namespace serve::batching
