// A request that was accepted by a model, until its answer.
#pragma once

#include <gpuactors/trace/span.hpp>

#include <apps/serve/batching/request.hpp>
#include <apps/serve/service.hpp>

#include <cstdint>
#include <memory>
#include <utility>

namespace serve {

class Generation;

/// A request with its data. The data is read without a lock while it runs; `done` is taken by whoever answers.
struct Pending : batching::Request {
  Pending(InferRequest wanted, InferDone answer) : request(std::move(wanted)), done(std::move(answer)) {
    // nop
  }

  const InferRequest request;
  InferDone done;
  /// Whether it was, for whoever submits it.
  bool admitted = false;
  /// When its batch went to a replica.
  gpuactors::TimePoint sent{};
  /// As long as it waits.
  gpuactors::OpenSpan wait;

  // Of a generative model.
  std::weak_ptr<Generation> generation;
  /// The replica that answers, and the number of that; 0: none.
  std::uint64_t replica = 0;
  std::uint64_t flight = 0;
  /// Items that went to the client: from the first on, no other replica can take it over.
  std::uint64_t delivered = 0;
};

/// What a queue of a model holds.
inline std::shared_ptr<Pending> pending_of(const batching::RequestPtr& request) {
  return std::static_pointer_cast<Pending>(request);
}

} // namespace serve
