// A request as its queue sees it: how large, how urgent, until when. What it carries is the caller's, who derives.
#pragma once

#include <gpuactors/base/clock.hpp>

#include <compare>
#include <cstdint>
#include <memory>

namespace serve::batching {

/// The order in which requests are served: 1 is the most urgent priority, and within one the first to come is first.
struct Place {
  std::uint64_t priority = 0;
  std::uint64_t number = 0;

  friend auto operator<=>(const Place&, const Place&) = default;
};

struct Sequence;

/// One request. The first members are set before it is admitted, up to `state`; the rest is the queue's, and that of
/// the sequence is the sequences'. Guarded by whatever guards the queue.
struct Request {
  Request() = default;
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
  virtual ~Request() = default;

  std::uint64_t rows = 1;
  /// What it carries, where `QueueLimits` bound that.
  std::uint64_t bytes = 0;
  std::uint64_t priority = 1;
  gpuactors::TimePoint arrived{};
  /// When it is answered at the latest, with an error if need be.
  gpuactors::TimePoint deadline = gpuactors::never;
  /// When it is in a batch at the latest: as `deadline`, but only until it was in one.
  gpuactors::TimePoint begin_by = gpuactors::never;

  /// Whether it starts a sequence, and ends it.
  bool starts = false;
  bool ends = false;

  enum class State : std::uint8_t {
    /// Not admitted yet, or answered.
    outside,
    waiting,
    /// In a batch.
    running,
  };
  State state = State::outside;
  Place place;
  /// It forms a batch of its own, and no table says whether that is worth it: a probe, or a suspect.
  bool alone = false;
  /// It was put back: it has waited for company before.
  bool again = false;
  /// Batches with it that were lost together with their replica.
  int losses = 0;
  /// What it is one of, if it is in a sequence, and which one.
  std::shared_ptr<Sequence> sequence;
  std::uint64_t turn = 0;
};

using RequestPtr = std::shared_ptr<Request>;

} // namespace serve::batching
