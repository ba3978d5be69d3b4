#include <gpuactors/base/limits.hpp>

#include <apps/serve/cut_text.hpp>
#include <apps/serve/protocol/json_in.hpp>
#include <apps/serve/protocol/parameters.hpp>

#include <algorithm>
#include <chrono>

namespace serve {

using namespace json_in;

namespace {

constexpr std::uint64_t longest_timeout = std::uint64_t{366} * 86'400 * 1'000'000;

std::string_view text_of(const Bytes& body) {
  return {reinterpret_cast<const char*>(body.view().data()), body.size()};
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

/// A string as it is, anything else as it is written.
Result<std::string> read_any_text(Value value, std::string_view name) {
  const auto what = fmt::format("the parameter \"{}\"", name);
  simdjson::ondemand::json_type type{};
  if (const auto error = value.type().get(type); error != simdjson::SUCCESS)
    return malformed(error);
  if (type == simdjson::ondemand::json_type::string)
    return read_string(value, what);
  if (type == simdjson::ondemand::json_type::boolean) {
    GPUACTORS_LET(flag, read_boolean(value, what));
    return std::string{flag ? "true" : "false"};
  }
  if (type != simdjson::ondemand::json_type::number)
    return fail(Errc::invalid_argument, fmt::format("{} is not a string, number or boolean", what));
  simdjson::ondemand::number number;
  if (const auto error = value.get_number().get(number); error != simdjson::SUCCESS)
    return malformed(error);
  if (number.is_uint64())
    return fmt::format("{}", number.get_uint64());
  if (number.is_int64())
    return fmt::format("{}", number.get_int64());
  return fmt::format("{}", number.get_double());
}

} // namespace

std::optional<gpuactors::Duration> timeout_of(std::uint64_t microseconds) noexcept {
  if (microseconds == 0)
    return std::nullopt;
  return std::chrono::microseconds{static_cast<std::int64_t>(std::min(microseconds, longest_timeout))};
}

std::optional<std::size_t> sequence_parameter(std::string_view name) noexcept {
  const auto found = std::find(sequence_parameters.begin(), sequence_parameters.end(), name);
  if (found == sequence_parameters.end())
    return std::nullopt;
  return static_cast<std::size_t>(found - sequence_parameters.begin());
}

Result<void> set_sequence_id(SequenceStep& step, std::uint64_t number) {
  step.id = number == 0 ? "" : fmt::format("{}", number);
  return {};
}

Result<void> set_sequence_id(SequenceStep& step, std::string text) {
  if (text.size() > longest_sequence_id)
    return fail(Errc::invalid_argument,
                fmt::format("the sequence_id has {} bytes: it may have {}", text.size(), longest_sequence_id));
  step.id = std::move(text);
  return {};
}

Result<void> check_sequence(const SequenceStep& step) {
  if (step.id.empty() && (step.start || step.end))
    return fail(Errc::invalid_argument, fmt::format("the request has \"{}\", and no sequence_id other than 0",
                                                    sequence_parameters[step.start ? 1 : 2]));
  return {};
}

Result<void> refuse_parameter(std::string_view name) {
  if (name.starts_with("shared_memory_"))
    return fail(Errc::invalid_argument,
                fmt::format("the parameter \"{}\" asks for shared memory, which this server does not have: send the "
                            "data in the request",
                            cut_text(name, gpuactors::limits::name_length)));
  if (name.starts_with("sequence_"))
    return fail(Errc::invalid_argument,
                fmt::format("there is no parameter \"{}\" here: a request has {}",
                            cut_text(name, gpuactors::limits::name_length), fmt::join(sequence_parameters, ", ")));
  if (name == "classification")
    return fail(Errc::invalid_argument,
                "the parameter \"classification\" is not supported: ask for the output and sort it");
  return {};
}

Result<void> count_parameter(std::string_view name, std::size_t value, std::size_t& bytes) {
  bytes += name.size() + value;
  if (bytes > most_parameter_bytes)
    return fail(Errc::invalid_argument,
                fmt::format("the request's parameters have {} bytes with \"{}\", names and texts together: they may "
                            "have {}",
                            bytes, cut_text(name, gpuactors::limits::name_length), most_parameter_bytes));
  return {};
}

bool is_for_server(std::string_view name) noexcept {
  return name == "priority" || name == "timeout" || name == "headers" || name == "binary_data_output"
         || name.starts_with("triton_");
}

Result<void> check_load_parameters(std::size_t count) {
  if (count > most_load_parameters)
    return fail(Errc::invalid_argument, fmt::format("the request has more than {} parameters", most_load_parameters));
  return {};
}

Result<std::map<std::string, std::string>> read_repository_parameters(const Bytes& body) {
  std::map<std::string, std::string> result;
  const auto text = text_of(body);
  if (is_blank(text))
    return result;
  bool seen = false;
  const auto read_parameter = [&](std::string_view name, Value value) -> Result<void> {
    std::string key{name};
    GPUACTORS_LET(rendered, read_any_text(value, key));
    if (!result.emplace(key, std::move(rendered)).second)
      return fail(Errc::invalid_argument, fmt::format("the parameter \"{}\" is there twice", key));
    return check_load_parameters(result.size());
  };
  std::optional<simdjson::ondemand::parser> own;
  GPUACTORS_TRY(
      read_document(parser_for(text.size(), own), text, [&](std::string_view name, Value value) -> Result<void> {
        if (name != "parameters")
          return skip(value);
        GPUACTORS_TRY(once(seen, name));
        return read_object(value, "\"parameters\"", read_parameter);
      }));
  return result;
}

Result<bool> read_index_request(const Bytes& body) {
  const auto text = text_of(body);
  bool ready = false;
  bool seen = false;
  if (is_blank(text))
    return ready;
  std::optional<simdjson::ondemand::parser> own;
  GPUACTORS_TRY(
      read_document(parser_for(text.size(), own), text, [&](std::string_view name, Value value) -> Result<void> {
        if (name != "ready")
          return skip(value);
        GPUACTORS_TRY(once(seen, name));
        GPUACTORS_LET(wanted, read_boolean(value, "\"ready\""));
        ready = wanted;
        return {};
      }));
  return ready;
}

} // namespace serve
