#include <gpuactors/trace/trace_options.hpp>

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <system_error>

namespace gpuactors {

namespace {

constexpr std::string_view default_endpoint = "http://localhost:4318";
constexpr std::string_view traces_path = "/v1/traces";
/// A day.
constexpr std::int64_t most_milliseconds = 86'400'000;

std::string_view trim(std::string_view text) {
  constexpr std::string_view blank = " \t";
  const auto first = text.find_first_not_of(blank);
  return first == std::string_view::npos ? std::string_view{}
                                         : text.substr(first, text.find_last_not_of(blank) - first + 1);
}

/// Undoes percent-encoding, which values of the lists may have.
std::string decode(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '%' && i + 2 < text.size()
        && std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16).ptr == text.data() + i + 3) {
      plain.push_back(static_cast<char>(value));
      i += 2;
    } else {
      plain.push_back(text[i]);
    }
  }
  return plain;
}

/// Reads "key=value,key=value".
Result<std::vector<std::pair<std::string, std::string>>> read_list(const char* variable, std::string_view text) {
  std::vector<std::pair<std::string, std::string>> list;
  while (!text.empty()) {
    const auto entry = trim(text.substr(0, text.find(',')));
    text.remove_prefix(
        std::min(text.size(), text.find(',') == std::string_view::npos ? text.size() : text.find(',') + 1));
    if (entry.empty())
      continue;
    const auto equals = entry.find('=');
    const auto key = trim(entry.substr(0, equals));
    if (equals == std::string_view::npos || key.empty())
      return fail(Errc::invalid_argument,
                  fmt::format("{} is a list of key=value, with commas in between: \"{}\" is none", variable, entry));
    list.emplace_back(decode(key), decode(trim(entry.substr(equals + 1))));
  }
  return list;
}

/// Reads variables that OpenTelemetry defines; an empty one counts as not set.
class Reader {
public:
  explicit Reader(const Variables& variable) : variable_(variable) {
    // nop
  }

  [[nodiscard]] std::optional<std::string> text(const char* name) const {
    auto value = variable_(name);
    return value && !trim(*value).empty() ? std::optional{std::string{trim(*value)}} : std::nullopt;
  }

  /// Of a variable for all signals and one for traces, the latter counts.
  [[nodiscard]] std::pair<const char*, std::optional<std::string>> text(const char* traces, const char* all) const {
    if (auto value = text(traces))
      return {traces, std::move(value)};
    return {all, text(all)};
  }

  /// Sets `number` if the variable is set.
  template <class T>
  Result<void> number(const char* name, T least, T& number) const {
    const auto value = text(name);
    if (!value)
      return {};
    T read{};
    const auto* end = value->data() + value->size();
    const auto parsed = std::from_chars(value->data(), end, read);
    if (parsed.ec != std::errc{} || parsed.ptr != end || !(read >= least))
      return fail(Errc::invalid_argument,
                  fmt::format("{} is a number from {} on: \"{}\" is none", name, least, *value));
    number = read;
    return {};
  }

  Result<void> milliseconds(const char* name, Duration& duration) const {
    std::int64_t count = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
    GPUACTORS_TRY(number<std::int64_t>(name, 1, count));
    // What is longer could not be added to a moment.
    count = std::min(count, most_milliseconds);
    duration = from_milliseconds(static_cast<std::uint64_t>(count));
    return {};
  }

private:
  const Variables& variable_;
};

Result<Sampler> read_sampler(const Reader& reader) {
  constexpr auto variable = "OTEL_TRACES_SAMPLER";
  const auto name = reader.text(variable).value_or("parentbased_always_on");
  constexpr std::string_view prefix = "parentbased_";
  Sampler sampler;
  sampler.by_parent = name.compare(0, prefix.size(), prefix) == 0;
  const auto base = sampler.by_parent ? name.substr(prefix.size()) : name;
  if (base == "always_off") {
    sampler.ratio = 0;
  } else if (base == "traceidratio") {
    GPUACTORS_TRY(reader.number("OTEL_TRACES_SAMPLER_ARG", 0.0, sampler.ratio));
    if (sampler.ratio > 1)
      return fail(
          Errc::invalid_argument,
          fmt::format("OTEL_TRACES_SAMPLER_ARG is the part of traces that are recorded, from 0 to 1, and not {}",
                      sampler.ratio));
  } else if (base != "always_on") {
    return fail(Errc::invalid_argument,
                fmt::format("{} is always_on, always_off or traceidratio, or one of these behind "
                            "\"{}\": \"{}\" is none",
                            variable, prefix, name));
  }
  return sampler;
}

Result<std::string> read_url(const Reader& reader) {
  constexpr auto traces = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
  auto [variable, url] = reader.text(traces, "OTEL_EXPORTER_OTLP_ENDPOINT");
  if (!url)
    url = default_endpoint;
  if (url->compare(0, 7, "http://") != 0 && url->compare(0, 8, "https://") != 0)
    return fail(Errc::invalid_argument,
                fmt::format("{} is a URL as {}: \"{}\" is none", variable, default_endpoint, *url));
  // The variable for traces is the whole address.
  if (variable != std::string_view{traces})
    *url = url->substr(0, url->find_last_not_of('/') + 1) + std::string{traces_path};
  return std::move(*url);
}

Result<bool> is_wanted(const Reader& reader) {
  const auto disabled = reader.text("OTEL_SDK_DISABLED").value_or("false");
  if (strcasecmp(disabled.c_str(), "true") == 0) // booleans of OpenTelemetry have no case
    return false;
  const auto exporter = reader.text("OTEL_TRACES_EXPORTER");
  if (exporter && *exporter != "otlp" && *exporter != "none")
    return fail(Errc::invalid_argument,
                fmt::format("OTEL_TRACES_EXPORTER is otlp or none: there is no exporter \"{}\"", *exporter));
  if (exporter)
    return *exporter == "otlp";
  return reader.text("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT").second.has_value();
}

} // namespace

Result<std::optional<TraceOptions>> read_trace_options(const Variables& variable) {
  const Reader reader{variable};
  GPUACTORS_LET(wanted, is_wanted(reader));
  if (!wanted)
    return std::optional<TraceOptions>{};
  TraceOptions options;
  GPUACTORS_LET(url, read_url(reader));
  options.url = std::move(url);
  const auto [named, protocol] = reader.text("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL");
  if (protocol && *protocol != "http/protobuf")
    return fail(Errc::invalid_argument,
                fmt::format("{} is \"{}\": spans are sent by http/protobuf alone, for which collectors have port 4318",
                            named, *protocol));
  if (const auto [name, text] = reader.text("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"); text) {
    GPUACTORS_LET(headers, read_list(name, *text));
    options.headers = std::move(headers);
  }
  options.certificate = reader.text("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE")
                            .second.value_or(std::string{});
  GPUACTORS_TRY(reader.milliseconds("OTEL_EXPORTER_OTLP_TIMEOUT", options.timeout));
  GPUACTORS_TRY(reader.milliseconds("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", options.timeout));
  GPUACTORS_LET(sampler, read_sampler(reader));
  options.sampler = sampler;
  if (const auto text = reader.text("OTEL_RESOURCE_ATTRIBUTES")) {
    GPUACTORS_LET(resource, read_list("OTEL_RESOURCE_ATTRIBUTES", *text));
    options.resource = std::move(resource);
  }
  if (auto name = reader.text("OTEL_SERVICE_NAME")) {
    std::erase_if(options.resource, [](const auto& entry) { return entry.first == "service.name"; });
    options.resource.emplace_back("service.name", std::move(*name));
  }
  GPUACTORS_TRY(reader.number<std::size_t>("OTEL_BSP_MAX_QUEUE_SIZE", 1, options.queue));
  GPUACTORS_TRY(reader.number<std::size_t>("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 1, options.batch));
  options.batch = std::min(options.batch, options.queue);
  GPUACTORS_TRY(reader.milliseconds("OTEL_BSP_SCHEDULE_DELAY", options.delay));
  return std::optional{std::move(options)};
}

} // namespace gpuactors
