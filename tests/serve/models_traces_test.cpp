// Which trace the calls of replicas belong to. Nothing is recorded here: what a request came with is passed on.
#include "models_fixture.hpp"
#include "models_played.hpp"

#include <apps/serve/models/dispatcher.hpp>

using namespace serve;
using namespace serve::test;
using gpuactors::TraceContext;

namespace {

constexpr TraceContext sampled{1, 2, 3, true};
constexpr TraceContext also_sampled{4, 5, 6, true};
constexpr TraceContext not_sampled{7, 8, 9, false};

/// The traces that batches of a model belong to, each of up to three requests.
class TracedBatches {
public:
  TracedBatches() {
    DispatcherOptions options;
    options.facts = digits_facts();
    options.limits.max_batch = 3;
    dispatcher_ = must(Dispatcher::start(std::move(options), [] {}));
  }

  TracedBatches(const TracedBatches&) = delete;
  TracedBatches& operator=(const TracedBatches&) = delete;

  ~TracedBatches() {
    dispatcher_->close({});
  }

  void ask(const TraceContext& trace) {
    auto request = request_for("digits", some_rows(1, 1));
    request.trace = trace;
    auto pending = std::make_shared<Pending>(std::move(request), [this](gpuactors::Result<InferReply> reply) {
      if (reply)
        times.push_back(reply->times.value());
    });
    pending->arrived = gpuactors::Clock::now();
    REQUIRE(dispatcher_->submit(pending));
  }

  /// Requests that come together.
  TraceContext of_batch(const std::vector<TraceContext>& requests) {
    for (const auto& trace : requests)
      ask(trace);
    TraceContext seen;
    const auto id = ++replicas_;
    dispatcher_->add({id, gpuactors::Share{2'500}, 0},
                     by_messages([&](const wire::ReplicaBatch& batch, MessageDone done) {
                       CHECK(batch.rows() == static_cast<std::int64_t>(requests.size()));
                       seen = gpuactors::current_trace();
                       wire::ReplicaReply reply;
                       reply.add_outputs(std::string(requests.size() * outputs * sizeof(float), '\0'));
                       done(std::move(reply));
                     }));
    CHECK(dispatcher_->remove_idle(id));
    return seen;
  }

  std::vector<ReplyTimes> times;

private:
  std::shared_ptr<Dispatcher> dispatcher_;
  std::uint64_t replicas_ = 0;
};

} // namespace

TEST_CASE("the call of a replica belongs to the first request of its batch that is sampled", "[serve]") {
  TracedBatches batches;
  CHECK(batches.of_batch({sampled}) == sampled);
  CHECK(batches.of_batch({not_sampled, {}, also_sampled}) == also_sampled);
  CHECK(batches.of_batch({{}, not_sampled}) == not_sampled);
  CHECK(batches.of_batch({sampled, also_sampled, not_sampled}) == sampled);
}

TEST_CASE("a batch of requests without traces belongs to none, whatever the thread works for", "[serve]") {
  TracedBatches batches;
  const gpuactors::TraceScope scope{sampled};
  CHECK(batches.of_batch({{}, {}}) == TraceContext{});
  CHECK(gpuactors::current_trace() == sampled);
}

TEST_CASE("a batch that is not recorded is nothing that its requests could refer to", "[serve]") {
  TracedBatches batches;
  batches.of_batch({sampled, also_sampled});
  REQUIRE(batches.times.size() == 2);
  for (const auto& times : batches.times)
    CHECK_FALSE(times.batch.valid());
}

TEST_CASE("the stream of a generative model belongs to its request", "[serve]") {
  ChatDesk desk;
  TraceContext seen = also_sampled;
  PlayedGenerator replica;
  desk.dispatcher->add_generative({1, gpuactors::Share{2'500}, 0},
                                  [&](wire::GenerateRequest request, gpuactors::Duration time) {
                                    seen = gpuactors::current_trace();
                                    return replica.run()(std::move(request), time);
                                  });
  const auto none = desk.ask("a");
  CHECK(seen == TraceContext{});
  const auto traced = desk.ask("b", {}, 1, {}, not_sampled);
  CHECK(seen == not_sampled);
}
