#include "model_facts.hpp"

#include <gpuactors/base/limits.hpp>

#include <apps/serve/cut_text.hpp>
#include <apps/serve/protocol/data_type.hpp>
#include <apps/serve/protocol/tensor_rules.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace serve {

using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;

namespace {

/// Inputs, or outputs, of one model.
constexpr int most_row_tensors = 16;

/// Of a text, its length.
constexpr std::size_t least_text_bytes = sizeof(std::uint32_t);

template <class... Args>
gpuactors::Failure nonsense(fmt::format_string<Args...> format, Args&&... args) {
  return fail(Errc::invalid_argument, fmt::format(format, std::forward<Args>(args)...));
}

/// Bytes of a row, in a batch of at most `most`.
Result<std::size_t> row_bytes(const std::string& what, std::size_t element, const std::vector<std::int64_t>& shape,
                              std::size_t most) {
  if (shape.size() + 1 > gpuactors::limits::tensor_rank)
    return nonsense("{} has rows of {} dimensions: at most {} are allowed", what, shape.size(),
                    gpuactors::limits::tensor_rank - 1);
  auto bytes = element;
  for (const auto size : shape) {
    if (size < 1)
      return nonsense("{} has rows of the shape [{}]: each dimension is at least 1", what, fmt::join(shape, ","));
    if (static_cast<std::uint64_t>(size) > most / bytes)
      return nonsense("{} has rows of the shape [{}]: a row has at most {} bytes", what, fmt::join(shape, ","), most);
    bytes *= static_cast<std::size_t>(size);
  }
  return bytes;
}

/// Keys that requests and answers have over HTTP beside the names of a generative model.
bool is_reserved(std::string_view kind, std::string_view name) {
  constexpr std::array<std::string_view, 2> of_requests{"id", "parameters"};
  constexpr std::array<std::string_view, 4> of_answers{"id", "model_name", "model_version", "error"};
  const auto in = [name](const auto& names) { return std::find(names.begin(), names.end(), name) != names.end(); };
  return kind == "input" ? in(of_requests) : in(of_answers);
}

Result<void> read_whole_shape(std::string_view kind, const std::string& what, const wire::ReplicaTensor& tensor,
                              TensorFacts& facts) {
  if (is_reserved(kind, tensor.name()))
    return nonsense("{} has a name that means something else over HTTP", what);
  if (tensor.row_shape_size() > 0)
    return nonsense("{} has a row_shape: a generative model has no rows, and says the whole \"shape\"", what);
  facts.whole_shape.emplace(tensor.shape().begin(), tensor.shape().end());
  if (facts.whole_shape->size() > gpuactors::limits::tensor_rank)
    return nonsense("{} has {} dimensions: at most {} are allowed", what, facts.whole_shape->size(),
                    gpuactors::limits::tensor_rank);
  for (const auto size : *facts.whole_shape)
    if (size < 1 && size != -1)
      return nonsense("{} has the shape [{}]: each dimension is at least 1, or -1 for any size", what,
                      fmt::join(*facts.whole_shape, ","));
  return {};
}

Result<void> read_rows(const std::string& what, const wire::ReplicaTensor& tensor, std::size_t most,
                       TensorFacts& facts) {
  if (tensor.shape_size() > 0)
    return nonsense("{} has a shape: a model with the method \"{}\" has rows, and says their \"row_shape\"", what,
                    infer_method);
  facts.row_shape.assign(tensor.row_shape().begin(), tensor.row_shape().end());
  GPUACTORS_LET(bytes,
                row_bytes(what, facts.is_text() ? least_text_bytes : element_bytes(facts.type), facts.row_shape, most));
  facts.row_bytes = bytes;
  return {};
}

/// Of a model with these facts so far.
Result<TensorFacts> read_tensor(const char* kind, const wire::ReplicaTensor& tensor, const ModelFacts& model) {
  if (tensor.name().empty() || tensor.name().size() > gpuactors::limits::name_length)
    return nonsense("an {} has a name of {} bytes: 1 to {} are allowed", kind, tensor.name().size(),
                    gpuactors::limits::name_length);
  const auto what = fmt::format("{} \"{}\"", kind, tensor.name());
  const auto type = parse_data_type(tensor.datatype());
  if (!type)
    return nonsense("{} is of the datatype \"{}\": one of the protocol, such as FP32, is expected", what,
                    cut_text(tensor.datatype(), gpuactors::limits::name_length));
  TensorFacts facts;
  facts.name = tensor.name();
  facts.type = *type;
  if (model.generative) {
    GPUACTORS_TRY(read_whole_shape(kind, what, tensor, facts));
  } else {
    GPUACTORS_TRY(read_rows(what, tensor, model.max_bytes, facts));
  }
  return facts;
}

template <class Tensors>
Result<std::vector<TensorFacts>> read_tensors(const char* kind, const Tensors& tensors, const ModelFacts& model) {
  if (tensors.empty() || tensors.size() > most_row_tensors)
    return nonsense("it has {} {}s: 1 to {} are allowed", tensors.size(), kind, most_row_tensors);
  std::vector<TensorFacts> result;
  for (const auto& tensor : tensors) {
    GPUACTORS_LET(facts, read_tensor(kind, tensor, model));
    for (const auto& other : result)
      if (other.name == facts.name)
        return nonsense("it has two {}s with the name \"{}\"", kind, facts.name);
    result.push_back(std::move(facts));
  }
  return result;
}

bool has_texts(const std::vector<TensorFacts>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const auto& tensor) { return tensor.is_text(); });
}

std::size_t sum_of_rows(const std::vector<TensorFacts>& tensors) {
  std::size_t bytes = 0;
  for (const auto& tensor : tensors)
    bytes += tensor.row_bytes;
  return bytes;
}

/// "x FP32 [8] and y FP32 [3]"
std::string text_of(const std::vector<TensorFacts>& tensors) {
  std::string text;
  for (const auto& tensor : tensors)
    text += fmt::format("{}{} {} [{}]", text.empty() ? "" : " and ", tensor.name, to_string(tensor.type),
                        fmt::join(tensor.whole_shape.value_or(tensor.row_shape), ","));
  return text;
}

Result<void> check_texts(const ModelFacts& facts, const TensorFacts& output, std::uint64_t rows, const Bytes& data) {
  const NamedTensor tensor{output.name, output.type, output.shape(static_cast<std::int64_t>(rows)), data};
  if (const auto whole = check_tensor(fmt::format("output \"{}\"", output.name), tensor); !whole)
    return fail(Errc::internal,
                fmt::format("{} answered texts that make no sense: {}", facts.title, whole.error().message()));
  return {};
}

} // namespace

std::uint64_t TensorFacts::texts_in(std::uint64_t rows) const noexcept {
  return rows * (row_bytes / least_text_bytes);
}

std::vector<std::int64_t> TensorFacts::shape(std::int64_t rows) const {
  std::vector<std::int64_t> result{rows};
  result.insert(result.end(), row_shape.begin(), row_shape.end());
  return result;
}

std::vector<std::int64_t> TensorFacts::shape_for_clients() const {
  return whole_shape ? *whole_shape : shape(-1);
}

std::string title_of(std::string_view model, std::string_view version) {
  return fmt::format("model {}, version {}", model, version);
}

Result<ModelFacts> read_facts(const wire::ReplicaDescription& description, bool generative) {
  ModelFacts facts;
  facts.generative = generative;
  facts.takes_tensors = !generative && description.takes_tensors();
  facts.max_bytes = facts.takes_tensors ? gpuactors::limits::served_batch_bytes : most_message_bytes;
  GPUACTORS_LET(inputs, read_tensors("input", description.inputs(), facts));
  GPUACTORS_LET(outputs, read_tensors("output", description.outputs(), facts));
  facts.inputs = std::move(inputs);
  facts.outputs = std::move(outputs);
  if (description.max_rows() < 0)
    return nonsense("it takes batches of up to {} rows", description.max_rows());
  if (description.max_running() < 0)
    return nonsense("it runs up to {} requests at once", description.max_running());
  if (!wire::SequenceMemory_IsValid(description.sequences()))
    return nonsense("it keeps {} between the requests of a sequence: {} to {} are known",
                    static_cast<int>(description.sequences()), static_cast<int>(wire::SequenceMemory_MIN),
                    static_cast<int>(wire::SequenceMemory_MAX));
  facts.sequences = description.sequences();
  if (description.fingerprint().size() > gpuactors::limits::name_length)
    return nonsense("it has a fingerprint of {} bytes: at most {} are allowed", description.fingerprint().size(),
                    gpuactors::limits::name_length);
  facts.fingerprint = description.fingerprint();
  if (generative) {
    facts.max_running = static_cast<std::uint64_t>(description.max_running());
    return facts;
  }
  facts.row_in_bytes = sum_of_rows(facts.inputs);
  facts.row_out_bytes = sum_of_rows(facts.outputs);
  facts.takes_texts = has_texts(facts.inputs);
  facts.answers_texts = has_texts(facts.outputs);
  const auto row = std::max(facts.row_in_bytes, facts.row_out_bytes);
  if (row > facts.max_bytes)
    return nonsense("rows of {} and {} bytes; a row has at most {}", facts.row_in_bytes, facts.row_out_bytes,
                    facts.max_bytes);
  facts.max_rows = facts.max_bytes / row;
  // Each row may be a request of its own, of which the message says the sequence.
  if (facts.has_sequences())
    facts.max_rows = std::min<std::uint64_t>(facts.max_rows,
                                             most_message_bytes / (sequence_bytes + (facts.takes_tensors ? 0 : row)));
  if (facts.max_rows == 0)
    return nonsense("rows of {} and {} bytes; a row of a model with sequences has at most {}", facts.row_in_bytes,
                    facts.row_out_bytes, most_message_bytes - sequence_bytes);
  if (description.max_rows() > 0)
    facts.max_rows = std::min(facts.max_rows, static_cast<std::uint64_t>(description.max_rows()));
  return facts;
}

Result<void> check_same(const ModelFacts& facts, const wire::ReplicaDescription& description) {
  auto other = read_facts(description, facts.generative);
  if (!other)
    return nonsense("it describes itself in a way that makes no sense: {}", other.error().message());
  if (other->fingerprint != facts.fingerprint)
    return nonsense("it has loaded something else than the first replica of {} (fingerprint \"{}\", and not \"{}\"): "
                    "what is at that place has changed; load it as a new version",
                    facts.title, cut_text(other->fingerprint, gpuactors::limits::name_length),
                    cut_text(facts.fingerprint, gpuactors::limits::name_length));
  if (other->inputs == facts.inputs && other->outputs == facts.outputs && other->max_rows == facts.max_rows
      && other->max_running == facts.max_running && other->sequences == facts.sequences
      && other->takes_tensors == facts.takes_tensors)
    return {};
  if (other->sequences != facts.sequences)
    return nonsense("it keeps {} of sequences, and the first replica of {} {}",
                    wire::SequenceMemory_Name(other->sequences), facts.title,
                    wire::SequenceMemory_Name(facts.sequences));
  if (other->takes_tensors != facts.takes_tensors)
    return nonsense("it takes batches {}, and the first replica of {} does not",
                    other->takes_tensors ? "as tensors, too" : "as messages only", facts.title);
  const auto bound = [](const ModelFacts& which) {
    return which.generative ? fmt::format("up to {} requests at once", which.max_running)
                            : fmt::format("up to {} rows", which.max_rows);
  };
  return nonsense("it describes itself otherwise than the first replica of {}: {} to {}, {}, and not {} to {}, {}",
                  facts.title, text_of(other->inputs), text_of(other->outputs), bound(*other), text_of(facts.inputs),
                  text_of(facts.outputs), bound(facts));
}

Result<void> check_beside(const ModelFacts& serves, const ModelFacts& comes) {
  if (comes.inputs == serves.inputs && comes.outputs == serves.outputs && comes.generative == serves.generative
      && comes.sequences == serves.sequences)
    return {};
  const auto form = [others = comes.sequences != serves.sequences](const ModelFacts& facts) {
    return fmt::format("{} to {}{}{}", text_of(facts.inputs), facts.generative ? "a stream of " : "",
                       text_of(facts.outputs),
                       others ? ", with " + wire::SequenceMemory_Name(facts.sequences) : std::string{});
  };
  return gpuactors::fail(
      Errc::invalid_argument,
      fmt::format("it is {}, and version {}, beside which it would serve, is {}: requests that name no "
                  "version must fit both",
                  form(comes), serves.version, form(serves)));
}

Result<void> check_reply(const ModelFacts& facts, std::uint64_t rows, const BatchReply& reply) {
  if (reply.outputs.size() != facts.outputs.size())
    return fail(Errc::internal, fmt::format("{} answered {} outputs: it has {}", facts.title, reply.outputs.size(),
                                            facts.outputs.size()));
  for (std::size_t i = 0; i < facts.outputs.size(); ++i) {
    const auto& output = facts.outputs[i];
    if (output.is_text()) {
      GPUACTORS_TRY(check_texts(facts, output, rows, reply.outputs[i]));
      continue;
    }
    if (const auto bytes = reply.outputs[i].size(); bytes != rows * output.row_bytes)
      return fail(Errc::internal, fmt::format("{} answered {} bytes of \"{}\" for {} rows of {} bytes", facts.title,
                                              bytes, output.name, rows, output.row_bytes));
  }
  return {};
}

} // namespace serve
