// One request of a generative model, between its client and the replica that answers it.
#pragma once

#include "pending.hpp"
#include "replica.hpp"

#include <apps/serve/service.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

namespace serve {

class Dispatcher;

/// The stream of a replica's items for one request. One thread at a time. Its end withdraws the request if it is not
/// over.
class ReplicaStream {
public:
  virtual ~ReplicaStream() = default;

  /// Calls `ready` once, as soon as `take` has something, on any thread.
  virtual void when_ready(std::function<void()> ready) = 0;

  /// What is there: an item, nothing at the end, or the error that ended it.
  virtual gpuactors::Result<std::optional<wire::GenerateReply>> take() = 0;
};

/// Has a replica answer a request within a time.
using RunStream = std::function<std::shared_ptr<ReplicaStream>(wire::GenerateRequest, gpuactors::Duration)>;

/// waiting -> running -> over, and back to waiting if the replica is lost before its first item. Which of these it is
/// the dispatcher says, in whose queue the request is; here is what a client has asked for and not got yet. Any thread.
/// No lock is held while the dispatcher or the client is called.
class Generation final : public Service::Replies, public std::enable_shared_from_this<Generation> {
public:
  static std::shared_ptr<Generation> of(InferRequest request);

  /// Withdraws the request.
  ~Generation() override;

  // -- for the client --------------------------------------------------------------------------

  void next(Next done) override;
  void cancel() noexcept override;

  // -- for the model ---------------------------------------------------------------------------

  [[nodiscard]] const std::shared_ptr<Pending>& pending() const noexcept {
    return pending_;
  }

  /// Where the request is going to be submitted. Before that.
  void belongs_to(std::shared_ptr<Dispatcher> dispatcher);

  /// A replica has begun to answer. A flight with a larger number than all before takes their place.
  void begin(std::shared_ptr<ReplicaStream> source, std::uint64_t flight);

  /// It is over, by an error; or at its end, with nothing. The first call counts.
  void end(gpuactors::Result<std::optional<InferReply>> how);

private:
  explicit Generation(InferRequest request);

  void watch(ReplicaStream& source, std::uint64_t flight);
  void on_ready(std::uint64_t flight);
  void pass_on(wire::GenerateReply item, const std::shared_ptr<ReplicaStream>& source, std::uint64_t flight);

  const std::shared_ptr<Pending> pending_;
  std::shared_ptr<Dispatcher> dispatcher_;
  std::mutex mutex_;
  // Guarded by the mutex.
  std::shared_ptr<ReplicaStream> source_;
  std::uint64_t flight_ = 0;
  Next wanted_;
  std::optional<gpuactors::Result<std::optional<InferReply>>> end_;
};

} // namespace serve
