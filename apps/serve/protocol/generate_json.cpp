#include <gpuactors/base/limits.hpp>

#include <apps/serve/cut_text.hpp>
#include <apps/serve/protocol/generate_json.hpp>
#include <apps/serve/protocol/infer_reply.hpp>
#include <apps/serve/protocol/infer_request.hpp>
#include <apps/serve/protocol/json_data.hpp>
#include <apps/serve/protocol/json_in.hpp>
#include <apps/serve/protocol/json_text.hpp>
#include <apps/serve/protocol/parameters.hpp>
#include <apps/serve/protocol/tensor_rules.hpp>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace serve {

using namespace json_in;

namespace {

using Shape = std::vector<std::int64_t>;

/// The value of one input, as text of an array; a single value is in one, too.
struct InputValue {
  const TensorSpec* takes = nullptr;
  bool single = false;
  /// With padding behind it.
  std::string array;

  [[nodiscard]] std::string_view text() const {
    return std::string_view{array}.substr(0, array.size() - simdjson::SIMDJSON_PADDING);
  }
};

Failure misplaced(const TensorSpec& takes, const std::string& what) {
  return fail(Errc::invalid_argument,
              fmt::format("{} {}, and its shape is {}", input_name(takes.name), what, to_string(takes.shape)));
}

/// The sizes of an array and of the first one in it, and so on.
Result<Shape> sizes_of(Array array) {
  Shape sizes;
  for (;;) {
    std::size_t count = 0;
    if (const auto error = array.count_elements().get(count); error != simdjson::SUCCESS)
      return malformed(error);
    sizes.push_back(static_cast<std::int64_t>(count));
    if (count == 0 || sizes.size() > gpuactors::limits::tensor_rank)
      return sizes;
    Value first;
    for (auto element : array) {
      if (const auto error = element.get(first); error != simdjson::SUCCESS)
        return malformed(error);
      break;
    }
    GPUACTORS_LET(kind, kind_of(first));
    if (kind != Kind::array)
      return sizes;
    if (const auto error = first.get_array().get(array); error != simdjson::SUCCESS)
      return malformed(error);
  }
}

/// The shape of a value whose elements are in one list.
Result<Shape> flat_shape(const TensorSpec& takes, std::int64_t count, bool single) {
  auto shape = takes.shape;
  if (single) {
    std::replace(shape.begin(), shape.end(), std::int64_t{-1}, std::int64_t{1});
    if (std::any_of(shape.begin(), shape.end(), [](auto size) { return size != 1; }))
      return misplaced(takes, "has a single value");
    return shape;
  }
  const auto open = std::count(shape.begin(), shape.end(), -1);
  if (open > 1)
    return misplaced(takes, "has one list, which does not say the sizes of its dimensions");
  if (open == 1) {
    const auto gap = std::find(shape.begin(), shape.end(), -1);
    *gap = 1;
    GPUACTORS_LET(others, count_elements(input_name(takes.name), shape));
    // What does not divide is refused by the number of elements that the rounded shape has.
    *gap = others == 0 ? 0 : count / static_cast<std::int64_t>(others);
  }
  return shape;
}

Result<NamedTensor> read_tensor(const InputValue& value) {
  const auto& takes = *value.takes;
  const auto text = value.text();
  std::optional<simdjson::ondemand::parser> own;
  auto& parser = parser_for(text.size(), own);
  simdjson::ondemand::document document;
  const auto open = [&]() -> Result<Array> {
    auto error = parser.iterate(text.data(), text.size(), value.array.size()).get(document);
    Array array;
    if (error == simdjson::SUCCESS)
      error = document.get_array().get(array);
    if (error != simdjson::SUCCESS)
      return malformed(error);
    return array;
  };
  GPUACTORS_LET(first_look, open());
  GPUACTORS_LET(sizes, sizes_of(first_look));
  NamedTensor tensor{takes.name, takes.type, {}, {}};
  if (sizes.size() == 1) {
    GPUACTORS_LET(shape, flat_shape(takes, sizes.front(), value.single));
    tensor.shape = std::move(shape);
  } else if (fits_shape(sizes, takes.shape)) {
    tensor.shape = std::move(sizes);
  } else {
    return misplaced(takes, fmt::format("is nested as {}", to_string(sizes)));
  }
  GPUACTORS_TRY(open());
  document.rewind();
  Value again;
  if (const auto error = document.get_value().get(again); error != simdjson::SUCCESS)
    return malformed(error);
  GPUACTORS_LET(data, read_data(again, tensor, text.size() / 2 + 1));
  tensor.data = std::move(data);
  return tensor;
}

class GenerationReader {
public:
  GenerationReader(const Bytes& body, const ModelDescription& model)
    : json_(reinterpret_cast<const char*>(body.view().data()), body.size()), model_(model) {
    // nop
  }

  Result<InferRequest> read() {
    std::optional<simdjson::ondemand::parser> own;
    GPUACTORS_TRY(read_document(parser_for(json_.size(), own), json_,
                                [this](std::string_view name, Value value) { return read_field(name, value); }));
    own.reset(); // each value is parsed once more
    for (const auto& value : values_) {
      GPUACTORS_LET(tensor, read_tensor(value));
      request_.inputs.push_back(std::move(tensor));
    }
    GPUACTORS_TRY(check_sequence(request_.sequence));
    return std::move(request_);
  }

private:
  Result<void> read_field(std::string_view key, Value value) {
    const std::string name{key};
    GPUACTORS_TRY(note(name));
    if (name == "id") {
      GPUACTORS_LET(id, read_string(value, "\"id\""));
      GPUACTORS_TRY(check_id(id));
      request_.id = std::move(id);
      return {};
    }
    if (name == "parameters")
      return read_object(value, "\"parameters\"", [this](std::string_view inner, Value what) -> Result<void> {
        const std::string parameter{inner};
        GPUACTORS_TRY(note(parameter));
        // Triton takes inputs from here, too, and clients send them here.
        if (const auto* input = find_input(parameter))
          return read_input(*input, what);
        return read_parameter(parameter, what);
      });
    if (const auto* input = find_input(name))
      return read_input(*input, value);
    GPUACTORS_LET(kind, kind_of(value));
    if (!model_.generative || kind == Kind::object || kind == Kind::array || kind == Kind::null)
      return fail(
          Errc::invalid_argument,
          fmt::format("model \"{}\" has no input \"{}\": the keys are its inputs ({}), \"id\" and \"parameters\"",
                      model_.name, cut_text(name, gpuactors::limits::name_length), names()));
    return read_parameter(name, value);
  }

  /// A key, or a parameter, that must not come twice.
  Result<void> note(const std::string& name) {
    bool seen = !seen_.insert(name).second;
    return once(seen, cut_text(name, gpuactors::limits::name_length));
  }

  [[nodiscard]] const TensorSpec* find_input(std::string_view name) const {
    for (const auto& input : model_.inputs)
      if (input.name == name)
        return &input;
    return nullptr;
  }

  [[nodiscard]] std::string names() const {
    std::string text;
    for (const auto& input : model_.inputs)
      text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", input.name);
    return text;
  }

  Result<void> read_parameter(const std::string& name, Value value) {
    const auto what = fmt::format("the parameter \"{}\"", cut_text(name, gpuactors::limits::name_length));
    // What is small in JSON takes far more memory than text.
    if (++parameters_ > most_parameters)
      return fail(Errc::invalid_argument, fmt::format("the request has more than {} parameters", most_parameters));
    GPUACTORS_LET(is_term, read_terms(name, value, what, request_));
    if (is_term)
      return {};
    if (const auto number = sequence_parameter(name))
      return read_sequence(*number, value, request_.sequence);
    GPUACTORS_TRY(refuse_parameter(name));
    GPUACTORS_LET(parameter, read_parameter_value(value, what));
    if (is_for_server(name))
      return {};
    const auto* text = std::get_if<std::string>(&parameter);
    GPUACTORS_TRY(count_parameter(name, text != nullptr ? text->size() : 0, parameter_bytes_));
    // An ordinary model has nothing that would understand it.
    if (model_.generative)
      request_.parameters.emplace(name, std::move(parameter));
    return {};
  }

  Result<void> read_input(const TensorSpec& takes, Value value) {
    GPUACTORS_LET(kind, kind_of(value));
    InputValue input{&takes, kind != Kind::array, {}};
    if (kind == Kind::array) {
      Array array;
      std::string_view text;
      auto error = value.get_array().get(array);
      if (error == simdjson::SUCCESS)
        error = array.raw_json().get(text);
      if (error != simdjson::SUCCESS)
        return malformed(error);
      input.array = text;
    } else if (kind == Kind::object || kind == Kind::null) {
      return fail(Errc::invalid_argument, fmt::format("{} is not a value or a list of them", input_name(takes.name)));
    } else {
      input.array.append("[").append(value.raw_json_token()).append("]");
    }
    input.array.append(simdjson::SIMDJSON_PADDING, ' ');
    values_.push_back(std::move(input));
    return {};
  }

  std::string_view json_;
  const ModelDescription& model_;
  std::set<std::string> seen_;
  std::size_t parameters_ = 0;
  std::size_t parameter_bytes_ = 0;
  std::vector<InputValue> values_;
  InferRequest request_;
};

} // namespace

SequenceStep find_sequence(const Bytes& body) {
  const std::string_view json{reinterpret_cast<const char*>(body.view().data()), body.size()};
  SequenceStep step;
  if (json.find(sequence_parameters.front()) == std::string_view::npos)
    return step;
  const auto read = [&step](std::string_view name, Value value) -> Result<void> {
    const auto number = sequence_parameter(name);
    return number ? read_sequence(*number, value, step) : Result<void>{};
  };
  std::optional<simdjson::ondemand::parser> own;
  const auto found =
      read_document(parser_for(json.size(), own), json, [&](std::string_view name, Value value) -> Result<void> {
        return name == "parameters" ? read_object(value, name, read) : read(name, value);
      });
  return found && check_sequence(step) ? step : SequenceStep{};
}

Result<InferRequest> read_generation(const Bytes& body, const ModelDescription& model) {
  if (body.size() == 0)
    return fail(Errc::invalid_argument, "the request has no body: JSON with the model's inputs is expected");
  return GenerationReader{body, model}.read();
}

Result<std::string> write_generation(const InferReply& reply, HeldShare& share) {
  TextRoom room{share};
  JsonText json;
  json.object();
  if (!reply.id.empty())
    json.key("id").value(reply.id);
  json.key("model_name").value(reply.model).key("model_version").value(reply.version);
  for (const auto& output : reply.outputs) {
    GPUACTORS_LET(count, count_elements(output.name, output.shape));
    Result<void> written;
    json.key(output.name).value_by([&](std::string& text) {
      text += count == 1 ? "" : "[";
      written = append_elements(text, output, room);
      text += count == 1 ? "" : "]";
    });
    if (!written && written.error().code() == Errc::no_capacity)
      return fail(written.error());
    if (!written)
      return fail(written.error().code(), written.error().message() + ": ask for it over gRPC");
  }
  json.close();
  return std::move(json).take();
}

} // namespace serve
