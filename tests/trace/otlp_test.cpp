// Spans in the form of OTLP, read back by the same messages; trace.programs reads them by OpenTelemetry's own.
#include <gpuactors/base/version.hpp>
#include <gpuactors/trace/otlp.hpp>
#include <gpuactors/trace/otlp.pb.h>

#include <support/catch.hpp>

using namespace gpuactors;
using namespace std::chrono_literals;

namespace {

/// One request with these spans; the clocks' moments are 100 s and 1000 s after their beginnings.
otlp::Export exported(const std::vector<SpanRecord>& spans) {
  otlp::Export request;
  REQUIRE(request.ParseFromString(
      to_otlp({{"service.name", "ranker"}}, spans, TimePoint{100s}, std::chrono::system_clock::time_point{1000s})));
  return request;
}

} // namespace

TEST_CASE("spans are written with times since 1970, ids in bytes and all that they were told", "[trace]") {
  SpanRecord span;
  span.context = {0x0102030405060708, 0x090a0b0c0d0e0f10, 0x1112131415161718, true};
  span.parent = 5;
  span.kind = SpanKind::client;
  span.name = "ranker/rank";
  span.begun = TimePoint{98s};
  span.ended = TimePoint{99s + 1ns};
  span.attributes = {{"yes", true}, {"count", std::int64_t{-3}}, {"part", 0.5}, {"text", std::string{"x"}}};
  span.links = {{1, 2, 3, true}, {1, 2, 4, false}};
  span.error = "it broke";
  const auto request = exported({span});
  REQUIRE(request.resource_spans_size() == 1);
  const auto& all = request.resource_spans(0);
  REQUIRE(all.resource().attributes_size() == 1);
  CHECK(all.resource().attributes(0).key() == "service.name");
  CHECK(all.resource().attributes(0).value().string_value() == "ranker");
  REQUIRE(all.scope_spans_size() == 1);
  CHECK(all.scope_spans(0).scope().version() == release);
  REQUIRE(all.scope_spans(0).spans_size() == 1);
  const auto& written = all.scope_spans(0).spans(0);
  CHECK(written.trace_id() == "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10");
  CHECK(written.span_id() == "\x11\x12\x13\x14\x15\x16\x17\x18");
  CHECK(written.parent_span_id() == std::string("\0\0\0\0\0\0\0\5", 8));
  CHECK(written.kind() == 3);
  CHECK(written.start_time_unix_nano() == 998'000'000'000);
  CHECK(written.end_time_unix_nano() == 999'000'000'001);
  CHECK(written.flags() == 1);
  REQUIRE(written.attributes_size() == 4);
  CHECK(written.attributes(0).value().bool_value());
  CHECK(written.attributes(1).value().int_value() == -3);
  CHECK(written.attributes(2).value().double_value() == 0.5);
  CHECK(written.attributes(3).value().string_value() == "x");
  REQUIRE(written.links_size() == 2);
  CHECK(written.links(1).span_id() == std::string("\0\0\0\0\0\0\0\4", 8));
  CHECK(written.links(1).flags() == 0);
  CHECK(written.status().code() == 2);
  CHECK(written.status().message() == "it broke");
}

TEST_CASE("the first span of a trace has no parent, and one that has not failed no status", "[trace]") {
  SpanRecord span;
  span.context = {1, 2, 3, true};
  const auto request = exported({span});
  const auto& written = request.resource_spans(0).scope_spans(0).spans(0);
  CHECK(written.parent_span_id().empty());
  CHECK_FALSE(written.has_status());
  CHECK(written.kind() == 1);
}

TEST_CASE("texts of programs are made UTF-8, since a request with others would be refused as a whole", "[trace]") {
  SpanRecord span;
  span.context = {1, 2, 3, true};
  span.name = "a\xff";
  span.attributes = {{"k\xfe", std::string{"\xc3"}}};
  span.error = "\x80";
  const auto request = exported({span});
  const auto& written = request.resource_spans(0).scope_spans(0).spans(0);
  CHECK(written.name() == "a\xef\xbf\xbd");
  CHECK(written.attributes(0).key() == "k\xef\xbf\xbd");
  CHECK(written.status().message() == "\xef\xbf\xbd");
}
