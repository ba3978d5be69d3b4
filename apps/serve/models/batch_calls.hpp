// Calls of replicas with batches: small ones are messages, large ones lie beside them as tensors.
#pragma once

#include "batch.hpp"

#include <gpuactors/gpuactors.hpp>

#include <apps/serve/protocol/work_pool.hpp>

#include <atomic>
#include <memory>
#include <vector>

namespace serve {

/// The answer of a replica that is `ActorRef::away`: it has no second life for which a call would wait.
gpuactors::Failure replica_gone();

/// Any thread.
class BatchCalls : public std::enable_shared_from_this<BatchCalls> {
public:
  /// `cluster` must live until `end`.
  /// @param takes_tensors  whether the replicas take batches that are larger than a message.
  /// @param has_state  whether a batch changes what they keep: if its reply is lost, so is the replica.
  BatchCalls(gpuactors::Cluster& cluster, bool takes_tensors, bool has_state);

  /// Has an actor infer a batch, which it answers within `time`, and calls `done` once. What the batch refers to is
  /// copied before this returns; large replies are fetched on a thread of this object.
  void call(const gpuactors::ActorRef& actor, const Batch& batch, gpuactors::Duration time, BatchDone done);

  /// Waits for fetches that are under way; replies that come later are `unavailable`. Idempotent.
  void end();

private:
  using Tensors = std::vector<gpuactors::Shared<gpuactors::Tensor>>;

  /// Puts the inputs of a batch beside its message.
  gpuactors::Result<Tensors> put_inputs(const Batch& batch);
  void take(wire::ReplicaReply reply, const BatchDone& done);
  gpuactors::Result<BatchReply> fetch(const wire::ReplicaReply& reply);
  [[nodiscard]] gpuactors::Failure not_fetched(const gpuactors::Error& error) const;

  gpuactors::Cluster& cluster_;
  const bool takes_tensors_;
  const bool has_state_;
  std::atomic<bool> ended_ = false;
  WorkPool fetches_;
};

} // namespace serve
