#include "model_facts.hpp"

#include <gpuactors/base/limits.hpp>

#include <apps/serve/cut_text.hpp>
#include <apps/serve/protocol/data_type.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace serve {

using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;

namespace {

/// Inputs, or outputs, of one model.
constexpr int most_row_tensors = 16;

/// What a message has beside the rows of a batch, at most.
constexpr std::size_t message_head = 256;
constexpr auto most_row_bytes = gpuactors::limits::payload_bytes - message_head;

template <class... Args>
gpuactors::Failure nonsense(fmt::format_string<Args...> format, Args&&... args) {
  return fail(Errc::invalid_argument, fmt::format(format, std::forward<Args>(args)...));
}

/// Bytes of a row; above `most_row_bytes` where it does not fit into a message.
Result<std::size_t> row_bytes(const std::string& what, std::size_t element, const std::vector<std::int64_t>& shape) {
  if (shape.size() + 1 > gpuactors::limits::tensor_rank)
    return nonsense("{} has rows of {} dimensions: at most {} are allowed", what, shape.size(),
                    gpuactors::limits::tensor_rank - 1);
  auto bytes = element;
  for (const auto size : shape) {
    if (size < 1)
      return nonsense("{} has rows of the shape [{}]: each dimension is at least 1", what, fmt::join(shape, ","));
    if (static_cast<std::uint64_t>(size) > most_row_bytes / bytes)
      return nonsense("{} has rows of the shape [{}]: a row has at most {} bytes", what, fmt::join(shape, ","),
                      most_row_bytes);
    bytes *= static_cast<std::size_t>(size);
  }
  return bytes;
}

Result<TensorFacts> read_tensor(const char* kind, const wire::ReplicaTensor& tensor) {
  if (tensor.name().empty() || tensor.name().size() > gpuactors::limits::name_length)
    return nonsense("an {} has a name of {} bytes: 1 to {} are allowed", kind, tensor.name().size(),
                    gpuactors::limits::name_length);
  const auto what = fmt::format("{} \"{}\"", kind, tensor.name());
  const auto type = parse_data_type(tensor.datatype());
  if (!type)
    return nonsense("{} is of the datatype \"{}\": one of the protocol, such as FP32, is expected", what,
                    cut_text(tensor.datatype(), gpuactors::limits::name_length));
  if (element_bytes(*type) == 0)
    return nonsense("{} is of the datatype {}, whose elements have no fixed size", what, tensor.datatype());
  TensorFacts facts{tensor.name(), *type, {tensor.row_shape().begin(), tensor.row_shape().end()}, 0};
  GPUACTORS_LET(bytes, row_bytes(what, element_bytes(*type), facts.row_shape));
  facts.row_bytes = bytes;
  return facts;
}

template <class Tensors>
Result<std::vector<TensorFacts>> read_tensors(const char* kind, const Tensors& tensors) {
  if (tensors.empty() || tensors.size() > most_row_tensors)
    return nonsense("it has {} {}s: 1 to {} are allowed", tensors.size(), kind, most_row_tensors);
  std::vector<TensorFacts> result;
  for (const auto& tensor : tensors) {
    GPUACTORS_LET(facts, read_tensor(kind, tensor));
    for (const auto& other : result)
      if (other.name == facts.name)
        return nonsense("it has two {}s with the name \"{}\"", kind, facts.name);
    result.push_back(std::move(facts));
  }
  return result;
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
                        fmt::join(tensor.row_shape, ","));
  return text;
}

} // namespace

std::vector<std::int64_t> TensorFacts::shape(std::int64_t rows) const {
  std::vector<std::int64_t> result{rows};
  result.insert(result.end(), row_shape.begin(), row_shape.end());
  return result;
}

std::string title_of(std::string_view model, std::string_view version) {
  return fmt::format("model {}, version {}", model, version);
}

Result<ModelFacts> read_facts(const wire::ReplicaDescription& description) {
  ModelFacts facts;
  GPUACTORS_LET(inputs, read_tensors("input", description.inputs()));
  GPUACTORS_LET(outputs, read_tensors("output", description.outputs()));
  facts.inputs = std::move(inputs);
  facts.outputs = std::move(outputs);
  facts.row_in_bytes = sum_of_rows(facts.inputs);
  facts.row_out_bytes = sum_of_rows(facts.outputs);
  const auto row = std::max(facts.row_in_bytes, facts.row_out_bytes);
  if (row > most_row_bytes)
    return nonsense("rows of {} and {} bytes; a row has at most {}", facts.row_in_bytes, facts.row_out_bytes,
                    most_row_bytes);
  if (description.max_rows() < 0)
    return nonsense("it takes batches of up to {} rows", description.max_rows());
  facts.max_rows = most_row_bytes / row;
  if (description.max_rows() > 0)
    facts.max_rows = std::min(facts.max_rows, static_cast<std::uint64_t>(description.max_rows()));
  return facts;
}

Result<void> check_same(const ModelFacts& facts, const wire::ReplicaDescription& description) {
  auto other = read_facts(description);
  if (!other)
    return nonsense("it describes itself in a way that makes no sense: {}", other.error().message());
  if (other->inputs == facts.inputs && other->outputs == facts.outputs && other->max_rows == facts.max_rows)
    return {};
  return nonsense("it describes itself otherwise than the first replica of {}: {} to {}, up to {} rows, and not {} to "
                  "{}, up to {} rows",
                  facts.title, text_of(other->inputs), text_of(other->outputs), other->max_rows, text_of(facts.inputs),
                  text_of(facts.outputs), facts.max_rows);
}

Result<void> check_reply(const ModelFacts& facts, std::uint64_t rows, const wire::ReplicaReply& reply) {
  if (static_cast<std::size_t>(reply.outputs_size()) != facts.outputs.size())
    return fail(Errc::internal, fmt::format("{} answered {} outputs: it has {}", facts.title, reply.outputs_size(),
                                            facts.outputs.size()));
  for (std::size_t i = 0; i < facts.outputs.size(); ++i) {
    const auto& output = facts.outputs[i];
    if (const auto& bytes = reply.outputs(static_cast<int>(i)); bytes.size() != rows * output.row_bytes)
      return fail(Errc::internal, fmt::format("{} answered {} bytes of \"{}\" for {} rows of {} bytes", facts.title,
                                              bytes.size(), output.name, rows, output.row_bytes));
  }
  return {};
}

} // namespace serve
