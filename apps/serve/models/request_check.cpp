#include "request_check.hpp"

#include <gpuactors/base/limits.hpp>

#include <apps/serve/cut_text.hpp>
#include <apps/serve/protocol/data_type.hpp>
#include <apps/serve/protocol/sizes.hpp>
#include <apps/serve/protocol/tensor_rules.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace serve {

using gpuactors::Errc;
using gpuactors::Result;

namespace {

/// What a message to a generative model has at most beside the bytes of its inputs: in all and for each of them; and
/// for each parameter.
constexpr std::size_t generation_head = 256;
constexpr std::size_t parameter_head = 32;

template <class... Args>
gpuactors::Failure misfit(const ModelFacts& facts, fmt::format_string<Args...> format, Args&&... args) {
  return gpuactors::fail(Errc::invalid_argument,
                         fmt::format("model {} {}", facts.name, fmt::format(format, std::forward<Args>(args)...)));
}

std::string in_quotes(std::string_view name) {
  return fmt::format("\"{}\"", cut_text(name, gpuactors::limits::name_length));
}

/// ""a" and "b"".
std::string names_of(const std::vector<TensorFacts>& tensors) {
  std::string names;
  for (const auto& tensor : tensors)
    names += (names.empty() ? "" : " and ") + in_quotes(tensor.name);
  return names;
}

/// "one input, "x"", or "2 inputs, "a" and "b"".
std::string inputs_of(const ModelFacts& facts) {
  const auto count = facts.inputs.size();
  return fmt::format("{}, {}", count == 1 ? "one input" : fmt::format("{} inputs", count), names_of(facts.inputs));
}

/// "its output is "y"", or "its outputs are "a" and "b"".
std::string its(const char* kind, const std::vector<TensorFacts>& tensors) {
  return fmt::format("its {}{} {}", kind, tensors.size() == 1 ? " is" : "s are", names_of(tensors));
}

/// The inputs of a request are those of the model, by their names.
Result<void> check_input_names(const InferRequest& request, const ModelFacts& facts) {
  if (request.inputs.size() != facts.inputs.size())
    return misfit(facts, "has {}, and the request has {}", inputs_of(facts), request.inputs.size());
  for (const auto& input : request.inputs)
    if (std::none_of(facts.inputs.begin(), facts.inputs.end(), [&](const auto& one) { return one.name == input.name; }))
      return misfit(facts, "has no input {}: {}", in_quotes(input.name), its("input", facts.inputs));
  for (const auto& takes : facts.inputs)
    if (find_input(request, takes.name) == nullptr)
      return misfit(facts, "takes \"{}\", which the request lacks", takes.name);
  return {};
}

Result<void> check_the_rest(const InferRequest& request, const ModelFacts& facts) {
  for (const auto& output : request.outputs)
    if (std::none_of(facts.outputs.begin(), facts.outputs.end(), [&](const auto& one) { return one.name == output; }))
      return misfit(facts, "has no output {}: {}", in_quotes(output), its("output", facts.outputs));
  if (!request.sequence.id.empty() && !facts.has_sequences())
    return misfit(facts, "keeps nothing from one request for the next, so that it has no sequences");
  if (request.timeout && *request.timeout <= gpuactors::Duration::zero())
    return misfit(facts, "cannot answer within a timeout of 0 or less");
  return {};
}

Result<void> check_input(const NamedTensor& input, const TensorFacts& takes, const ModelFacts& facts) {
  if (input.type != takes.type)
    return misfit(facts, "takes \"{}\" as {}, not as {}", takes.name, to_string(takes.type), to_string(input.type));
  const auto row = input.shape.empty() ? std::span<const std::int64_t>{} : std::span{input.shape}.subspan(1);
  if (input.shape.empty() || !std::equal(row.begin(), row.end(), takes.row_shape.begin(), takes.row_shape.end()))
    return misfit(facts, "takes \"{}\" in the shape [rows{}{}], not [{}]", takes.name,
                  takes.row_shape.empty() ? "" : ",", fmt::join(takes.row_shape, ","), fmt::join(input.shape, ","));
  return {};
}

} // namespace

const NamedTensor* find_input(const InferRequest& request, std::string_view name) {
  for (const auto& input : request.inputs)
    if (input.name == name)
      return &input;
  return nullptr;
}

std::uint64_t batch_bytes(const InferRequest& request, const ModelFacts& facts) {
  if (!facts.takes_texts)
    return 0;
  return bytes_of(request.inputs) + (facts.has_sequences() && !facts.takes_tensors ? sequence_bytes : 0);
}

Result<void> check_generation(const InferRequest& request, const ModelFacts& facts) {
  GPUACTORS_TRY(check_input_names(request, facts));
  auto bytes = request.id.size() + request.sequence.id.size() + generation_head;
  for (const auto& takes : facts.inputs) {
    const auto& input = *find_input(request, takes.name);
    if (input.type != takes.type)
      return misfit(facts, "takes \"{}\" as {}, not as {}", takes.name, to_string(takes.type), to_string(input.type));
    if (!fits_shape(input.shape, *takes.whole_shape))
      return misfit(facts, "takes \"{}\" in the shape {}, not {}", takes.name, to_string(*takes.whole_shape),
                    to_string(input.shape));
    GPUACTORS_TRY(check_tensor(input_name(takes.name), input));
    bytes += input.data.size() + generation_head;
  }
  for (const auto& [name, value] : request.parameters) {
    const auto* text = std::get_if<std::string>(&value);
    bytes += name.size() + (text != nullptr ? text->size() : 0) + parameter_head;
  }
  if (bytes > gpuactors::limits::payload_bytes)
    return misfit(facts, "takes requests of up to {} bytes, not of {}", gpuactors::limits::payload_bytes, bytes);
  return check_the_rest(request, facts);
}

Result<std::uint64_t> check_request(const InferRequest& request, const ModelFacts& facts, std::uint64_t max_batch) {
  GPUACTORS_TRY(check_input_names(request, facts));
  std::int64_t rows = 0;
  for (const auto& takes : facts.inputs) {
    const auto* input = find_input(request, takes.name);
    GPUACTORS_TRY(check_input(*input, takes, facts));
    if (&takes == &facts.inputs.front())
      rows = input->shape[0];
    else if (input->shape[0] != rows)
      return misfit(facts, "takes as many rows of each input, not {} of \"{}\" and {} of \"{}\"", rows,
                    facts.inputs.front().name, input->shape[0], takes.name);
    if (rows < 1 || static_cast<std::uint64_t>(rows) > max_batch)
      return misfit(facts, "takes 1 to {} rows in a request, not {}", max_batch, rows);
    if (takes.is_text()) {
      GPUACTORS_TRY(check_tensor(input_name(takes.name), *input));
      continue;
    }
    const auto expected = static_cast<std::size_t>(rows) * takes.row_bytes;
    if (input->data.size() != expected)
      return misfit(facts, "takes {} bytes for {} rows, and the request has {}", expected, rows, input->data.size());
  }
  // No batch could have it, not even one of its own.
  if (const auto bytes = batch_bytes(request, facts); bytes > facts.max_bytes)
    return misfit(facts, "takes inputs of up to {} bytes in a request, not of {}", facts.max_bytes, bytes);
  GPUACTORS_TRY(check_the_rest(request, facts));
  return static_cast<std::uint64_t>(rows);
}

} // namespace serve
