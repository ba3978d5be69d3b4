// A program whose spans the test reads: trace_program [TRACEPARENT] [--broker HOST:PORT] and what Cluster::open takes.
// Prints the id of its trace. Its workers are itself.
#include <gpuactors/gpuactors.hpp>

#include <fmt/format.h>
#include <google/protobuf/wrappers.pb.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace {

using google::protobuf::Empty;
using google::protobuf::Int64Value;
using google::protobuf::StringValue;

Int64Value number(std::int64_t value) {
  Int64Value message;
  message.set_value(value);
  return message;
}

class Ranker : public gpuactors::Actor {
public:
  using Actor::Actor;

  /// Its own piece of work, then a task, then another method of itself that runs beside this one.
  gpuactors::Result<Int64Value> rank(const StringValue& query) {
    {
      gpuactors::Span span{"tokenize"};
      span.set("tokens", std::int64_t{2});
      span.set("tokens", std::int64_t{3});
      span.set("text", query.value());
    }
    auto cluster = gpuactors::Cluster::from(*this);
    return cluster.submit<Int64Value>("length", query, {.cpus = 0}).get();
  }

  gpuactors::Result<Empty> refuse(const Empty&) {
    return gpuactors::fail(gpuactors::Errc::task_failed, "not today");
  }

  /// Answers from another thread, when the method has returned.
  gpuactors::Future<Int64Value> later(const Empty&) {
    gpuactors::Promise<Int64Value> promise;
    auto future = promise.future();
    std::thread{[promise = std::move(promise), trace = gpuactors::current_trace()]() mutable {
      const gpuactors::TraceScope scope{trace};
      { const gpuactors::Span span{"on another thread"}; }
      promise.set(number(1));
    }}.detach();
    return future;
  }

  /// A stream that ends when the method has returned.
  gpuactors::Result<void> watch(const Empty&, gpuactors::ReplyStream<Int64Value>& out) {
    GPUACTORS_LET(kept, out.keep());
    auto shared = std::make_shared<gpuactors::OpenStream<Int64Value>>(std::move(kept));
    post([shared] {
      static_cast<void>(shared->write(number(7)));
      shared->finish();
    });
    return {};
  }

  [[nodiscard]] Int64Value look(const Empty&) const {
    return number(gpuactors::current_trace().valid() ? 1 : 0);
  }
};

GPUACTORS_ACTOR("ranker", Ranker)
    .method("rank", &Ranker::rank)
    .method("refuse", &Ranker::refuse)
    .method("later", &Ranker::later)
    .method("watch", &Ranker::watch)
    .concurrent_method("look", &Ranker::look);

class Peer : public gpuactors::WithPeers<gpuactors::Actor> {
public:
  using WithPeers::WithPeers;

  gpuactors::Result<Int64Value> sum(const Int64Value& mine) {
    std::vector<std::int64_t> values{mine.value()};
    GPUACTORS_TRY(peers().all_reduce(values));
    return number(values[0]);
  }
};

GPUACTORS_ACTOR("peer", Peer).method("sum", &Peer::sum);

Int64Value length(gpuactors::TaskContext&, const StringValue& text) {
  return number(static_cast<std::int64_t>(text.value().size()));
}

GPUACTORS_TASK("length", length);

gpuactors::Result<void> run(int argc, char** argv) {
  GPUACTORS_LET(cluster, gpuactors::Cluster::open(argc, argv));
  std::optional<gpuactors::TraceContext> caller;
  for (int i = 1; i < argc; ++i)
    if (const auto context = gpuactors::parse_traceparent(argv[i]))
      caller = context;
  GPUACTORS_LET(ranker, cluster.spawn("ranker", {}, {.cpus = 0}));
  std::vector<gpuactors::ActorRef> peers(2);
  for (auto& peer : peers) {
    GPUACTORS_LET(made, cluster.spawn("peer", {}, {.cpus = 0}));
    peer = std::move(made);
  }
  GPUACTORS_TRY(gpuactors::form_collective(peers));
  gpuactors::Span request{"request", gpuactors::SpanKind::server, caller.value_or(gpuactors::TraceContext{})};
  fmt::print("{:016x}{:016x}\n", request.context().trace_high, request.context().trace_low);
  StringValue query;
  query.set_value("gpu actors");
  GPUACTORS_LET(rank, ranker.call<Int64Value>("rank", query).get());
  if (rank.value() != static_cast<std::int64_t>(query.value().size()))
    return gpuactors::fail(gpuactors::Errc::internal, "the rank is wrong");
  const auto refused = ranker.call("refuse").get();
  if (refused || refused.error().code() != gpuactors::Errc::task_failed)
    return gpuactors::fail(gpuactors::Errc::internal, "it was not refused");
  GPUACTORS_TRY(ranker.call<Int64Value>("later").get());
  auto stream = ranker.stream<Int64Value>("watch");
  GPUACTORS_TRY(stream.for_each([](const Int64Value&) {}));
  GPUACTORS_LET(look, ranker.call<Int64Value>("look").get());
  auto other = peers[1].call<Int64Value>("sum", number(2));
  GPUACTORS_LET(sum, peers[0].call<Int64Value>("sum", number(1)).get());
  GPUACTORS_TRY(other.get());
  if (sum.value() != 3)
    return gpuactors::fail(gpuactors::Errc::internal, "the sum is wrong");
  fmt::print("{}\n", look.value() == 1 ? "traced" : "not traced");
  return {};
}

} // namespace

int main(int argc, char** argv) {
  const auto done = run(argc, argv);
  // On a busy machine, the end of a process would not wait long enough.
  gpuactors::flush_traces(std::chrono::seconds{60});
  if (!done)
    fmt::print(stderr, "{}\n", to_string(done.error()));
  return done ? 0 : 1;
}
