// Reads inference requests as HTTP brings them: JSON, JSON followed by raw tensors, or raw bytes alone.
#pragma once

#include <apps/serve/service.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace serve {

/// How far the memory of a body must go on behind its end: JSON is read in steps that may reach so far beyond it.
inline constexpr std::size_t body_padding = 64;

/// Which outputs go out as raw bytes; the others become JSON.
struct OutputForm {
  /// For outputs that nothing was said of.
  bool binary = false;
  std::vector<std::pair<std::string, bool>> chosen;

  [[nodiscard]] bool is_binary(std::string_view output) const noexcept;
};

/// A request without model and version, which the path names, and how its answer should look.
struct HttpInference {
  InferRequest request;
  OutputForm form;
};

/// Reads a body of JSON, of which the first `json_bytes` are JSON when raw tensors follow. Raw tensors of the result
/// are views that keep the body; tensors from JSON own their bytes. Any thread.
/// @param body At least `body_padding` bytes behind it may be read.
/// @returns `invalid_argument` with a sentence for whatever is wrong with it.
[[nodiscard]] gpuactors::Result<HttpInference> read_inference(const Bytes& body,
                                                              std::optional<std::uint64_t> json_bytes);

/// Makes a request of a body that is the data of a model's only input: a batch of one, with at most one dimension that
/// follows from the size; for BYTES, one element. The answer's outputs are raw.
/// @returns `invalid_argument` when the model is not like that or the size does not fit.
[[nodiscard]] gpuactors::Result<HttpInference> read_raw_inference(const Bytes& body, const ModelDescription& model);

} // namespace serve
