#include "generation.hpp"

#include "dispatcher.hpp"
#include "generation_messages.hpp"

#include <utility>

namespace serve {

using gpuactors::Result;

// -- life -----------------------------------------------------------------------------------------

Generation::Generation(InferRequest request) : pending_(std::make_shared<Pending>(std::move(request), InferDone{})) {
  // nop
}

std::shared_ptr<Generation> Generation::of(InferRequest request) {
  std::shared_ptr<Generation> generation{new Generation{std::move(request)}};
  const std::weak_ptr<Generation> weak = generation;
  generation->pending_->generation = weak;
  // All that ends a request, but its own end, does so with an error.
  generation->pending_->done = [weak](Result<InferReply> reply) {
    if (const auto self = weak.lock(); self && !reply)
      self->end(gpuactors::fail(reply.error()));
  };
  return generation;
}

Generation::~Generation() {
  cancel();
}

void Generation::belongs_to(std::shared_ptr<Dispatcher> dispatcher) {
  dispatcher_ = std::move(dispatcher);
}

void Generation::cancel() noexcept {
  if (dispatcher_ != nullptr)
    dispatcher_->cancel(*pending_);
}

void Generation::end(Result<std::optional<InferReply>> how) {
  Next done;
  std::shared_ptr<ReplicaStream> source;
  {
    const std::lock_guard lock{mutex_};
    if (end_)
      return;
    end_ = how;
    source = std::exchange(source_, nullptr);
    done = std::exchange(wanted_, nullptr);
  }
  source.reset();
  if (done)
    done(std::move(how));
}

// -- items ----------------------------------------------------------------------------------------

void Generation::next(Next done) {
  std::shared_ptr<ReplicaStream> source;
  std::uint64_t flight = 0;
  std::optional<Result<std::optional<InferReply>>> end;
  {
    const std::lock_guard lock{mutex_};
    end = end_;
    if (!end) {
      wanted_ = std::move(done);
      source = source_;
      flight = flight_;
    }
  }
  if (end)
    done(std::move(*end));
  else if (source != nullptr)
    watch(*source, flight);
}

void Generation::begin(std::shared_ptr<ReplicaStream> source, std::uint64_t flight) {
  // Let go of without the lock, as all streams are: their end may call back.
  std::shared_ptr<ReplicaStream> old;
  {
    const std::lock_guard lock{mutex_};
    // It was withdrawn meanwhile, or its replica was lost and another one has begun.
    if (end_ || flight < flight_)
      return;
    old = std::exchange(source_, source);
    flight_ = flight;
    if (!wanted_)
      return;
  }
  watch(*source, flight);
}

void Generation::watch(ReplicaStream& source, std::uint64_t flight) {
  source.when_ready([weak = weak_from_this(), flight] {
    if (const auto self = weak.lock())
      self->on_ready(flight);
  });
}

void Generation::on_ready(std::uint64_t flight) {
  Result<std::optional<wire::GenerateReply>> item = std::optional<wire::GenerateReply>{};
  std::shared_ptr<ReplicaStream> source;
  {
    const std::lock_guard lock{mutex_};
    if (flight != flight_ || source_ == nullptr || !wanted_)
      return;
    source = source_;
    item = source->take();
  }
  if (!item)
    return dispatcher_->stream_failed(pending_, flight, item.error());
  if (*item)
    return pass_on(std::move(**item), source, flight);
  if (dispatcher_->stream_ended(pending_, flight))
    end(std::optional<InferReply>{});
}

void Generation::pass_on(wire::GenerateReply item, const std::shared_ptr<ReplicaStream>& source, std::uint64_t flight) {
  auto reply = reply_of(std::move(item), pending_->request, dispatcher_->facts());
  if (!reply)
    return dispatcher_->stream_failed(pending_, flight, reply.error());
  // Nothing of what the client wants.
  if (reply->outputs.empty())
    return watch(*source, flight);
  // The replica counts as lost since, and another one answers from the beginning; or the request was answered.
  if (!dispatcher_->delivers(*pending_, flight))
    return;
  Next done;
  {
    const std::lock_guard lock{mutex_};
    done = std::exchange(wanted_, nullptr);
  }
  if (done)
    done(std::move(*reply));
}

} // namespace serve
