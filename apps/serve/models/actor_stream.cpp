#include "actor_stream.hpp"

#include "batch_calls.hpp"

#include <memory>
#include <utility>

namespace serve {

namespace {

class ActorStream final : public ReplicaStream {
public:
  explicit ActorStream(gpuactors::StreamReader<wire::GenerateReply> reader) : reader_(std::move(reader)) {
    // nop
  }

  void when_ready(std::function<void()> ready) override {
    reader_.when_ready(std::move(ready));
  }

  gpuactors::Result<std::optional<wire::GenerateReply>> take() override {
    return reader_.next(gpuactors::Duration::zero());
  }

private:
  gpuactors::StreamReader<wire::GenerateReply> reader_;
};

/// That of a replica which is not there any more.
class AwayStream final : public ReplicaStream {
public:
  void when_ready(std::function<void()> ready) override {
    ready();
  }

  gpuactors::Result<std::optional<wire::GenerateReply>> take() override {
    return replica_gone();
  }
};

} // namespace

RunStream stream_from(gpuactors::ActorRef actor) {
  return [actor = std::move(actor)](wire::GenerateRequest request,
                                    gpuactors::Duration deadline) -> std::shared_ptr<ReplicaStream> {
    if (actor.away())
      return std::make_shared<AwayStream>();
    return std::make_shared<ActorStream>(
        actor.stream<wire::GenerateReply>(generate_method, std::move(request), deadline));
  };
}

} // namespace serve
