// A request that was accepted by a model, until its answer.
#pragma once

#include <apps/serve/batching/request.hpp>
#include <apps/serve/service.hpp>

#include <memory>
#include <utility>

namespace serve {

/// A request with its data. The data is read without a lock while it runs; `done` is taken by whoever answers.
struct Pending : batching::Request {
  Pending(InferRequest wanted, InferDone answer) : request(std::move(wanted)), done(std::move(answer)) {
    // nop
  }

  const InferRequest request;
  InferDone done;
  /// When its batch went to a replica.
  gpuactors::TimePoint sent{};
};

/// What a queue of a model holds.
inline std::shared_ptr<Pending> pending_of(const batching::RequestPtr& request) {
  return std::static_pointer_cast<Pending>(request);
}

} // namespace serve
