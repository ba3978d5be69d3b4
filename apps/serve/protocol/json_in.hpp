// Small steps of reading JSON with simdjson, for the sources in this folder only: it is a large header.
#pragma once

#include <gpuactors/base/result.hpp>

#include <apps/serve/service.hpp>

#include <fmt/format.h>
#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace serve::json_in {

using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Failure;
using gpuactors::Result;

using Value = simdjson::ondemand::value;
using Array = simdjson::ondemand::array;
using Object = simdjson::ondemand::object;

using Kind = simdjson::ondemand::json_type;

/// Deepest nesting of what nobody asked for.
inline constexpr int deepest = 32;

/// The failure for text that is no JSON.
[[nodiscard]] Failure malformed(simdjson::error_code error);

/// The failure for a value of the wrong kind, unless the text is no JSON there: "`what` is not `wanted`".
[[nodiscard]] Failure mistyped(simdjson::error_code error, std::string_view what, std::string_view wanted);

/// Goes through a value that nobody asked for, so that what is malformed is found in it too.
[[nodiscard]] Result<void> skip(Value value, int depth = 0);

[[nodiscard]] Result<Kind> kind_of(Value value);

/// A string, a number of 64 bits, or true or false.
[[nodiscard]] Result<Parameter> read_parameter_value(Value value, std::string_view what);

[[nodiscard]] Result<std::string> read_string(Value value, std::string_view what);
[[nodiscard]] Result<bool> read_boolean(Value value, std::string_view what);
/// A whole number of at least 0.
[[nodiscard]] Result<std::uint64_t> read_count(Value value, std::string_view what);

/// Reads "priority" or "timeout" (microseconds), which are for the server. @returns false for other names.
[[nodiscard]] Result<bool> read_terms(std::string_view name, Value value, std::string_view what, InferRequest& request);

/// Reads the parameter of that number among `sequence_parameters`.
[[nodiscard]] Result<void> read_sequence(std::size_t number, Value value, SequenceStep& step);

/// Calls `visit(name, value)`, which returns a `Result<void>` and uses up the value, for each field.
template <class Visit>
[[nodiscard]] Result<void> for_each_field(Object object, Visit visit) {
  for (auto field : object) {
    std::string_view name;
    if (const auto error = field.unescaped_key().get(name); error != simdjson::SUCCESS)
      return malformed(error);
    Value value;
    if (const auto error = field.value().get(value); error != simdjson::SUCCESS)
      return malformed(error);
    GPUACTORS_TRY(visit(name, value));
  }
  return {};
}

/// Calls `visit(value)`, which returns a `Result<void>` and uses up the value, for each element.
template <class Visit>
[[nodiscard]] Result<void> for_each_element(Array array, Visit visit) {
  for (auto element : array) {
    Value value;
    if (const auto error = element.get(value); error != simdjson::SUCCESS)
      return malformed(error);
    GPUACTORS_TRY(visit(value));
  }
  return {};
}

/// Calls `visit(name, value)` for the fields of `value`, which must be an object. `what` names it in sentences.
template <class Visit>
[[nodiscard]] Result<void> read_object(Value value, std::string_view what, Visit visit) {
  Object object;
  if (const auto error = value.get_object().get(object); error != simdjson::SUCCESS)
    return mistyped(error, what, "an object");
  return for_each_field(object, std::move(visit));
}

template <class Visit>
[[nodiscard]] Result<void> read_array(Value value, std::string_view what, Visit visit) {
  Array array;
  if (const auto error = value.get_array().get(array); error != simdjson::SUCCESS)
    return mistyped(error, what, "an array");
  return for_each_element(array, std::move(visit));
}

/// Refuses a field that was there before, and notes it otherwise.
[[nodiscard]] Result<void> once(bool& seen, std::string_view name);

/// Reads `text`, which must be one object and nothing else, with `visit(name, value)`. The memory behind `text` may be
/// read for `body_padding` bytes.
template <class Visit>
[[nodiscard]] Result<void> read_document(simdjson::ondemand::parser& parser, std::string_view text, Visit visit) {
  simdjson::ondemand::document document;
  auto error = parser.iterate(text.data(), text.size(), text.size() + simdjson::SIMDJSON_PADDING).get(document);
  if (error != simdjson::SUCCESS)
    return malformed(error);
  Object object;
  if (error = document.get_object().get(object); error != simdjson::SUCCESS)
    return mistyped(error, "the request's JSON", "an object");
  GPUACTORS_TRY(for_each_field(object, std::move(visit)));
  if (document.current_location().error() != simdjson::OUT_OF_BOUNDS)
    return fail(Errc::invalid_argument, "the request's JSON goes on behind its end");
  return {};
}

/// A parser that small documents share: one for each thread, whose memory stays. `own` is used for others.
[[nodiscard]] simdjson::ondemand::parser& parser_for(std::size_t bytes, std::optional<simdjson::ondemand::parser>& own);

} // namespace serve::json_in
