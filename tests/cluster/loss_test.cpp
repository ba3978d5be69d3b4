// Devices that are lost where no ordinary call of an actor sees it: in answers that come later, in concurrent methods,
// and before the actor was there.
#include "fixtures.hpp"

#include <gpuactors/device/faulty.hpp>

#include <support/catch.hpp>
#include <support/eventually.hpp>

#include <thread>

using namespace gpuactors;
using namespace gpuactors::test;
using google::protobuf::Empty;

namespace {

constexpr ActorKind answering{"answering"};
constexpr Method<> later{"later"};
constexpr Method<> beside{"beside"};

/// Uses the stream on another thread, when the gate is open.
class Use {
public:
  Use() = default;
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

  ~Use() {
    if (thread_.joinable())
      thread_.join();
  }

  Future<void> begin(Stream& stream) {
    Promise<void> promise;
    auto future = promise.future();
    thread_ = std::thread{[&stream, promise = std::move(promise)]() mutable {
      gate().pass();
      const auto buffer = stream.allocate(1024);
      promise.set(buffer ? Result<void>{} : Result<void>{fail(buffer.error())});
    }};
    return future;
  }

private:
  std::thread thread_;
};

class Answering : public FractionalGPUActor {
public:
  explicit Answering(Init init) : FractionalGPUActor(std::move(init)), stream_(&gpu().stream()) {
    // nop
  }

  Future<void> later(const Empty&) {
    return use_.begin(gpu().stream());
  }

  [[nodiscard]] Result<void> beside(const Empty&) const {
    GPUACTORS_TRY(stream_->allocate(1024));
    return {};
  }

private:
  Stream* stream_;
  Use use_;
};

Cluster embed_answering(const std::shared_ptr<faulty::Plan>& plan) {
  gate().close();
  auto types = std::make_shared<TypeRegistry>();
  define_actor<Answering>(answering, *types)
      .method(later, &Answering::later)
      .concurrent_method(beside, &Answering::beside);
  EmbeddedNode node{.name = "local", .devices = "host:2x64MiB"};
  node.decorate = faulty::decorator(plan, 0);
  EmbedOptions options;
  options.nodes = {node};
  options.registry = types;
  return must(Cluster::embed(std::move(options)));
}

bool is_failed(Cluster& cluster, int device) {
  return must(cluster.state()).devices(device).state() == "failed";
}

} // namespace

TEST_CASE("an actor whose late answer says that its device is lost starts anew, though nobody calls it again",
          "[cluster]") {
  const auto plan = std::make_shared<faulty::Plan>();
  auto cluster = embed_answering(plan);
  auto actor = must(cluster.spawn(answering, {}, {.gpus = 0.5, .max_restarts = 1}));
  plan->lose_context_at(faulty::Call::allocate, plan->calls(faulty::Call::allocate) + 1);
  auto answer = actor.call(later);
  gate().open();
  CHECK(answer.get().error().code() == Errc::context_lost);
  CHECK(eventually([&] { return is_failed(cluster, 0); }));
  CHECK(eventually([&] { return actor.call(beside).get().has_value(); }));
}

TEST_CASE("an actor whose concurrent method finds its device lost starts anew, though nobody calls its others",
          "[cluster]") {
  const auto plan = std::make_shared<faulty::Plan>();
  auto cluster = embed_answering(plan);
  auto actor = must(cluster.spawn(answering, {}, {.gpus = 0.5, .max_restarts = 1}));
  plan->lose_context_at(faulty::Call::allocate, plan->calls(faulty::Call::allocate) + 1);
  CHECK(actor.call(beside).get().error().code() == Errc::context_lost);
  CHECK(eventually([&] { return is_failed(cluster, 0); }));
  CHECK(eventually([&] { return actor.call(beside).get().has_value(); }));
}

TEST_CASE("what finds its device lost before it begins tells so, and may be tried again elsewhere", "[cluster]") {
  const auto plan = std::make_shared<faulty::Plan>();
  auto cluster = embed_answering(plan);
  plan->lose_context_at(faulty::Call::open, 1);
  const auto first = cluster.spawn(answering, {}, {.gpus = 0.5});
  REQUIRE_FALSE(first.has_value());
  CHECK(is_loss(first.error().code()));
  CHECK(first.error().message().find("sticky error") != std::string::npos);
  CHECK(is_failed(cluster, 0));
  CHECK(must(cluster.spawn(answering, {}, {.gpus = 0.5})).lease().devices.front().index == 1);
}
