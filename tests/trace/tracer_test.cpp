// What the tracer sends, gives up and says, with a sink that the test controls.
#include <gpuactors/trace/otlp.pb.h>
#include <gpuactors/trace/tracer.hpp>

#include <support/catch.hpp>
#include <support/eventually.hpp>
#include <support/gate.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <mutex>
#include <thread>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

/// What a collector has got, and what it answers.
struct Collector {
  std::mutex mutex;
  std::vector<std::size_t> batches; // the spans of each request
  std::vector<Error> answers;       // of the next requests; then all succeed
  Gate gate{true};
  std::vector<std::string> notices;

  std::vector<std::size_t> got() {
    const std::lock_guard lock{mutex};
    return batches;
  }

  std::vector<std::string> said() {
    const std::lock_guard lock{mutex};
    return notices;
  }
};

class Sink : public SpanSink {
public:
  explicit Sink(Collector& collector) : collector_(collector) {
    // nop
  }

  Result<void> send(const std::string& body) override {
    collector_.gate.pass();
    otlp::Export request;
    const bool parsed = request.ParseFromString(body);
    const std::lock_guard lock{collector_.mutex};
    collector_.batches.push_back(parsed ? request.resource_spans(0).scope_spans(0).spans_size() : 0);
    if (collector_.answers.empty())
      return {};
    auto answer = collector_.answers.front();
    collector_.answers.erase(collector_.answers.begin());
    return fail(std::move(answer));
  }

private:
  Collector& collector_;
};

/// A tracer that sends nothing by time alone.
struct Bed {
  explicit Bed(std::size_t batch = 4, std::size_t queue = 8) {
    TraceOptions options;
    options.url = "http://c/v1/traces";
    options.batch = batch;
    options.queue = queue;
    options.delay = 24h;
    tracer = std::make_unique<Tracer>(options, std::make_unique<Sink>(collector), [this](const std::string& text) {
      const std::lock_guard lock{collector.mutex};
      collector.notices.push_back(text);
    });
  }

  void record(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      SpanRecord span;
      span.context = {1, 2, i + 1, true};
      tracer->record(std::move(span));
    }
  }

  Collector collector;
  std::unique_ptr<Tracer> tracer;
};

using Batches = std::vector<std::size_t>;
using Catch::Matchers::Contains;

} // namespace

TEST_CASE("a batch goes out when it is full, and the rest when it is asked for", "[trace]") {
  Bed bed;
  bed.record(4);
  CHECK(eventually([&] { return bed.collector.got() == Batches{4}; }));
  bed.record(2);
  CHECK(bed.tracer->flush(1min));
  CHECK(bed.collector.got() == Batches{4, 2});
  CHECK(bed.collector.said().empty());
}

TEST_CASE("a forked process sends nothing for its parent, and waits for nothing when it ends", "[trace]") {
  Bed bed;
  bed.record(1);
  const auto child = ::fork();
  if (child == 0) {
    bed.record(8);
    ::_exit(bed.tracer->flush(50ms) ? 0 : 1);
  }
  REQUIRE(child > 0);
  int status = 1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(bed.tracer->flush(1min));
  CHECK(bed.collector.got() == Batches{1});
}

TEST_CASE("without spans there is nothing to wait for", "[trace]") {
  Bed bed;
  CHECK(bed.tracer->flush(1min));
  CHECK(bed.collector.got().empty());
}

TEST_CASE("a collector that does not answer holds up nobody who records, and what has no room is lost", "[trace]") {
  Bed bed;
  bed.collector.gate.close();
  bed.record(4);
  bed.collector.gate.await(1);
  bed.record(10);
  CHECK_FALSE(bed.tracer->flush(0ms));
  bed.collector.gate.open();
  CHECK(bed.tracer->flush(1min));
  CHECK(bed.collector.got() == Batches{4, 4, 4});
  // The second batch knows that none was lost behind it.
  REQUIRE(bed.collector.said().size() == 2);
  CHECK_THAT(bed.collector.said()[0], Contains("2 spans were lost, and so will others be: more than 8 wait"));
  CHECK_THAT(bed.collector.said()[1], Contains("again"));
}

TEST_CASE("a batch that is refused is given up, which is said once until it works again", "[trace]") {
  Bed bed;
  bed.collector.answers = {{Errc::invalid_argument, "status 400"}, {Errc::invalid_argument, "status 400"}};
  bed.record(2);
  CHECK(bed.tracer->flush(1min));
  bed.record(1);
  CHECK(bed.tracer->flush(1min));
  REQUIRE(bed.collector.said().size() == 1);
  CHECK_THAT(bed.collector.said()[0], Contains("2 spans were lost") && Contains("status 400"));
  bed.record(1);
  CHECK(bed.tracer->flush(1min));
  CHECK(bed.collector.got() == Batches{2, 1, 1});
  REQUIRE(bed.collector.said().size() == 2);
  CHECK_THAT(bed.collector.said()[1], Contains("http://c/v1/traces again, all of them"));
}

TEST_CASE("a collector that is away for a moment gets the same batch again", "[trace]") {
  Bed bed;
  bed.collector.answers = {{Errc::unavailable, "status 503"}};
  bed.record(4);
  CHECK(eventually([&] { return bed.collector.got() == Batches{4, 4}; }));
  CHECK(bed.tracer->flush(1min));
  CHECK(bed.collector.said().empty());
}

TEST_CASE("what comes while somebody flushes is in no hurry", "[trace]") {
  Bed bed;
  bed.collector.gate.close();
  bed.record(1);
  std::thread flush{[&] { CHECK(bed.tracer->flush(1min)); }};
  bed.collector.gate.await(1);
  bed.record(1);
  bed.collector.gate.open();
  flush.join();
  // Its thread ends here, and would have taken the second one before the flush was over.
  bed.tracer = nullptr;
  CHECK(bed.collector.got() == Batches{1});
}

TEST_CASE("whoever flushes does not wait for pauses between attempts", "[trace]") {
  Bed bed;
  bed.collector.answers.assign(100, {Errc::unavailable, "connection refused"});
  bed.record(1);
  CHECK(bed.tracer->flush(1min));
  REQUIRE(bed.collector.said().size() == 1);
  CHECK_THAT(bed.collector.said()[0], Contains("connection refused"));
  CHECK(bed.collector.got() == Batches{1});
}
