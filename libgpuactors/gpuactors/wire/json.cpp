#include <gpuactors/wire/json.hpp>

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cctype>

namespace gpuactors {

namespace {

/// Returns Protobuf's report on one line, without leading colon and trailing full stop.
std::string one_line(std::string_view report) {
  std::string result;
  for (const char c : report) {
    const bool space = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (!space)
      result += c;
    else if (!result.empty() && result.back() != ' ')
      result += ' ';
  }
  result.erase(0, result.find_first_not_of(": "));
  result.erase(result.find_last_not_of(". ") + 1);
  return result;
}

/// Returns the position in `json`, as line and column, that the caret in Protobuf's report points at; empty without a
/// caret.
std::string place_of(std::string_view report, std::string_view json) {
  const auto caret_line = report.rfind('\n');
  if (caret_line == std::string_view::npos || report.find('^', caret_line) == std::string_view::npos)
    return {};
  const auto excerpt_line = report.rfind('\n', caret_line - 1);
  const auto begin = excerpt_line == std::string_view::npos ? 0 : excerpt_line + 1;
  const auto excerpt = report.substr(begin, caret_line - begin);
  const auto column = report.find('^', caret_line) - caret_line - 1;
  // An empty excerpt means that the error is at the end of the text.
  const auto offset = excerpt.empty() ? json.size() : json.find(excerpt);
  if (offset == std::string_view::npos)
    return {};
  const auto at = std::min(offset + column, json.size());
  const auto line = 1 + std::count(json.begin(), json.begin() + static_cast<std::ptrdiff_t>(at), '\n');
  const auto line_start = json.substr(0, at).rfind('\n');
  return fmt::format(" at line {}, column {}", line,
                     at - (line_start == std::string_view::npos ? 0 : line_start + 1) + 1);
}

/// Explains, from Protobuf's report, why `json` is no message of the type `descriptor`: where the error is if `json` is
/// no valid JSON, else which fields the message has.
std::string explain(const google::protobuf::Descriptor& descriptor, std::string_view json, std::string_view report) {
  const auto place = place_of(report, json);
  if (!place.empty()) // The position replaces the rest of the report, an excerpt with a caret below it.
    return fmt::format("the JSON is no {}{}: {}", descriptor.full_name(), place,
                       one_line(report.substr(0, report.find('\n'))));
  std::string fields;
  for (int i = 0; i < descriptor.field_count(); ++i)
    fields += fmt::format("{}{}", i == 0 ? "" : ", ", descriptor.field(i)->name());
  return fmt::format("the JSON is no {}: {}; its fields are: {}", descriptor.full_name(), one_line(report),
                     fields.empty() ? "none" : fields);
}

} // namespace

Result<Payload> payload_from_json(const google::protobuf::Descriptor& descriptor, std::string_view json) {
  auto* factory = google::protobuf::MessageFactory::generated_factory();
  const auto* prototype = factory->GetPrototype(&descriptor);
  if (prototype == nullptr)
    return fail(Errc::unsupported,
                fmt::format("message type {} is not compiled into this program", descriptor.full_name()));
  auto message = std::shared_ptr<google::protobuf::Message>{prototype->New()};
  GPUACTORS_TRY(message_from_json(*message, json));
  return Payload::of(std::move(message));
}

Result<void> message_from_json(google::protobuf::Message& message, std::string_view json, UnknownFields unknown) {
  const auto blank = std::all_of(json.begin(), json.end(), [](unsigned char c) { return std::isspace(c) != 0; });
  if (blank)
    return {};
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = unknown == UnknownFields::ignored;
  const auto status = google::protobuf::util::JsonStringToMessage(std::string{json}, &message, options);
  if (!status.ok()) {
    const std::string_view report{status.message().data(), status.message().size()};
    return fail(Errc::invalid_argument, explain(*message.GetDescriptor(), json, report));
  }
  return {};
}

Result<std::string> message_to_json(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
#if GOOGLE_PROTOBUF_VERSION >= 5026000
  options.always_print_fields_with_no_presence = true;
#else
  options.always_print_primitive_fields = true;
#endif
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  if (!status.ok())
    return fail(Errc::invalid_argument,
                fmt::format("the message {} cannot be written as JSON: {}", message.GetDescriptor()->full_name(),
                            std::string{status.message().data(), status.message().size()}));
  return json;
}

} // namespace gpuactors
