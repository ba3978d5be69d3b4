// The calls of batched methods that wait in their actor's shell until a batch of them runs. Internal to the layer.
#pragma once

#include <gpuactors/actor/answers.hpp>
#include <gpuactors/actor/holder_control.hpp>
#include <gpuactors/actor/registry.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gpuactors::detail {

/// To callers and `HolderControl`, a held call is one that still waits in the mailbox: it begins when its batch does,
/// and an actor that ends before that refuses it as one that has not begun, so that it is made again in the next life.
///
/// Host's thread.
class HeldCalls {
public:
  /// @param methods counts the calls, by the numbers of methods.
  /// @param type of the actor.
  HeldCalls(std::shared_ptr<HolderControl> control, std::shared_ptr<Answers> answers,
            std::shared_ptr<CallTable> methods, std::string type, HolderName name, LeaseInfo lease)
    : control_(std::move(control)), answers_(std::move(answers)), methods_(std::move(methods)), type_(std::move(type)),
      name_(std::move(name)), lease_(std::move(lease)) {
    // nop
  }

  /// What has become of a call that was held.
  struct Held {
    /// Of its batch, for `run`.
    std::uint64_t batch = 0;
    /// It is the first one of its batch.
    bool first = false;
    /// Its batch is to be run now: it is full, or the holder is ending.
    bool due = false;
  };

  /// Returns the batch that waits, if a call of `method` (null: anything else that the actor does) comes behind it.
  [[nodiscard]] std::optional<std::uint64_t> ahead_of(const MethodType* method) const;

  /// Holds the call that `host` serves now; no batch is ahead of it.
  Held hold(caf::event_based_actor* host, const Call& call, const MethodType& method);

  /// Returns how long a batch may still wait; nothing to wait for if it has run.
  [[nodiscard]] Duration wait_of(std::uint64_t batch) const;

  /// Runs a batch on `object`, and answers its calls; does nothing if it has run.
  void run(std::uint64_t batch, Actor& object, caf::event_based_actor* host);

  /// The holder is ending: answers all calls that are held, as those that have not begun.
  void refuse_all(caf::event_based_actor* host);

private:
  struct Waiting {
    Call call;
    caf::response_promise promise;
    /// Of the message, and the id of an answer to it.
    std::pair<caf::strong_actor_ptr, std::uint64_t> caller;
  };

  struct WaitingBatch {
    std::uint64_t number = 0;
    const MethodType* method = nullptr;
    TimePoint due;
    std::vector<Waiting> calls;
  };

  /// A call that runs.
  struct Running {
    Waiting waiting;
    Count count;
    std::shared_ptr<std::atomic<bool>> withdrawn;
  };
  class RunningBatch;

  /// Begins those calls that may run, and answers the others.
  std::vector<Running> begin(WaitingBatch& batch, caf::event_based_actor* host);

  const std::shared_ptr<HolderControl> control_;
  const std::shared_ptr<Answers> answers_;
  const std::shared_ptr<CallTable> methods_;
  const std::string type_;
  const HolderName name_;
  const LeaseInfo lease_;
  std::uint64_t last_ = 0;
  /// One at most: it runs before anything that comes behind it.
  std::optional<WaitingBatch> waiting_;
};

} // namespace gpuactors::detail
