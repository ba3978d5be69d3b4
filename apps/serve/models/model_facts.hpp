// What requests to a version of a model have to fit, and the replies of its replicas.
#pragma once

#include "batch.hpp"
#include "replica.hpp"

#include <gpuactors/base/limits.hpp>

#include <apps/serve/service.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace serve {

/// One input or output of a model. A plain value.
struct TensorFacts {
  std::string name;
  DataType type = DataType::fp32;
  /// Dimensions of one row, and its bytes. A row of texts has any number of bytes: these are those of empty texts.
  std::vector<std::int64_t> row_shape;
  std::size_t row_bytes = 0;
  /// Of a generative model, which has no rows: its whole shape, with -1 where any size goes.
  std::optional<std::vector<std::int64_t>> whole_shape;

  /// Whether its elements, of the type BYTES, are texts of any length.
  [[nodiscard]] bool is_text() const noexcept {
    return type == DataType::bytes;
  }

  /// Elements of so many rows of texts.
  [[nodiscard]] std::uint64_t texts_in(std::uint64_t rows) const noexcept;

  /// The shape of so many rows; -1 stands for any number.
  [[nodiscard]] std::vector<std::int64_t> shape(std::int64_t rows) const;

  /// The shape as clients see it.
  [[nodiscard]] std::vector<std::int64_t> shape_for_clients() const;

  friend bool operator==(const TensorFacts&, const TensorFacts&) = default;
};

/// One version of a model as requests see it. A plain value.
struct ModelFacts {
  std::string name;
  std::string version;
  /// "model digits, version 1"
  std::string title;
  /// What kind of model it is, for clients.
  std::string platform;
  /// Whether its replicas answer each request with a stream of its own. Then nothing below counts rows.
  bool generative = false;
  std::vector<TensorFacts> inputs;
  std::vector<TensorFacts> outputs;
  /// Requests that a replica of a generative model runs at once at most; 0: it does not say.
  std::uint64_t max_running = 0;
  /// What replicas keep between the requests of a sequence.
  wire::SequenceMemory sequences = wire::SEQUENCE_MEMORY_NONE;
  /// What replicas say of that which they have loaded; may be empty.
  std::string fingerprint;
  /// Bytes of one row of all inputs, and of all outputs; where texts are among them, the least.
  std::size_t row_in_bytes = 0;
  std::size_t row_out_bytes = 0;
  /// Whether texts are among the inputs, so that requests of as many rows differ in their bytes; the same of outputs.
  bool takes_texts = false;
  bool answers_texts = false;

  [[nodiscard]] bool has_sequences() const noexcept {
    return sequences != wire::SEQUENCE_MEMORY_NONE;
  }

  /// Whether replicas take batches beside the message.
  bool takes_tensors = false;
  /// Bytes of all inputs, or of all outputs, of the largest batch; and the rows that it may have.
  std::size_t max_bytes = 0;
  std::uint64_t max_rows = 0;
};

/// Bytes of all inputs, or of all outputs, of a batch that is one message.
inline constexpr std::size_t message_head = 256;
inline constexpr std::size_t most_message_bytes = gpuactors::limits::payload_bytes - message_head;

/// What a message says at most of the sequence of one request.
inline constexpr std::size_t sequence_bytes = 192;

/// "model digits, version 1"
[[nodiscard]] std::string title_of(std::string_view model, std::string_view version);

/// Reads what a replica says of itself. Pure. The caller sets names and titles.
/// @returns `invalid_argument`, saying what makes no sense, or that one row does not fit into a batch.
gpuactors::Result<ModelFacts> read_facts(const wire::ReplicaDescription& description, bool generative = false);

/// Checks that another replica of the version says the same as the first one. Pure.
/// @returns `invalid_argument`, with the difference.
gpuactors::Result<void> check_same(const ModelFacts& facts, const wire::ReplicaDescription& description);

/// Checks that a version can be asked what another one can be asked, which goes on serving. Pure.
/// @returns `invalid_argument`, with the difference.
gpuactors::Result<void> check_beside(const ModelFacts& serves, const ModelFacts& comes);

/// Checks that a reply has all outputs of so many rows; texts are walked through. Pure. @returns `internal`, with the
/// sizes.
gpuactors::Result<void> check_reply(const ModelFacts& facts, std::uint64_t rows, const BatchReply& reply);

} // namespace serve
