// Batches: calls of one method that an actor answers together, so that a model runs once for many requests.
//
//   class Scorer : public gpuactors::FractionalGPUActor {
//   public:
//     gpuactors::Result<std::vector<Score>> score(const gpuactors::BatchOf<Features>& batch);
//   };
//   GPUACTORS_ACTOR("scorer", Scorer).batch_method("score", &Scorer::score, {.max_size = 32, .max_wait = 2ms});
//
// Callers call such a method like any other, each with one message. The actor keeps the order in which calls arrived:
// before a call of another method or a posted function, it runs the batch that waits.
#pragma once

#include <gpuactors/actor/call_frame.hpp>
#include <gpuactors/base/clock.hpp>
#include <gpuactors/wire/payload.hpp>

#include <atomic>
#include <cstddef>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

namespace gpuactors {

/// When a batch runs: when it holds `max_size` calls (withdrawn calls count, but are not in the batch), `max_wait`
/// after its first call was made, or before the actor does anything else. Calls that arrive while the actor is busy
/// wait anyway, so batches grow with the load even without `max_wait`: all calls that are there when the actor turns to
/// them form one batch.
struct BatchOptions {
  /// The most calls in one batch, at least 1.
  std::size_t max_size = 32;
  /// How long a call may wait for others while the actor has nothing else to do. A call whose deadline is nearer fails
  /// with `deadline_exceeded`.
  Duration max_wait = Duration::zero();
};

namespace detail {

/// A call of a batch, as its shell sees it.
struct BatchedCall {
  Payload input;
  TimePoint deadline = never;
  /// Set when nobody wants the answer of the call any more. Any thread.
  std::shared_ptr<const std::atomic<bool>> withdrawn;
  const HolderControl* control = nullptr;
};

} // namespace detail

/// The messages of the calls that a method answers together, in the order in which the calls arrived. Lives until the
/// method returns; actor's thread.
template <ProtobufMessage In>
class BatchOf {
public:
  /// One call.
  struct Entry {
    std::shared_ptr<const In> message;
    TimePoint deadline = never;
    std::shared_ptr<const std::atomic<bool>> withdrawn;
    const HolderControl* control = nullptr;
  };

  class Iterator {
  public:
    using iterator_category = std::forward_iterator_tag;
    using difference_type = std::ptrdiff_t;
    using value_type = In;
    using pointer = const In*;
    using reference = const In&;

    Iterator() = default;
    explicit Iterator(typename std::vector<Entry>::const_iterator at) : at_(at) {
      // nop
    }

    reference operator*() const {
      return *at_->message;
    }

    pointer operator->() const {
      return at_->message.get();
    }

    Iterator& operator++() {
      ++at_;
      return *this;
    }

    Iterator operator++(int) {
      return Iterator{at_++};
    }

    friend bool operator==(const Iterator&, const Iterator&) = default;

  private:
    typename std::vector<Entry>::const_iterator at_;
  };

  explicit BatchOf(std::vector<Entry> entries) : entries_(std::move(entries)) {
    // nop
  }

  /// Returns the number of calls, at least 1.
  [[nodiscard]] std::size_t size() const noexcept {
    return entries_.size();
  }

  /// Returns the message of the i-th call.
  [[nodiscard]] const In& operator[](std::size_t i) const {
    return *entries_[i].message;
  }

  [[nodiscard]] Iterator begin() const {
    return Iterator{entries_.begin()};
  }

  [[nodiscard]] Iterator end() const {
    return Iterator{entries_.end()};
  }

  /// Returns when the caller of the i-th call gives up; `never` without a deadline.
  [[nodiscard]] TimePoint deadline(std::size_t i) const {
    return entries_[i].deadline;
  }

  /// Returns whether nobody wants the answer of the i-th call any more, or the actor is to stop. Such a call still
  /// needs an answer. Cheap. Calls that were withdrawn before the batch began are not in it.
  [[nodiscard]] bool stop_requested(std::size_t i) const noexcept {
    return entries_[i].withdrawn->load(std::memory_order_relaxed) || entries_[i].control->stop_requested();
  }

private:
  std::vector<Entry> entries_;
};

} // namespace gpuactors
