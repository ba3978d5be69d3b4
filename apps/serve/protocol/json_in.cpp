#include <apps/serve/protocol/json_in.hpp>
#include <apps/serve/protocol/parameters.hpp>
#include <apps/serve/protocol/sizes.hpp>

#include <cstddef>

namespace serve::json_in {

namespace {

bool is_other_kind(simdjson::error_code error) {
  return error == simdjson::INCORRECT_TYPE || error == simdjson::NUMBER_OUT_OF_RANGE || error == simdjson::NUMBER_ERROR;
}

Result<void> skip_scalar(Value value, simdjson::ondemand::json_type type) {
  simdjson::error_code error = simdjson::SUCCESS;
  if (type == simdjson::ondemand::json_type::number) {
    simdjson::ondemand::number ignored;
    error = value.get_number().get(ignored);
  } else if (type == simdjson::ondemand::json_type::string) {
    std::string_view ignored;
    error = value.get_string().get(ignored);
  } else if (type == simdjson::ondemand::json_type::boolean) {
    bool ignored = false;
    error = value.get_bool().get(ignored);
  } else {
    bool null = false;
    error = value.is_null().get(null);
    if (error == simdjson::SUCCESS && !null)
      error = simdjson::N_ATOM_ERROR;
  }
  if (error != simdjson::SUCCESS)
    return malformed(error);
  return {};
}

} // namespace

Failure malformed(simdjson::error_code error) {
  return fail(Errc::invalid_argument,
              fmt::format("the request's JSON is malformed: {}", simdjson::error_message(error)));
}

Failure mistyped(simdjson::error_code error, std::string_view what, std::string_view wanted) {
  if (!is_other_kind(error))
    return malformed(error);
  return fail(Errc::invalid_argument, fmt::format("{} is not {}", what, wanted));
}

Result<void> skip(Value value, int depth) {
  if (depth > deepest)
    return fail(Errc::invalid_argument, fmt::format("the request's JSON is nested deeper than {} levels", deepest));
  simdjson::ondemand::json_type type{};
  if (const auto error = value.type().get(type); error != simdjson::SUCCESS)
    return malformed(error);
  if (type == simdjson::ondemand::json_type::object)
    return read_object(value, "", [=](std::string_view, Value inner) { return skip(inner, depth + 1); });
  if (type == simdjson::ondemand::json_type::array)
    return read_array(value, "", [=](Value inner) { return skip(inner, depth + 1); });
  return skip_scalar(value, type);
}

Result<Kind> kind_of(Value value) {
  Kind kind{};
  if (const auto error = value.type().get(kind); error != simdjson::SUCCESS)
    return malformed(error);
  return kind;
}

Result<Parameter> read_parameter_value(Value value, std::string_view what) {
  GPUACTORS_LET(kind, kind_of(value));
  if (kind == Kind::string) {
    GPUACTORS_LET(text, read_string(value, what));
    return Parameter{std::move(text)};
  }
  if (kind == Kind::boolean) {
    GPUACTORS_LET(flag, read_boolean(value, what));
    return Parameter{flag};
  }
  simdjson::ondemand::number number;
  if (kind != Kind::number)
    return fail(Errc::invalid_argument, fmt::format("{} is not a string, number or boolean", what));
  if (const auto error = value.get_number().get(number); error != simdjson::SUCCESS)
    return mistyped(error, what, "a number of 64 bits");
  if (number.is_int64())
    return Parameter{number.get_int64()};
  if (number.is_uint64())
    return fail(Errc::invalid_argument, fmt::format("{} is not a whole number of 64 bits with its sign", what));
  return Parameter{number.get_double()};
}

Result<std::string> read_string(Value value, std::string_view what) {
  std::string_view text;
  if (const auto error = value.get_string().get(text); error != simdjson::SUCCESS)
    return mistyped(error, what, "a string");
  return std::string{text};
}

Result<bool> read_boolean(Value value, std::string_view what) {
  bool result = false;
  if (const auto error = value.get_bool().get(result); error != simdjson::SUCCESS)
    return mistyped(error, what, "true or false");
  return result;
}

Result<std::uint64_t> read_count(Value value, std::string_view what) {
  std::uint64_t result = 0;
  if (const auto error = value.get_uint64().get(result); error != simdjson::SUCCESS)
    return mistyped(error, what, "a whole number of at least 0");
  return result;
}

Result<bool> read_terms(std::string_view name, Value value, std::string_view what, InferRequest& request) {
  if (name != "priority" && name != "timeout")
    return false;
  GPUACTORS_LET(count, read_count(value, what));
  if (name == "priority")
    request.priority = count;
  else
    request.timeout = timeout_of(count);
  return true;
}

Result<void> read_sequence(std::size_t number, Value value, SequenceStep& step) {
  const auto what = fmt::format("the parameter \"{}\"", sequence_parameters.at(number));
  if (number > 0) {
    GPUACTORS_LET(flag, read_boolean(value, what));
    (number == 1 ? step.start : step.end) = flag;
    return {};
  }
  simdjson::ondemand::json_type type{};
  if (const auto error = value.type().get(type); error != simdjson::SUCCESS)
    return malformed(error);
  if (type == simdjson::ondemand::json_type::string) {
    GPUACTORS_LET(text, read_string(value, what));
    return set_sequence_id(step, std::move(text));
  }
  GPUACTORS_LET(id, read_count(value, what));
  return set_sequence_id(step, id);
}

Result<void> once(bool& seen, std::string_view name) {
  if (seen)
    return fail(Errc::invalid_argument, fmt::format("the request's JSON has \"{}\" twice in one object", name));
  seen = true;
  return {};
}

simdjson::ondemand::parser& parser_for(std::size_t bytes, std::optional<simdjson::ondemand::parser>& own) {
  thread_local simdjson::ondemand::parser shared;
  return bytes <= shared_parser_bytes ? shared : own.emplace();
}

} // namespace serve::json_in
