#include <gpuactors/base/limits.hpp>

#include <apps/serve/cut_text.hpp>
#include <apps/serve/protocol/json_in.hpp>
#include <apps/serve/protocol/openai.hpp>
#include <apps/serve/protocol/parameters.hpp>
#include <apps/serve/protocol/tensor_rules.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace serve {

using namespace json_in;

namespace {

/// Passed over: they change nothing in the answer.
constexpr std::array<std::string_view, 6> ignored{"user",         "metadata",          "store",
                                                  "service_tier", "safety_identifier", "prompt_cache_key"};

/// What is refused unless it has the value that asks for nothing: false, 0, 1 for counts of answers, or nothing.
constexpr std::array<std::string_view, 15> wanting{
    "n",          "best_of",    "logprobs",   "top_logprobs",     "echo",
    "suffix",     "logit_bias", "functions",  "function_call",    "presence_penalty",
    "modalities", "audio",      "prediction", "reasoning_effort", "frequency_penalty"};

template <class Names>
bool is_among(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool takes_a_text(const TensorSpec& tensor) {
  return tensor.name == text_tensor && tensor.type == DataType::bytes && tensor.shape == std::vector<std::int64_t>{1};
}

Result<void> check_model(const ModelDescription& model) {
  if (writes_texts(model))
    return {};
  return fail(
      Errc::invalid_argument,
      fmt::format("model \"{0}\" does not write texts: these paths ask generative models with the input and the "
                  "output \"text\", BYTES [1]; ask this one at /v2/models/{0}",
                  model.name));
}

/// The text of a value, without whitespace behind it; of arrays and objects it is not looked at more closely.
Result<std::string_view> raw_json(Value value) {
  GPUACTORS_LET(kind, kind_of(value));
  std::string_view text;
  auto error = simdjson::SUCCESS;
  if (kind == Kind::array) {
    Array array;
    error = value.get_array().get(array);
    if (error == simdjson::SUCCESS)
      error = array.raw_json().get(text);
  } else if (kind == Kind::object) {
    Object object;
    error = value.get_object().get(object);
    if (error == simdjson::SUCCESS)
      error = object.raw_json().get(text);
  } else {
    text = value.raw_json_token();
  }
  if (error != simdjson::SUCCESS)
    return malformed(error);
  return text.substr(0, text.find_last_not_of(" \n\r\t") + 1);
}

class OpenAiReader {
public:
  OpenAiReader(OpenAiKind kind, const Bytes& body, OpenAiWishes& wishes)
    : kind_(kind), json_(reinterpret_cast<const char*>(body.view().data()), body.size()), wishes_(wishes) {
    // nop
  }

  Result<InferRequest> read() {
    std::optional<simdjson::ondemand::parser> own;
    GPUACTORS_TRY(read_document(parser_for(json_.size(), own), json_,
                                [this](std::string_view name, Value value) { return read_field(name, value); }));
    const auto* wanted = kind_ == OpenAiKind::chat ? "messages" : "prompt";
    if (!seen_.contains(wanted))
      return fail(Errc::invalid_argument, fmt::format("the request has no \"{}\"", wanted));
    std::string element;
    if (kind_ == OpenAiKind::chat) {
      append_bytes_element(element, chat_ + "}");
      request_.parameters.emplace(chat_parameter, true);
    } else {
      append_bytes_element(element, prompt_);
    }
    request_.inputs.push_back({std::string{text_tensor}, DataType::bytes, {1}, Bytes::of(std::move(element))});
    // The defaults of OpenAI are not those of models.
    request_.parameters.emplace("temperature", 1.0);
    return std::move(request_);
  }

private:
  Result<void> read_field(std::string_view key, Value value) {
    const std::string name{key};
    bool seen = !seen_.insert(name).second;
    GPUACTORS_TRY(once(seen, cut_text(name, gpuactors::limits::name_length)));
    if (seen_.size() > most_parameters)
      return fail(Errc::invalid_argument, fmt::format("the request has more than {} fields", most_parameters));
    bool null = false;
    if (const auto error = value.is_null().get(null); error != simdjson::SUCCESS)
      return malformed(error);
    if (null || is_among(ignored, name)) {
      if (null && (name == "messages" || name == "prompt"))
        return fail(Errc::invalid_argument, fmt::format("\"{}\" is null", name));
      return null ? Result<void>{} : skip(value);
    }
    if (name == "model")
      return read_string(value, "\"model\"") ? Result<void>{} : fail(Errc::invalid_argument, "\"model\" is no text");
    if (const auto read = kind_ == OpenAiKind::chat ? read_chat(name, value) : read_completion(name, value))
      return *read;
    if (name == "stop")
      return read_stops(value);
    if (name == "stream") {
      GPUACTORS_LET(flag, read_boolean(value, "\"stream\""));
      wishes_.stream = flag;
      return {};
    }
    if (name == "stream_options")
      return read_object(value, "\"stream_options\"", [this](std::string_view option, Value what) -> Result<void> {
        if (option != "include_usage")
          return skip(what);
        GPUACTORS_LET(flag, read_boolean(what, "\"include_usage\""));
        wishes_.include_usage = flag;
        return {};
      });
    if (is_among(wanting, name))
      return refuse_wish(name, value);
    return read_parameter(name == "max_completion_tokens" ? "max_tokens" : name, value);
  }

  /// @returns nothing for what only the other kind has, or both.
  std::optional<Result<void>> read_chat(const std::string& name, Value value) {
    if (name == "messages" || name == "tools" || name == "chat_template_kwargs")
      return add_to_chat(name, value);
    if (name == "tool_choice")
      return check_choice(value, "\"tool_choice\"", {"auto", "none"});
    if (name == "parallel_tool_calls")
      return skip(value);
    if (name == "response_format")
      return read_object(value, "\"response_format\"", [](std::string_view key, Value what) {
        return key == "type" ? check_choice(what, "the type of \"response_format\"", {"text"}) : skip(what);
      });
    return std::nullopt;
  }

  std::optional<Result<void>> read_completion(const std::string& name, Value value) {
    if (name != "prompt")
      return std::nullopt;
    return read_prompt(value);
  }

  Result<void> read_prompt(Value value) {
    constexpr auto what = "\"prompt\"";
    GPUACTORS_LET(kind, kind_of(value));
    if (kind != Kind::array) {
      GPUACTORS_LET(text, read_string(value, what));
      prompt_ = std::move(text);
      return {};
    }
    std::size_t count = 0;
    GPUACTORS_TRY(read_array(value, what, [&](Value element) -> Result<void> {
      GPUACTORS_LET(text, read_string(element, "\"prompt\", in its list,"));
      prompt_ = std::move(text);
      ++count;
      return {};
    }));
    if (count != 1)
      return fail(Errc::invalid_argument,
                  fmt::format("\"prompt\" has {} texts: one is answered; send a request for each", count));
    return {};
  }

  /// As it is, once it is known to be JSON.
  Result<void> add_to_chat(const std::string& name, Value value) {
    GPUACTORS_LET(kind, kind_of(value));
    const auto wanted = name == "chat_template_kwargs" ? Kind::object : Kind::array;
    if (kind != wanted)
      return fail(Errc::invalid_argument,
                  fmt::format("\"{}\" is not {}", name, wanted == Kind::array ? "an array" : "an object"));
    GPUACTORS_LET(raw, raw_json(value));
    if (chat_.size() + raw.size() > gpuactors::limits::payload_bytes)
      return fail(Errc::invalid_argument, fmt::format("a chat has at most {} bytes, and \"{}\" alone has {}",
                                                      gpuactors::limits::payload_bytes, name, raw.size()));
    std::string text{raw};
    text.append(simdjson::SIMDJSON_PADDING, ' ');
    GPUACTORS_TRY(check_json(text, raw.size(), wanted));
    chat_ += chat_.size() > 1 ? ",\"" : "\"";
    chat_.append(name).append("\":").append(raw);
    return {};
  }

  /// Raw JSON was jumped over, and not looked at.
  static Result<void> check_json(const std::string& text, std::size_t size, Kind kind) {
    simdjson::ondemand::parser parser;
    simdjson::ondemand::document document;
    if (const auto error = parser.iterate(text.data(), size, text.size()).get(document); error != simdjson::SUCCESS)
      return malformed(error);
    if (kind == Kind::object) {
      Object object;
      if (const auto error = document.get_object().get(object); error != simdjson::SUCCESS)
        return malformed(error);
      return for_each_field(object, [](std::string_view, Value inner) { return skip(inner, 1); });
    }
    Array array;
    if (const auto error = document.get_array().get(array); error != simdjson::SUCCESS)
      return malformed(error);
    return for_each_element(array, [](Value inner) { return skip(inner, 1); });
  }

  static Result<void> check_choice(Value value, std::string_view what, std::initializer_list<std::string_view> known) {
    GPUACTORS_LET(kind, kind_of(value));
    if (kind == Kind::string) {
      GPUACTORS_LET(text, read_string(value, what));
      if (is_among(known, text))
        return {};
    }
    return fail(Errc::invalid_argument, fmt::format("{} can only be {} here", what, fmt::join(known, " or ")));
  }

  Result<void> read_stops(Value value) {
    GPUACTORS_LET(kind, kind_of(value));
    if (kind != Kind::array)
      return add_stop(value);
    return read_array(value, "\"stop\"", [this](Value element) { return add_stop(element); });
  }

  Result<void> add_stop(Value value) {
    GPUACTORS_LET(text, read_string(value, "\"stop\""));
    if (stops_ == most_stops)
      return fail(Errc::invalid_argument, fmt::format("\"stop\" has more than {} texts", most_stops));
    return add_parameter(stop_parameter(stops_++), std::move(text));
  }

  static Result<void> refuse_wish(const std::string& name, Value value) {
    GPUACTORS_LET(text, raw_json(value));
    const auto one = name == "n" || name == "best_of";
    constexpr std::array<std::string_view, 6> nothing{"false", "0", "0.0", "[]", "{}", "\"\""};
    if (one ? text == "1" : is_among(nothing, text))
      return {};
    return fail(Errc::invalid_argument, fmt::format("\"{}\" is not supported here: leave it out", name));
  }

  Result<void> read_parameter(const std::string& name, Value value) {
    const auto what = fmt::format("\"{}\"", cut_text(name, gpuactors::limits::name_length));
    GPUACTORS_LET(is_term, read_terms(name, value, what, request_));
    if (is_term)
      return {};
    const auto internal = name == chat_parameter || name.starts_with("stop_");
    if (internal || is_for_server(name) || sequence_parameter(name))
      return fail(Errc::invalid_argument, fmt::format("{} is none of the fields of this path", what));
    GPUACTORS_LET(parameter, read_parameter_value(value, what));
    return add_parameter(name, std::move(parameter));
  }

  Result<void> add_parameter(const std::string& name, Parameter value) {
    if (request_.parameters.size() == most_parameters)
      return fail(Errc::invalid_argument, fmt::format("the request has more than {} parameters", most_parameters));
    const auto* text = std::get_if<std::string>(&value);
    GPUACTORS_TRY(count_parameter(name, text != nullptr ? text->size() : 0, parameter_bytes_));
    request_.parameters.insert_or_assign(name, std::move(value));
    return {};
  }

  OpenAiKind kind_;
  std::string_view json_;
  OpenAiWishes& wishes_;
  std::set<std::string> seen_;
  std::string prompt_;
  std::string chat_ = "{";
  std::size_t stops_ = 0;
  std::size_t parameter_bytes_ = 0;
  InferRequest request_;
};

} // namespace

bool writes_texts(const ModelDescription& model) {
  return model.generative && model.inputs.size() == 1 && takes_a_text(model.inputs.front())
         && std::any_of(model.outputs.begin(), model.outputs.end(), takes_a_text);
}

std::string stop_parameter(std::size_t number) {
  return number == 0 ? "stop" : fmt::format("stop_{}", number + 1);
}

Result<std::string> find_openai_model(const Bytes& body) {
  const std::string_view json{reinterpret_cast<const char*>(body.view().data()), body.size()};
  std::optional<std::string> model;
  std::optional<simdjson::ondemand::parser> own;
  if (json.empty())
    return fail(Errc::invalid_argument, "the request has no body: JSON with a \"model\" is expected");
  GPUACTORS_TRY(
      read_document(parser_for(json.size(), own), json, [&](std::string_view name, Value value) -> Result<void> {
        if (name != "model")
          return skip(value);
        GPUACTORS_LET(text, read_string(value, "\"model\""));
        model = std::move(text);
        return {};
      }));
  if (!model || model->empty())
    return fail(Errc::invalid_argument, "the request names no \"model\": GET /v1/models lists those that there are");
  return *std::move(model);
}

Result<InferRequest> read_openai(OpenAiKind kind, const Bytes& body, const ModelDescription& model,
                                 OpenAiWishes& wishes) {
  GPUACTORS_TRY(check_model(model));
  return OpenAiReader{kind, body, wishes}.read();
}

} // namespace serve
