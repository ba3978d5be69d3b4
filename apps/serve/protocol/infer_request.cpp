#include <gpuactors/base/limits.hpp>

#include <apps/serve/cut_text.hpp>
#include <apps/serve/protocol/data_type.hpp>
#include <apps/serve/protocol/infer_request.hpp>
#include <apps/serve/protocol/json_data.hpp>
#include <apps/serve/protocol/json_in.hpp>
#include <apps/serve/protocol/parameters.hpp>
#include <apps/serve/protocol/tensor_rules.hpp>

#include <algorithm>
#include <array>
#include <span>

namespace serve {

using namespace json_in;

static_assert(body_padding >= simdjson::SIMDJSON_PADDING);

namespace {

/// One input as far as the JSON tells of it.
struct InputText {
  NamedTensor tensor;
  bool has_name = false;
  bool has_type = false;
  bool has_shape = false;
  bool has_data = false;
  bool has_parameters = false;
  /// Data that came before type or shape were known.
  std::string_view deferred;
  /// Bytes behind the JSON.
  std::optional<std::uint64_t> raw_bytes;
};

/// One output as the JSON asks for it.
struct OutputText {
  std::string name;
  bool has_name = false;
  bool has_parameters = false;
  std::optional<bool> binary;
};

class InferenceReader {
public:
  InferenceReader(const Bytes& body, std::size_t json_bytes)
    : body_(body), json_(reinterpret_cast<const char*>(body.view().data()), json_bytes), raw_at_(json_bytes) {
    // nop
  }

  Result<HttpInference> read() {
    std::optional<simdjson::ondemand::parser> own;
    auto& parser = parser_for(json_.size(), own);
    GPUACTORS_TRY(
        read_document(parser, json_, [this](std::string_view name, Value value) { return read_field(name, value); }));
    own.reset(); // data that came before its type is parsed once more
    for (auto& input : inputs_)
      GPUACTORS_TRY(finish_input(input));
    if (raw_at_ != body_.size())
      return fail(Errc::invalid_argument,
                  fmt::format("{} bytes follow the tensors that the request's JSON tells of: is a binary_data_size or "
                              "the Inference-Header-Content-Length wrong?",
                              body_.size() - raw_at_));
    GPUACTORS_TRY(check_names(result_.request));
    GPUACTORS_TRY(check_sequence(result_.request.sequence));
    return std::move(result_);
  }

private:
  Result<void> read_field(std::string_view name, Value value) {
    if (name == "id") {
      GPUACTORS_TRY(once(has_id_, name));
      GPUACTORS_LET(id, read_string(value, "\"id\""));
      GPUACTORS_TRY(check_id(id));
      result_.request.id = std::move(id);
      return {};
    }
    if (name == "parameters") {
      GPUACTORS_TRY(once(has_parameters_, name));
      return read_object(value, "\"parameters\"",
                         [this](std::string_view key, Value inner) { return read_parameter(key, inner); });
    }
    if (name == "inputs") {
      GPUACTORS_TRY(once(has_inputs_, name));
      return read_array(value, "\"inputs\"", [this](Value inner) { return read_input(inner); });
    }
    if (name == "outputs") {
      GPUACTORS_TRY(once(has_outputs_, name));
      return read_array(value, "\"outputs\"", [this](Value inner) { return read_output(inner); });
    }
    return skip(value);
  }

  Result<void> read_parameter(std::string_view name, Value value) {
    const auto what = fmt::format("the parameter \"{}\"", name);
    if (name == "binary_data_output") {
      GPUACTORS_TRY(once(has_form_, name));
      GPUACTORS_LET(binary, read_boolean(value, what));
      result_.form.binary = binary;
      return {};
    }
    if (name == "priority") {
      GPUACTORS_TRY(once(has_priority_, name));
      GPUACTORS_LET(priority, read_count(value, what));
      result_.request.priority = priority;
      return {};
    }
    if (name == "timeout") {
      GPUACTORS_TRY(once(has_timeout_, name));
      GPUACTORS_LET(microseconds, read_count(value, what));
      result_.request.timeout = timeout_of(microseconds);
      return {};
    }
    if (const auto number = sequence_parameter(name)) {
      GPUACTORS_TRY(once(has_sequence_.at(*number), name));
      return read_sequence(*number, value, result_.request.sequence);
    }
    GPUACTORS_TRY(refuse_parameter(name));
    return skip(value);
  }

  // -- inputs ----------------------------------------------------------------------------------

  Result<void> read_input(Value value) {
    InputText input;
    GPUACTORS_TRY(read_object(value, "an element of \"inputs\"", [&](std::string_view name, Value inner) {
      return read_input_field(input, name, inner);
    }));
    const auto* missing = !input.has_name    ? "name"
                          : !input.has_type  ? "datatype"
                          : !input.has_shape ? "shape"
                                             : nullptr;
    if (missing != nullptr)
      return fail(Errc::invalid_argument, fmt::format("{} has no \"{}\"", input_name(input.tensor.name), missing));
    // Refused here, before there are as many as the sender likes.
    if (inputs_.size() == most_tensors)
      return fail(Errc::invalid_argument, fmt::format("the request has more than {} inputs", most_tensors));
    inputs_.push_back(std::move(input));
    return {};
  }

  Result<void> read_input_field(InputText& input, std::string_view name, Value value) {
    if (name == "name") {
      GPUACTORS_TRY(once(input.has_name, name));
      GPUACTORS_LET(text, read_string(value, "the \"name\" of an input"));
      input.tensor.name = std::move(text);
      return {};
    }
    if (name == "datatype") {
      GPUACTORS_TRY(once(input.has_type, name));
      GPUACTORS_LET(text, read_string(value, "the \"datatype\" of an input"));
      const auto type = parse_data_type(text);
      if (!type)
        return fail(Errc::invalid_argument, fmt::format("there is no datatype \"{}\": FP32 is one, for example",
                                                        cut_text(text, gpuactors::limits::name_length)));
      input.tensor.type = *type;
      return {};
    }
    if (name == "shape") {
      GPUACTORS_TRY(once(input.has_shape, name));
      return read_array(value, "the \"shape\" of an input", [&](Value inner) { return read_size(input, inner); });
    }
    if (name == "parameters") {
      GPUACTORS_TRY(once(input.has_parameters, name));
      return read_object(value, "the \"parameters\" of an input",
                         [&](std::string_view key, Value inner) { return read_input_parameter(input, key, inner); });
    }
    if (name == "data") {
      GPUACTORS_TRY(once(input.has_data, name));
      return read_input_data(input, value);
    }
    return skip(value);
  }

  static Result<void> read_size(InputText& input, Value value) {
    std::int64_t size = 0;
    if (const auto error = value.get_int64().get(size); error != simdjson::SUCCESS)
      return mistyped(error, fmt::format("a dimension of {}", input_name(input.tensor.name)),
                      "a whole number of 64 bits");
    input.tensor.shape.push_back(size);
    // More are refused at once: the list would be as long as the sender likes.
    return discard(count_elements(input_name(input.tensor.name), input.tensor.shape));
  }

  static Result<void> discard(Result<std::uint64_t> result) {
    GPUACTORS_TRY(result);
    return {};
  }

  static Result<void> read_input_parameter(InputText& input, std::string_view name, Value value) {
    if (name == "binary_data_size") {
      bool seen = input.raw_bytes.has_value();
      GPUACTORS_TRY(once(seen, name));
      GPUACTORS_LET(bytes, read_count(value, "the parameter \"binary_data_size\""));
      input.raw_bytes = bytes;
      return {};
    }
    GPUACTORS_TRY(refuse_parameter(name));
    return skip(value);
  }

  Result<void> read_input_data(InputText& input, Value value) {
    if (input.has_name && input.has_type && input.has_shape) {
      GPUACTORS_LET(data, read_data(value, input.tensor, most_elements_in(json_)));
      input.tensor.data = std::move(data);
      return {};
    }
    Array array;
    if (const auto error = value.get_array().get(array); error != simdjson::SUCCESS)
      return mistyped(error, "the \"data\" of an input", "an array");
    if (const auto error = array.raw_json().get(input.deferred); error != simdjson::SUCCESS)
      return malformed(error);
    return {};
  }

  /// Two characters are the least that an element takes.
  static std::size_t most_elements_in(std::string_view json) {
    return json.size() / 2 + 1;
  }

  Result<void> finish_input(InputText& input) {
    const auto what = input_name(input.tensor.name);
    if (input.has_data && input.raw_bytes)
      return fail(Errc::invalid_argument, what + " has both \"data\" and \"binary_data_size\": one is needed");
    if (!input.has_data && !input.raw_bytes)
      return fail(Errc::invalid_argument, what + " has neither \"data\" nor the parameter \"binary_data_size\"");
    if (input.raw_bytes)
      GPUACTORS_TRY(take_raw(input, what));
    else if (!input.deferred.empty())
      GPUACTORS_TRY(read_deferred(input));
    result_.request.inputs.push_back(std::move(input.tensor));
    return {};
  }

  Result<void> take_raw(InputText& input, const std::string& what) {
    const auto left = body_.size() - raw_at_;
    if (*input.raw_bytes > left)
      return fail(Errc::invalid_argument,
                  fmt::format("{} has a binary_data_size of {}, but {} bytes are left in the body (is the "
                              "Inference-Header-Content-Length right?)",
                              what, *input.raw_bytes, left));
    const auto bytes = static_cast<std::size_t>(*input.raw_bytes);
    input.tensor.data = body_.part(raw_at_, bytes);
    raw_at_ += bytes;
    return check_tensor(what, input.tensor);
  }

  static Result<void> read_deferred(InputText& input) {
    simdjson::ondemand::parser parser;
    simdjson::ondemand::document document;
    const auto text = input.deferred;
    auto error = parser.iterate(text.data(), text.size(), text.size() + simdjson::SIMDJSON_PADDING).get(document);
    Value value;
    if (error == simdjson::SUCCESS)
      error = document.get_value().get(value);
    if (error != simdjson::SUCCESS)
      return malformed(error);
    GPUACTORS_LET(data, read_data(value, input.tensor, most_elements_in(text)));
    input.tensor.data = std::move(data);
    return {};
  }

  // -- outputs ---------------------------------------------------------------------------------

  Result<void> read_output(Value value) {
    OutputText output;
    GPUACTORS_TRY(read_object(value, "an element of \"outputs\"", [&](std::string_view name, Value inner) {
      return read_output_field(output, name, inner);
    }));
    if (!output.has_name)
      return fail(Errc::invalid_argument, "an element of \"outputs\" has no \"name\"");
    if (result_.request.outputs.size() == most_tensors)
      return fail(Errc::invalid_argument, fmt::format("the request names more than {} outputs", most_tensors));
    if (output.binary)
      result_.form.chosen.emplace_back(output.name, *output.binary);
    result_.request.outputs.push_back(std::move(output.name));
    return {};
  }

  static Result<void> read_output_field(OutputText& output, std::string_view name, Value value) {
    if (name == "name") {
      GPUACTORS_TRY(once(output.has_name, name));
      GPUACTORS_LET(text, read_string(value, "the \"name\" of an output"));
      output.name = std::move(text);
      return {};
    }
    if (name != "parameters")
      return skip(value);
    GPUACTORS_TRY(once(output.has_parameters, name));
    return read_object(value, "the \"parameters\" of an output",
                       [&](std::string_view key, Value inner) { return read_output_parameter(output, key, inner); });
  }

  static Result<void> read_output_parameter(OutputText& output, std::string_view name, Value value) {
    if (name == "binary_data") {
      bool seen = output.binary.has_value();
      GPUACTORS_TRY(once(seen, name));
      GPUACTORS_LET(wanted, read_boolean(value, "the parameter \"binary_data\""));
      output.binary = wanted;
      return {};
    }
    GPUACTORS_TRY(refuse_parameter(name));
    return skip(value);
  }

  const Bytes& body_;
  std::string_view json_;
  /// Where in the body the raw bytes begin that no input has taken yet.
  std::size_t raw_at_;
  std::vector<InputText> inputs_;
  HttpInference result_;
  bool has_id_ = false;
  bool has_parameters_ = false;
  bool has_inputs_ = false;
  bool has_outputs_ = false;
  bool has_form_ = false;
  bool has_priority_ = false;
  bool has_timeout_ = false;
  std::array<bool, sequence_parameters.size()> has_sequence_{};
};

/// The shape that `bytes` bytes of a model's input have.
Result<std::vector<std::int64_t>> raw_shape(const TensorSpec& input, const ModelDescription& model, std::size_t bytes) {
  auto shape = input.shape;
  if (model.max_batch > 0 && !shape.empty())
    shape.front() = 1;
  const auto open = std::count(shape.begin(), shape.end(), -1);
  if (open > 1)
    return fail(Errc::invalid_argument,
                fmt::format("{} of model \"{}\" has the shape {}: its size alone does not say the dimensions, so a "
                            "request needs JSON",
                            input_name(input.name), model.name, to_string(input.shape)));
  if (open == 1) {
    const auto gap = std::find(shape.begin(), shape.end(), -1);
    *gap = 1;
    GPUACTORS_LET(others, count_elements(input_name(input.name), shape));
    const auto step = others * std::max<std::size_t>(element_bytes(input.type), 1);
    // What does not divide is refused with the size that the rounded shape would have.
    *gap = input.type == DataType::bytes || step == 0 ? 1 : static_cast<std::int64_t>(bytes / step);
  }
  return shape;
}

} // namespace

bool OutputForm::is_binary(std::string_view output) const noexcept {
  for (const auto& [name, wanted] : chosen)
    if (name == output)
      return wanted;
  return binary;
}

Result<HttpInference> read_inference(const Bytes& body, std::optional<std::uint64_t> json_bytes) {
  if (json_bytes && *json_bytes > body.size())
    return fail(Errc::invalid_argument, fmt::format("the Inference-Header-Content-Length is {}, but the body has {} "
                                                    "bytes",
                                                    *json_bytes, body.size()));
  if (body.size() == 0)
    return fail(Errc::invalid_argument, "the request has no body: JSON with \"inputs\" is expected");
  return InferenceReader{body, static_cast<std::size_t>(json_bytes.value_or(body.size()))}.read();
}

Result<HttpInference> read_raw_inference(const Bytes& body, const ModelDescription& model) {
  if (model.inputs.size() != 1)
    return fail(Errc::invalid_argument,
                fmt::format("model \"{}\" has {} inputs: raw bytes without JSON are for models with one", model.name,
                            model.inputs.size()));
  const auto& input = model.inputs.front();
  GPUACTORS_LET(shape, raw_shape(input, model, body.size()));
  HttpInference result;
  result.form.binary = true;
  auto& tensor = result.request.inputs.emplace_back(NamedTensor{input.name, input.type, std::move(shape), body});
  if (input.type == DataType::bytes) {
    std::string element;
    append_bytes_element(element, {reinterpret_cast<const char*>(body.view().data()), body.size()});
    tensor.data = Bytes::of(std::move(element));
  }
  GPUACTORS_TRY(check_tensor(input_name(input.name), tensor));
  return result;
}

} // namespace serve
