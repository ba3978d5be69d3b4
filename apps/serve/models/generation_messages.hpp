// What goes to a replica of a generative model, and what comes back.
#pragma once

#include "model_facts.hpp"

#include <apps/serve/service.hpp>

namespace serve {

/// What a request says of its sequence, also for one in a batch. Pure.
void write_sequence(wire::ReplicaSequence& message, const SequenceStep& step);

/// The message of a request that was checked. Pure.
[[nodiscard]] wire::GenerateRequest message_of(const InferRequest& request, const ModelFacts& facts);

/// Checks an item of a stream, and makes a reply of it that has what the request wants; without outputs if the item has
/// none of those. Pure.
/// @returns `internal`, saying what is wrong with the item.
[[nodiscard]] gpuactors::Result<InferReply> reply_of(wire::GenerateReply item, const InferRequest& request,
                                                     const ModelFacts& facts);

} // namespace serve
