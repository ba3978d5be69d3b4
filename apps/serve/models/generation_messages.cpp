#include "generation_messages.hpp"

#include "request_check.hpp"

#include <gpuactors/base/limits.hpp>

#include <apps/serve/cut_text.hpp>
#include <apps/serve/protocol/data_type.hpp>
#include <apps/serve/protocol/tensor_rules.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>

namespace serve {

using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;

namespace {

void set_value(wire::GenerateParameter& message, const Parameter& value) {
  if (const auto* flag = std::get_if<bool>(&value))
    message.set_bool_value(*flag);
  else if (const auto* whole = std::get_if<std::int64_t>(&value))
    message.set_int_value(*whole);
  else if (const auto* real = std::get_if<double>(&value))
    message.set_double_value(*real);
  else
    message.set_string_value(std::get<std::string>(value));
}

const TensorFacts* find_output(const ModelFacts& facts, std::string_view name) {
  for (const auto& output : facts.outputs)
    if (output.name == name)
      return &output;
  return nullptr;
}

bool is_wanted(const InferRequest& request, const std::string& name) {
  const auto& wanted = request.outputs;
  return wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end();
}

Result<void> check_output(const wire::GenerateReply& item, int index, const ModelFacts& facts) {
  const auto& output = item.outputs(index);
  const auto wrong = [&](const std::string& what) {
    return fail(Errc::internal, fmt::format("{} answered {}", facts.title, what));
  };
  const auto name = cut_text(output.name(), gpuactors::limits::name_length);
  const auto* known = find_output(facts, output.name());
  if (known == nullptr)
    return wrong(fmt::format("an output \"{}\", which it has not described", name));
  for (int i = 0; i < index; ++i)
    if (item.outputs(i).name() == output.name())
      return wrong(fmt::format("the output \"{}\" twice in one item", name));
  if (const std::span shape{output.shape().data(), static_cast<std::size_t>(output.shape_size())};
      !fits_shape(shape, *known->whole_shape))
    return wrong(fmt::format("the output \"{}\" in the shape {}, and has described {}", name, to_string(shape),
                             to_string(*known->whole_shape)));
  return {};
}

} // namespace

void write_sequence(wire::ReplicaSequence& message, const SequenceStep& step) {
  message.set_id(step.id);
  message.set_start(step.start);
  message.set_end(step.end);
}

wire::GenerateRequest message_of(const InferRequest& request, const ModelFacts& facts) {
  wire::GenerateRequest message;
  message.set_id(request.id);
  for (const auto& takes : facts.inputs) {
    const auto& input = *find_input(request, takes.name); // it was checked
    auto& tensor = *message.add_inputs();
    tensor.mutable_shape()->Assign(input.shape.begin(), input.shape.end());
    const auto data = input.data.view();
    tensor.set_data(data.data(), data.size());
  }
  for (const auto& [name, value] : request.parameters)
    set_value((*message.mutable_parameters())[name], value);
  for (const auto& output : request.outputs)
    message.add_outputs(output);
  if (facts.has_sequences())
    write_sequence(*message.mutable_sequence(), request.sequence);
  return message;
}

Result<InferReply> reply_of(wire::GenerateReply item, const InferRequest& request, const ModelFacts& facts) {
  if (item.outputs_size() == 0)
    return fail(Errc::internal, fmt::format("{} answered an item without outputs", facts.title));
  // The bytes stay in the message, which all outputs keep.
  const auto kept = std::make_shared<const wire::GenerateReply>(std::move(item));
  InferReply reply{facts.name, facts.version, request.id, {}};
  for (int i = 0; i < kept->outputs_size(); ++i) {
    GPUACTORS_TRY(check_output(*kept, i, facts));
    const auto& output = kept->outputs(i);
    NamedTensor tensor{output.name(),
                       find_output(facts, output.name())->type,
                       {output.shape().begin(), output.shape().end()},
                       Bytes{kept, std::as_bytes(std::span{output.data()})}};
    if (const auto whole = check_tensor(fmt::format("output \"{}\"", output.name()), tensor); !whole)
      return fail(Errc::internal,
                  fmt::format("{} answered an item that makes no sense: {}", facts.title, whole.error().message()));
    if (is_wanted(request, output.name()))
      reply.outputs.push_back(std::move(tensor));
  }
  return reply;
}

} // namespace serve
