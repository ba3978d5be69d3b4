#include <apps/serve/protocol/data_type.hpp>
#include <apps/serve/protocol/documents.hpp>
#include <apps/serve/protocol/messages.hpp>
#include <apps/serve/protocol/parameters.hpp>
#include <apps/serve/protocol/tensor_rules.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

namespace serve {

using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;

namespace {

using Parameters = google::protobuf::Map<std::string, inference::InferParameter>;

Result<std::uint64_t> count_of(const inference::InferParameter& parameter, std::string_view name) {
  if (parameter.parameter_choice_case() == inference::InferParameter::kUint64Param)
    return parameter.uint64_param();
  if (parameter.parameter_choice_case() == inference::InferParameter::kInt64Param && parameter.int64_param() >= 0)
    return static_cast<std::uint64_t>(parameter.int64_param());
  return fail(Errc::invalid_argument, fmt::format("the parameter \"{}\" is not a whole number of at least 0", name));
}

/// Reads the parameter of that number among `sequence_parameters`.
Result<void> read_sequence(std::size_t number, const inference::InferParameter& parameter, SequenceStep& step) {
  const auto name = sequence_parameters.at(number);
  if (number == 0 && parameter.parameter_choice_case() == inference::InferParameter::kStringParam)
    return set_sequence_id(step, std::string{parameter.string_param()});
  if (number == 0) {
    GPUACTORS_LET(id, count_of(parameter, name));
    return set_sequence_id(step, id);
  }
  if (parameter.parameter_choice_case() != inference::InferParameter::kBoolParam)
    return fail(Errc::invalid_argument, fmt::format("the parameter \"{}\" is not a boolean", name));
  (number == 1 ? step.start : step.end) = parameter.bool_param();
  return {};
}

/// Reads a parameter that is for the model.
Result<void> read_parameter(const std::string& name, const inference::InferParameter& parameter, InferRequest& request,
                            std::size_t& bytes) {
  GPUACTORS_TRY(count_parameter(name, parameter.string_param().size(), bytes));
  using Choice = inference::InferParameter;
  auto& all = request.parameters;
  switch (parameter.parameter_choice_case()) {
  case Choice::kBoolParam:
    all.emplace(name, parameter.bool_param());
    break;
  case Choice::kInt64Param:
    all.emplace(name, std::int64_t{parameter.int64_param()});
    break;
  case Choice::kDoubleParam:
    all.emplace(name, parameter.double_param());
    break;
  case Choice::kStringParam:
    all.emplace(name, parameter.string_param());
    break;
  case Choice::kUint64Param:
    if (!std::in_range<std::int64_t>(parameter.uint64_param()))
      return fail(Errc::invalid_argument, fmt::format("the parameter \"{}\" is {}: a whole number has at most 64 bits "
                                                      "with its sign",
                                                      name, parameter.uint64_param()));
    all.emplace(name, static_cast<std::int64_t>(parameter.uint64_param()));
    break;
  case Choice::PARAMETER_CHOICE_NOT_SET:
    break;
  }
  return {};
}

Result<void> read_parameters(const Parameters& parameters, InferRequest& request) {
  if (parameters.size() > most_parameters)
    return fail(Errc::invalid_argument, fmt::format("the request has more than {} parameters", most_parameters));
  std::size_t bytes = 0;
  for (const auto& [name, parameter] : parameters) {
    if (const auto number = sequence_parameter(name)) {
      GPUACTORS_TRY(read_sequence(*number, parameter, request.sequence));
      continue;
    }
    GPUACTORS_TRY(refuse_parameter(name));
    if (name == "priority") {
      GPUACTORS_LET(priority, count_of(parameter, name));
      request.priority = priority;
    } else if (name == "timeout") {
      GPUACTORS_LET(microseconds, count_of(parameter, name));
      request.timeout = timeout_of(microseconds);
    } else if (name == wants_end_parameter) {
      request.wants_end = parameter.bool_param();
    } else if (!is_for_server(name)) {
      GPUACTORS_TRY(read_parameter(name, parameter, request, bytes));
    }
  }
  return check_sequence(request.sequence);
}

Result<void> refuse_parameters(const Parameters& parameters) {
  for (const auto& [name, parameter] : parameters)
    GPUACTORS_TRY(refuse_parameter(name));
  return {};
}

/// The elements of a field that has them in the type that they shall have, or a wider one.
template <class T, class Field>
Result<Bytes> narrowed(const std::string& what, DataType type, const Field& field) {
  std::vector<T> values;
  values.reserve(static_cast<std::size_t>(field.size()));
  for (const auto element : field) {
    if (!std::in_range<T>(element))
      return fail(Errc::invalid_argument, fmt::format("element {} of {} is {}, which is not {}", values.size(), what,
                                                      element, to_string(type)));
    values.push_back(static_cast<T>(element));
  }
  return Bytes::of(std::move(values));
}

template <class T, class Field>
Bytes copied(const Field& field) {
  return Bytes::of(std::vector<T>(field.begin(), field.end()));
}

/// How many fields of the contents have elements.
int filled_fields(const inference::InferTensorContents& contents) {
  int filled = 0;
  for (const auto size : {contents.bool_contents_size(), contents.int_contents_size(), contents.int64_contents_size(),
                          contents.uint_contents_size(), contents.uint64_contents_size(), contents.fp32_contents_size(),
                          contents.fp64_contents_size(), contents.bytes_contents_size()})
    filled += size > 0 ? 1 : 0;
  return filled;
}

Bytes joined(const google::protobuf::RepeatedPtrField<std::string>& elements) {
  std::size_t size = 0;
  for (const auto& element : elements)
    size += bytes_element_size(element);
  std::string data;
  data.reserve(size);
  for (const auto& element : elements)
    append_bytes_element(data, element);
  return Bytes::of(std::move(data));
}

Result<Bytes> read_contents(const std::string& what, DataType type, const inference::InferTensorContents& contents) {
  // Elements in a field of another type would be passed over otherwise.
  if (filled_fields(contents) > 1)
    return fail(Errc::invalid_argument, what + " has contents in more than one field: those of its type are expected");
  switch (type) {
  case DataType::boolean:
    return copied<std::uint8_t>(contents.bool_contents());
  case DataType::uint8:
    return narrowed<std::uint8_t>(what, type, contents.uint_contents());
  case DataType::uint16:
    return narrowed<std::uint16_t>(what, type, contents.uint_contents());
  case DataType::uint32:
    return copied<std::uint32_t>(contents.uint_contents());
  case DataType::uint64:
    return copied<std::uint64_t>(contents.uint64_contents());
  case DataType::int8:
    return narrowed<std::int8_t>(what, type, contents.int_contents());
  case DataType::int16:
    return narrowed<std::int16_t>(what, type, contents.int_contents());
  case DataType::int32:
    return copied<std::int32_t>(contents.int_contents());
  case DataType::int64:
    return copied<std::int64_t>(contents.int64_contents());
  case DataType::fp32:
    return copied<float>(contents.fp32_contents());
  case DataType::fp64:
    return copied<double>(contents.fp64_contents());
  case DataType::bytes:
    return joined(contents.bytes_contents());
  case DataType::fp16:
  case DataType::bf16:
    break;
  }
  return fail(Errc::invalid_argument,
              fmt::format("{} is {}, which only raw_input_contents have", what, to_string(type)));
}

Result<void> read_input(const std::shared_ptr<const inference::ModelInferRequest>& message, int index,
                        InferRequest& request) {
  const auto& input = message->inputs(index);
  const auto what = input_name(input.name());
  const auto type = parse_data_type(input.datatype());
  if (!type)
    return fail(Errc::invalid_argument, fmt::format("{} has the datatype \"{}\", which there is not: FP32 is one, for "
                                                    "example",
                                                    what, input.datatype()));
  GPUACTORS_TRY(refuse_parameters(input.parameters()));
  NamedTensor tensor{input.name(), *type, {input.shape().begin(), input.shape().end()}, {}};
  if (message->raw_input_contents_size() > 0) {
    if (filled_fields(input.contents()) > 0)
      return fail(Errc::invalid_argument, what + " has contents beside raw_input_contents: one of them is needed");
    const auto& raw = message->raw_input_contents(index);
    tensor.data = Bytes{message, std::as_bytes(std::span{raw})};
  } else {
    GPUACTORS_LET(data, read_contents(what, *type, input.contents()));
    tensor.data = std::move(data);
  }
  GPUACTORS_TRY(check_tensor(what, tensor));
  request.inputs.push_back(std::move(tensor));
  return {};
}

void set_timed(inference::StatisticDuration& message, const Timed& timed) {
  message.set_count(timed.count);
  message.set_ns(timed.nanoseconds);
}

void set_statistics(inference::ModelStatistics& message, const ModelStatistics& model) {
  message.set_name(model.name);
  message.set_version(model.version);
  message.set_last_inference(model.last_inference_ms);
  message.set_inference_count(model.inference_count);
  message.set_execution_count(model.execution_count);
  auto& stats = *message.mutable_inference_stats();
  set_timed(*stats.mutable_success(), model.success);
  set_timed(*stats.mutable_fail(), model.fail);
  set_timed(*stats.mutable_queue(), model.queue);
  set_timed(*stats.mutable_compute_input(), model.compute_input);
  set_timed(*stats.mutable_compute_infer(), model.compute_infer);
  set_timed(*stats.mutable_compute_output(), model.compute_output);
  // Answers are not cached.
  set_timed(*stats.mutable_cache_hit(), {});
  set_timed(*stats.mutable_cache_miss(), {});
  for (const auto& [size, infer] : model.batches) {
    auto& batch = *message.add_batch_stats();
    batch.set_batch_size(size);
    // What a batch takes is measured as a whole.
    set_timed(*batch.mutable_compute_input(), {infer.count, 0});
    set_timed(*batch.mutable_compute_infer(), infer);
    set_timed(*batch.mutable_compute_output(), {infer.count, 0});
  }
}

template <class Message>
void write_spec(Message& message, const TensorSpec& tensor) {
  message.set_name(tensor.name);
  message.set_datatype(std::string{to_string(tensor.type)});
  message.mutable_shape()->Assign(tensor.shape.begin(), tensor.shape.end());
}

inference::DataType config_number(DataType type) {
  inference::DataType number = inference::TYPE_INVALID;
  inference::DataType_Parse(config_type(type), &number);
  return number;
}

template <class Message>
void write_config_tensor(Message& message, const ModelDescription& model, const TensorSpec& tensor) {
  message.set_name(tensor.name);
  message.set_data_type(config_number(tensor.type));
  const auto dims = config_dims(model, tensor);
  message.mutable_dims()->Assign(dims.begin(), dims.end());
}

template <class T>
T capped(std::uint64_t value) {
  return static_cast<T>(std::min<std::uint64_t>(value, std::numeric_limits<T>::max()));
}

} // namespace

Result<InferRequest> request_of(const std::shared_ptr<const inference::ModelInferRequest>& message) {
  GPUACTORS_TRY(check_id(message->id()));
  InferRequest request;
  request.model = message->model_name();
  request.version = message->model_version();
  request.id = message->id();
  GPUACTORS_TRY(read_parameters(message->parameters(), request));
  const auto raw = message->raw_input_contents_size();
  if (raw > 0 && raw != message->inputs_size())
    return fail(Errc::invalid_argument,
                fmt::format("the request has {} inputs and {} raw_input_contents: one for each is expected",
                            message->inputs_size(), raw));
  for (int i = 0; i < message->inputs_size(); ++i)
    GPUACTORS_TRY(read_input(message, i, request));
  for (const auto& output : message->outputs()) {
    GPUACTORS_TRY(refuse_parameters(output.parameters()));
    request.outputs.push_back(output.name());
  }
  GPUACTORS_TRY(check_names(request));
  return request;
}

inference::ModelInferResponse head_of(const InferReply& reply) {
  inference::ModelInferResponse message;
  message.set_model_name(reply.model);
  message.set_model_version(reply.version);
  message.set_id(reply.id);
  for (const auto& output : reply.outputs) {
    auto& tensor = *message.add_outputs();
    tensor.set_name(output.name);
    tensor.set_datatype(std::string{to_string(output.type)});
    tensor.mutable_shape()->Assign(output.shape.begin(), output.shape.end());
  }
  return message;
}

inference::ServerMetadataResponse server_metadata(std::string_view name, std::string_view version) {
  inference::ServerMetadataResponse message;
  message.set_name(std::string{name});
  message.set_version(std::string{version});
  for (const auto extension : extensions)
    message.add_extensions(std::string{extension});
  return message;
}

inference::ModelMetadataResponse metadata_of(const ModelDescription& model) {
  inference::ModelMetadataResponse message;
  message.set_name(model.name);
  for (const auto& version : model.versions)
    message.add_versions(version);
  message.set_platform(model.platform);
  for (const auto& input : model.inputs)
    write_spec(*message.add_inputs(), input);
  for (const auto& output : model.outputs)
    write_spec(*message.add_outputs(), output);
  return message;
}

inference::ModelConfigResponse config_of(const ModelDescription& model) {
  inference::ModelConfigResponse message;
  auto& config = *message.mutable_config();
  config.set_name(model.name);
  config.set_platform(model.platform);
  config.set_backend("gpuactors");
  config.set_max_batch_size(capped<std::int32_t>(model.max_batch));
  for (const auto& input : model.inputs)
    write_config_tensor(*config.add_input(), model, input);
  for (const auto& output : model.outputs)
    write_config_tensor(*config.add_output(), model, output);
  auto& group = *config.add_instance_group();
  group.set_name(model.name);
  group.set_count(capped<std::int32_t>(model.replicas));
  if (model.generative)
    config.mutable_model_transaction_policy()->set_decoupled(true);
  if (model.max_batch > 0) {
    auto& policy = *config.mutable_dynamic_batching()->mutable_default_queue_policy();
    policy.set_max_queue_size(capped<std::uint32_t>(model.max_queue));
    policy.set_allow_timeout_override(true);
    if (model.default_timeout)
      policy.set_default_timeout_microseconds(static_cast<std::uint64_t>(
          std::chrono::duration_cast<std::chrono::microseconds>(*model.default_timeout).count()));
  }
  return message;
}

inference::ModelStatisticsResponse statistics_of(std::span<const ModelStatistics> models) {
  inference::ModelStatisticsResponse message;
  for (const auto& model : models)
    set_statistics(*message.add_model_stats(), model);
  return message;
}

inference::RepositoryIndexResponse index_of(std::span<const RepositoryEntry> entries, bool ready_only) {
  inference::RepositoryIndexResponse message;
  for (const auto& entry : entries) {
    if (ready_only && entry.state != "READY")
      continue;
    auto& model = *message.add_models();
    model.set_name(entry.name);
    model.set_version(entry.version);
    model.set_state(entry.state);
    model.set_reason(entry.reason);
  }
  return message;
}

std::map<std::string, std::string> parameters_of(const inference::RepositoryModelLoadRequest& message) {
  std::map<std::string, std::string> result;
  for (const auto& [name, parameter] : message.parameters()) {
    using Choice = inference::ModelRepositoryParameter;
    switch (parameter.parameter_choice_case()) {
    case Choice::kBoolParam:
      result[name] = parameter.bool_param() ? "true" : "false";
      break;
    case Choice::kInt64Param:
      result[name] = std::to_string(parameter.int64_param());
      break;
    case Choice::kBytesParam:
      result[name] = parameter.bytes_param();
      break;
    default:
      result[name] = parameter.string_param();
    }
  }
  return result;
}

} // namespace serve
