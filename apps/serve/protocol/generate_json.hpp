// The JSON of the generate extension: inputs, outputs and their values are keys and values of one object.
#pragma once

#include <apps/serve/protocol/held_bytes.hpp>
#include <apps/serve/service.hpp>

#include <string>

namespace serve {

/// Reads {"NAME": value, ..., "id": text, "parameters": {...}}, where the names are those of the model's inputs. A
/// value is one element, a list of all of them, or nested as the shape says; what the model leaves open of a shape
/// follows from it. Inputs may stand among the parameters. Other keys with single values are parameters, too, if the
/// model is generative; an ordinary one has none but those of the server. Any thread.
/// @param body At least `body_padding` bytes behind it may be read.
/// @returns `invalid_argument` with a sentence for whatever is wrong with it.
[[nodiscard]] gpuactors::Result<InferRequest> read_generation(const Bytes& body, const ModelDescription& model);

/// The sequence of such a request, before it is known which version's inputs the keys are; none if it has none, or is
/// not as it should be, which `read_generation` says. Any thread.
/// @param body As for `read_generation`.
[[nodiscard]] SequenceStep find_sequence(const Bytes& body);

/// {"id": ..., "model_name": ..., "model_version": ..., "NAME": value, ...}; an output with one element is a value,
/// others are lists of all their elements.
/// @param share Grows with it.
/// @returns `invalid_argument` for outputs that JSON has no form for; `no_capacity` where the share may not grow.
[[nodiscard]] gpuactors::Result<std::string> write_generation(const InferReply& reply, HeldShare& share);

} // namespace serve
