#include "batch_calls.hpp"

#include <gpuactors/base/limits.hpp>

#include <fmt/format.h>

#include <cstring>
#include <utility>

namespace serve {

using gpuactors::ActorRef;
using gpuactors::Duration;
using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;

namespace {

/// Replies of several replicas arrive beside each other, as a network is seldom one link's.
constexpr std::size_t fetch_threads = 4;

} // namespace

gpuactors::Failure replica_gone() {
  return fail(Errc::not_begun, "it has ended, or the connection to it is lost");
}

BatchCalls::BatchCalls(gpuactors::Cluster& cluster, bool takes_tensors, bool has_state)
  : cluster_(cluster), takes_tensors_(takes_tensors), has_state_(has_state), fetches_(fetch_threads, 0) {
  // nop
}

void BatchCalls::end() {
  ended_ = true;
  fetches_.end();
}

void BatchCalls::call(const ActorRef& actor, const Batch& batch, Duration time, BatchDone done) {
  if (actor.away())
    return done(replica_gone());
  if (!takes_tensors_ || bytes_of(batch) <= gpuactors::limits::served_message_bytes) {
    actor.call<wire::ReplicaReply>(infer_method, message_of(batch), time)
        .then([self = shared_from_this(), done = std::move(done)](Result<wire::ReplicaReply> reply) {
          if (reply)
            self->take(std::move(*reply), done);
          else
            done(fail(reply.error()));
        });
    return;
  }
  auto tensors = put_inputs(batch);
  if (!tensors)
    return done(fail(tensors.error()));
  auto message = head_of(batch);
  for (const auto& tensor : *tensors)
    *message.add_input_tensors() = tensor.ref();
  // The callback keeps the tensors until there is an answer.
  actor.call<wire::ReplicaReply>(infer_method, std::move(message), time)
      .then([self = shared_from_this(), kept = std::move(*tensors),
             done = std::move(done)](Result<wire::ReplicaReply> reply) mutable {
        kept.clear();
        if (reply)
          self->take(std::move(*reply), done);
        else
          done(fail(reply.error()));
      });
}

Result<BatchCalls::Tensors> BatchCalls::put_inputs(const Batch& batch) {
  Tensors tensors;
  for (const auto& input : batch.inputs) {
    std::size_t bytes = 0;
    for (const auto& part : input)
      bytes += part.size();
    auto draft = cluster_.draft(gpuactors::DType::u8, {static_cast<std::int64_t>(bytes)});
    // Any other code would say that the replica is gone.
    if (!draft)
      return fail(draft.error().code() == Errc::out_of_memory ? Errc::out_of_memory : Errc::task_failed,
                  fmt::format("the server has no memory for a batch of {} bytes: {}", bytes, draft.error().message()));
    auto* target = draft->bytes().data();
    for (const auto& part : input) {
      if (!part.empty())
        std::memcpy(target, part.data(), part.size());
      target += part.size();
    }
    tensors.push_back(std::move(*draft).share());
  }
  return tensors;
}

gpuactors::Failure BatchCalls::not_fetched(const gpuactors::Error& error) const {
  const auto text = fmt::format("a reply could not be fetched: {}", error.message());
  // It was inferred, and must not be inferred again where that would change more.
  if (has_state_)
    return fail(Errc::unavailable, text);
  const auto lost = error.code() == Errc::worker_died || error.code() == Errc::actor_died;
  return fail(lost ? error.code() : Errc::task_failed, text);
}

void BatchCalls::take(wire::ReplicaReply reply, const BatchDone& done) {
  if (reply.output_tensors().empty())
    return done(reply_of(std::move(reply)));
  // From another machine they take a while, and this is the thread on which all answers come.
  const auto shared = std::make_shared<const wire::ReplicaReply>(std::move(reply));
  if (fetches_.queue([self = shared_from_this(), shared, done] { done(self->fetch(*shared)); }))
    return;
  if (ended_)
    return done(fail(Errc::unavailable, "a reply was not fetched: the model ends"));
  done(fetch(*shared)); // the machine has no thread left
}

Result<BatchReply> BatchCalls::fetch(const wire::ReplicaReply& reply) {
  auto result = times_of(reply);
  for (const auto& ref : reply.output_tensors()) {
    auto tensor = cluster_.get(ref);
    const auto bytes = tensor ? tensor->host<std::uint8_t>() : fail(tensor.error());
    if (!bytes)
      return not_fetched(bytes.error());
    const auto view = std::as_bytes(*bytes);
    result.outputs.emplace_back(std::make_shared<const gpuactors::Shared<gpuactors::Tensor>>(std::move(*tensor)), view);
  }
  return result;
}

} // namespace serve
