// The context of traces: as requests carry it, as messages do, and what a thread works for.
#include <gpuactors/base/trace_context.hpp>

#include <support/catch.hpp>

#include <thread>

using namespace gpuactors;

namespace {

constexpr TraceContext example{0x0af7651916cd43dd, 0x8448eb211c80319c, 0xb7ad6b7169203331, true};
constexpr const char* example_text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

} // namespace

TEST_CASE("the field traceparent is read and written", "[trace]") {
  CHECK(parse_traceparent(example_text) == example);
  CHECK(to_traceparent(example) == example_text);
  auto unsampled = example;
  unsampled.sampled = false;
  CHECK(to_traceparent(unsampled) == "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00");
  CHECK(parse_traceparent(to_traceparent(unsampled)) == unsampled);
  // Flags that are not known, and fields of later versions, are no reason to refuse it.
  CHECK(parse_traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03") == example);
  CHECK(parse_traceparent("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-comes") == example);
  CHECK(parse_traceparent("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01") == example);
}

TEST_CASE("a field that is no traceparent counts as none", "[trace]") {
  for (const auto* text : {
           "",
           "00",
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 ",
           "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.more",
           "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
           "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
           "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
           "00-00000000000000000000000000000000-b7ad6b7169203331-01",
           "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
           "00_0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331_01",
           "0x-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
       }) {
    INFO(text);
    CHECK_FALSE(parse_traceparent(text));
  }
}

TEST_CASE("messages carry a context in 25 bytes, and none in none", "[trace]") {
  const auto bytes = to_bytes(example);
  CHECK(bytes
        == "\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c\xb7\xad\x6b\x71\x69\x20\x33\x31\x01");
  CHECK(trace_from_bytes(bytes) == example);
  CHECK(to_bytes({}).empty());
  CHECK_FALSE(trace_from_bytes({}).valid());
  CHECK_FALSE(trace_from_bytes(bytes + "x").valid());
  CHECK_FALSE(trace_from_bytes(bytes.substr(1)).valid());
  CHECK_FALSE(trace_from_bytes(std::string(25, '\0')).valid());
}

TEST_CASE("a thread works for the innermost scope, and for none outside of them", "[trace]") {
  auto inner = example;
  inner.span = 7;
  CHECK_FALSE(current_trace().valid());
  {
    const TraceScope outer_scope{example};
    CHECK(current_trace() == example);
    {
      const TraceScope inner_scope{inner};
      CHECK(current_trace() == inner);
      std::thread{[] { CHECK_FALSE(current_trace().valid()); }}.join();
    }
    CHECK(current_trace() == example);
  }
  CHECK_FALSE(current_trace().valid());
}
