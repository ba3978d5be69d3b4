// Spans of a process whose environment asks for traces, of which none is sampled.
#include <gpuactors/trace/span.hpp>

#include <support/catch.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

using namespace gpuactors;

TEST_CASE("a forked process begins other traces than its parent", "[trace]") {
  // Before the first call, which reads them.
  ::setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9", 1);
  ::setenv("OTEL_TRACES_SAMPLER", "always_off", 1);
  if (!records_traces())
    return; // there is no libcurl
  const auto begin = [] { return OpenSpan{"work", SpanKind::internal, {}}.context(); };
  REQUIRE(begin().valid());
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const auto child = ::fork();
  if (child == 0) {
    const auto own = begin();
    ::_exit(::write(ends[1], &own.trace_low, sizeof own.trace_low) == sizeof own.trace_low ? 0 : 1);
  }
  REQUIRE(child > 0);
  std::uint64_t of_child = 0;
  CHECK(::read(ends[0], &of_child, sizeof of_child) == sizeof of_child);
  int status = 1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  ::close(ends[0]);
  ::close(ends[1]);
  CHECK(of_child != begin().trace_low);
}
