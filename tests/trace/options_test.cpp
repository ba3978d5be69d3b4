// The variables of OpenTelemetry's specification.
#include <gpuactors/trace/trace_options.hpp>

#include <support/catch.hpp>

#include <map>

using namespace gpuactors;
using namespace std::chrono_literals;

namespace {

using Environment = std::map<std::string, std::string>;

Result<std::optional<TraceOptions>> read(const Environment& environment) {
  return read_trace_options([&](const char* name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    return found != environment.end() ? std::optional{found->second} : std::nullopt;
  });
}

TraceOptions good(const Environment& environment) {
  auto options = read(environment);
  REQUIRE(options);
  REQUIRE(options->has_value());
  return **options;
}

Environment with(const char* name, std::string value) {
  return {{"OTEL_TRACES_EXPORTER", "otlp"}, {name, std::move(value)}};
}

using Fields = std::vector<std::pair<std::string, std::string>>;

} // namespace

TEST_CASE("nothing is recorded unless the environment says where spans go", "[trace]") {
  CHECK_FALSE(read({})->has_value());
  CHECK_FALSE(read({{"OTEL_SERVICE_NAME", "x"}})->has_value());
  for (const auto* yes : {"true", "TRUE", "True"})
    CHECK_FALSE(read(with("OTEL_SDK_DISABLED", yes))->has_value());
  CHECK_FALSE(read({{"OTEL_EXPORTER_OTLP_ENDPOINT", " "}})->has_value());
  CHECK_FALSE(read({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"}, {"OTEL_SDK_DISABLED", "true"}})->has_value());
  CHECK_FALSE(read({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"}, {"OTEL_TRACES_EXPORTER", "none"}})->has_value());
}

TEST_CASE("the address is completed, unless it is that for traces alone", "[trace]") {
  CHECK(good({{"OTEL_TRACES_EXPORTER", "otlp"}}).url == "http://localhost:4318/v1/traces");
  CHECK(good({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"}}).url == "http://c:4318/v1/traces");
  CHECK(good({{"OTEL_EXPORTER_OTLP_ENDPOINT", " https://c/otlp/ "}}).url == "https://c/otlp/v1/traces");
  CHECK(
      good({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"}, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://d/x"}}).url
      == "http://d/x");
}

TEST_CASE("without further variables, the values are those of the specification", "[trace]") {
  const auto options = good({{"OTEL_TRACES_EXPORTER", "otlp"}});
  CHECK(options.sampler.by_parent);
  CHECK(options.sampler.ratio == 1);
  CHECK(options.timeout == 10s);
  CHECK(options.delay == 5s);
  CHECK(options.batch == 512);
  CHECK(options.queue == 2048);
  CHECK(options.headers.empty());
  CHECK(options.resource.empty());
}

TEST_CASE("lists of fields are read with their escapes, and the name of the service counts more than that in a list",
          "[trace]") {
  CHECK(good(with("OTEL_EXPORTER_OTLP_HEADERS", "a=1, b = two%20words ,,c=x=y")).headers
        == Fields{{"a", "1"}, {"b", "two words"}, {"c", "x=y"}});
  CHECK(good({{"OTEL_TRACES_EXPORTER", "otlp"},
              {"OTEL_RESOURCE_ATTRIBUTES", "service.name=old,zone=eu"},
              {"OTEL_SERVICE_NAME", "new"}})
            .resource
        == Fields{{"zone", "eu"}, {"service.name", "new"}});
}

TEST_CASE("samplers are those of the specification", "[trace]") {
  const auto sampler = [](const char* name, const char* argument) {
    auto options =
        good({{"OTEL_TRACES_EXPORTER", "otlp"}, {"OTEL_TRACES_SAMPLER", name}, {"OTEL_TRACES_SAMPLER_ARG", argument}});
    return std::pair{options.sampler.ratio, options.sampler.by_parent};
  };
  CHECK(sampler("always_on", "0.5") == std::pair{1.0, false});
  CHECK(sampler("always_off", "") == std::pair{0.0, false});
  CHECK(sampler("traceidratio", "0.5") == std::pair{0.5, false});
  CHECK(sampler("parentbased_always_on", "") == std::pair{1.0, true});
  CHECK(sampler("parentbased_always_off", "") == std::pair{0.0, true});
  CHECK(sampler("parentbased_traceidratio", "0.01") == std::pair{0.01, true});
  CHECK(sampler("parentbased_traceidratio", "") == std::pair{1.0, true});
}

TEST_CASE("numbers are read, and a batch is no larger than the queue", "[trace]") {
  CHECK(good(with("OTEL_EXPORTER_OTLP_TIMEOUT", "250")).timeout == 250ms);
  CHECK(good(with("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "250")).timeout == 250ms);
  CHECK(good(with("OTEL_BSP_SCHEDULE_DELAY", "100")).delay == 100ms);
  CHECK(good(with("OTEL_BSP_SCHEDULE_DELAY", "9223372036854775807")).delay == 24h);
  const auto options = good(with("OTEL_BSP_MAX_QUEUE_SIZE", "16"));
  CHECK(options.queue == 16);
  CHECK(options.batch == 16);
}

TEST_CASE("a wrong value is refused with its variable and with what would be right", "[trace]") {
  const auto why = [](const char* name, const char* value) {
    const auto options = read(with(name, value));
    REQUIRE_FALSE(options);
    CHECK(options.error().code() == Errc::invalid_argument);
    CHECK(options.error().message().find(name) != std::string::npos);
    return options.error().message();
  };
  using Catch::Matchers::Contains;
  CHECK_THAT(why("OTEL_EXPORTER_OTLP_ENDPOINT", "c:4317"), Contains("http://localhost:4318"));
  CHECK_THAT(why("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), Contains("http/protobuf"));
  CHECK_THAT(why("OTEL_TRACES_SAMPLER", "jaeger_remote"), Contains("parentbased_"));
  CHECK_THAT(why("OTEL_EXPORTER_OTLP_HEADERS", "token"), Contains("key=value"));
  CHECK_THAT(why("OTEL_EXPORTER_OTLP_HEADERS", "=x"), Contains("key=value"));
  CHECK_THAT(why("OTEL_BSP_MAX_QUEUE_SIZE", "0"), Contains("from 1 on"));
  CHECK_THAT(why("OTEL_BSP_SCHEDULE_DELAY", "5s"), Contains("5s"));
  CHECK_THAT(why("OTEL_BSP_SCHEDULE_DELAY", "-1"), Contains("-1"));
  const auto ratio = read(
      {{"OTEL_TRACES_EXPORTER", "otlp"}, {"OTEL_TRACES_SAMPLER", "traceidratio"}, {"OTEL_TRACES_SAMPLER_ARG", "2"}});
  REQUIRE_FALSE(ratio);
  CHECK_THAT(ratio.error().message(), Contains("from 0 to 1"));
  CHECK_FALSE(read({{"OTEL_TRACES_EXPORTER", "otlp"},
                    {"OTEL_TRACES_SAMPLER", "traceidratio"},
                    {"OTEL_TRACES_SAMPLER_ARG", "1e999"}}));
  CHECK_THAT(read({{"OTEL_TRACES_EXPORTER", "zipkin"}}).error().message(), Contains("zipkin"));
}
