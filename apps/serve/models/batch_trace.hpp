// The spans of requests in a model: how long each waited, and the batches that they became parts of.
#pragma once

#include "model_facts.hpp"
#include "pending.hpp"

#include <gpuactors/trace/span.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace serve {

/// A request waits since then, for the first time or again.
void begin_wait(Pending& pending, gpuactors::TimePoint since);

/// It does not wait any more, since it has failed.
void fail_wait(Pending& pending, const gpuactors::Error& error, gpuactors::TimePoint now);

/// A batch at a replica, as traces show it: a part of the first request that is recorded, with links to the others, as
/// a span has one parent. If none is recorded, neither is the batch, and its call belongs to whatever the first one
/// came with. Where no request belongs to a trace, this costs a look at each.
struct BatchTrace {
  BatchTrace() = default;

  /// Begins it, and ends the waits of its requests.
  BatchTrace(const std::vector<batching::RequestPtr>& members, std::uint64_t rows, const ModelFacts& facts,
             gpuactors::TimePoint now);

  /// The batch for a request that it is not a part of; else not valid.
  [[nodiscard]] gpuactors::TraceContext seen_by(std::size_t member) const noexcept;

  /// A request of a generative model, which is alone, has none.
  gpuactors::OpenSpan span;
  /// What the replica's call is a part of.
  gpuactors::TraceContext context;
  /// The request that the batch is a part of.
  std::size_t parent = 0;
};

} // namespace serve
