#include <apps/serve/grpc/message_call.hpp>
#include <apps/serve/grpc/request.hpp>
#include <apps/serve/grpc/wire.hpp>
#include <apps/serve/protocol/status.hpp>

#include <fmt/format.h>
#include <grpcpp/server_context.h>

#include <chrono>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace serve {

using gpuactors::Result;

namespace {

// Requests of one stream that are with the models or wait for their answer to be written.
constexpr std::size_t stream_requests = 32;

/// One request of a stream.
struct Slot {
  std::string id;
  std::shared_ptr<Service::Ticket> ticket;
  std::optional<grpc::ByteBuffer> answer;
  HeldShare share;
};

class StreamCall;

} // namespace

/// What outlives the stream when the client gives it up first.
struct StreamLink {
  std::mutex mutex;
  StreamCall* call = nullptr;
};

namespace {

/// Lives until gRPC says that it is done. The members are guarded by the link's mutex.
class StreamCall final : public OpenCall {
public:
  StreamCall(std::shared_ptr<GrpcState> state, grpc::CallbackServerContext& context)
    : OpenCall(std::move(state)), context_(context) {
    link_->call = this;
  }

  void start() {
    {
      const std::lock_guard lock{state()->streams.mutex};
      state()->streams.links.insert(link_);
    }
    const std::lock_guard lock{link_->mutex};
    go_on();
  }

  /// With the lock: begins whatever can be begun.
  void go_on() {
    if (finished_)
      return;
    if (!writing_ && !slots_.empty() && slots_.front()->answer) {
      outgoing_ = std::move(*slots_.front()->answer);
      outgoing_share_ = std::move(slots_.front()->share);
      slots_.pop_front();
      writing_ = true;
      state()->writes.begin(context_, outgoing_.Length());
      StartWrite(&outgoing_);
    }
    const bool stopping = state()->front->stopping;
    if (!reading_ && !all_read_ && !stopping && slots_.size() < stream_requests) {
      reading_ = true;
      wait_for_message();
      StartRead(&incoming_);
    }
    if ((all_read_ || stopping) && !writing_ && slots_.empty())
      finish(all_read_ ? grpc::Status::OK : grpc::Status{grpc::StatusCode::UNAVAILABLE, "the server ends"});
  }

private:
  using Tickets = std::vector<std::shared_ptr<Service::Ticket>>;

  /// With the lock.
  void finish(const grpc::Status& status) {
    finished_ = true;
    state()->writes.begin(context_, 0);
    Finish(status);
  }

  /// With the lock: the next message is given up when it does not come.
  void wait_for_message() {
    read_ = state()->reads.begin(state()->front->options.limits.idle, false, [link = link_, number = ++reads_] {
      const std::lock_guard lock{link->mutex};
      if (link->call != nullptr)
        link->call->on_late(number);
    });
  }

  /// With the lock: the message has not come.
  void on_late(std::size_t number) {
    if (!reading_ || finished_ || number != reads_)
      return;
    // Who waits for answers may do so before asking more.
    if (writing_ || !slots_.empty())
      return wait_for_message();
    const auto time = std::chrono::duration_cast<std::chrono::seconds>(state()->front->options.limits.idle);
    finish({grpc::StatusCode::UNAVAILABLE,
            fmt::format("no whole request has come on this stream for {} seconds", time.count())});
  }

  void OnReadDone(bool ok) override {
    auto slot = std::make_shared<Slot>();
    {
      const std::lock_guard lock{link_->mutex};
      state()->reads.end(read_);
      if (!ok || finished_) {
        reading_ = false;
        all_read_ = true;
        return go_on();
      }
      slots_.push_back(slot);
    }
    state()->front->grpc_requests.fetch_add(1, std::memory_order_relaxed);
    ask(slot);
    const std::lock_guard lock{link_->mutex};
    // Not before: whoever answers meanwhile would have the next request read over this one.
    reading_ = false;
    go_on();
  }

  /// Without the lock: the model may answer at once.
  void ask(const std::shared_ptr<Slot>& slot) {
    auto request = read_request(context_, incoming_, state()->front->held);
    incoming_.Clear();
    if (!request)
      return settle(link_, state()->front, slot, fail(request.error()));
    slot->id = request->id;
    auto ticket = state()->front->service.infer(std::move(*request),
                                                [link = link_, front = state()->front, slot](Result<InferReply> reply) {
                                                  settle(link, front, slot, std::move(reply));
                                                });
    bool late = false;
    {
      const std::lock_guard lock{link_->mutex};
      if (!slot->answer)
        slot->ticket = ticket;
      late = finished_;
    }
    if (late && ticket)
      ticket->cancel();
  }

  static void settle(const std::shared_ptr<StreamLink>& link, const std::shared_ptr<FrontState>& front,
                     const std::shared_ptr<Slot>& slot, Result<InferReply> reply) {
    Result<HeldShare> share = HeldShare{};
    if (reply)
      share = hold(*reply, front->held);
    const auto failed = !reply   ? std::optional{reply.error().code()}
                        : !share ? std::optional{share.error().code()}
                                 : std::nullopt;
    front->grpc_answers.add(failed ? grpc_status(*failed) : 0);
    const std::lock_guard lock{link->mutex};
    slot->ticket = nullptr;
    if (!reply)
      slot->answer = stream_error_of(reply.error(), slot->id);
    else if (!share)
      slot->answer = stream_error_of(share.error(), slot->id);
    else
      slot->answer = stream_response_of(*reply);
    if (share)
      slot->share = std::move(*share);
    if (link->call != nullptr)
      link->call->go_on();
  }

  void OnWriteDone(bool ok) override {
    Tickets given_up;
    {
      const std::lock_guard lock{link_->mutex};
      if (!finished_)
        state()->writes.end(context_);
      writing_ = false;
      outgoing_.Clear();
      outgoing_share_ = {};
      if (ok)
        go_on();
      else
        given_up = give_up();
    }
    cancel(given_up);
  }

  void OnCancel() override {
    Tickets given_up;
    {
      const std::lock_guard lock{link_->mutex};
      given_up = give_up();
    }
    cancel(given_up);
  }

  /// With the lock: nobody is there to take an answer any more.
  /// @returns what has no answer yet, to be cancelled without the lock.
  Tickets give_up() {
    Tickets tickets;
    for (const auto& slot : slots_)
      if (slot->ticket)
        tickets.push_back(slot->ticket);
    slots_.clear();
    if (!finished_)
      finish({grpc::StatusCode::CANCELLED, "the client has given up the stream"});
    return tickets;
  }

  static void cancel(const Tickets& tickets) {
    for (const auto& ticket : tickets)
      ticket->cancel();
  }

  void OnDone() override {
    {
      const std::lock_guard lock{state()->streams.mutex};
      state()->streams.links.erase(link_);
    }
    {
      const std::lock_guard lock{link_->mutex};
      link_->call = nullptr;
    }
    state()->writes.forget(context_);
    delete this;
  }

  grpc::CallbackServerContext& context_;
  std::shared_ptr<StreamLink> link_ = std::make_shared<StreamLink>();
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;
  HeldShare outgoing_share_;
  SlowReads::Key read_ = 0;
  std::size_t reads_ = 0;
  std::deque<std::shared_ptr<Slot>> slots_;
  bool reading_ = false;
  bool all_read_ = false;
  bool writing_ = false;
  bool finished_ = false;
  Counting open_{state()->open_inferences};
};

} // namespace

CallReactor* infer_stream(const std::shared_ptr<GrpcState>& state, grpc::CallbackServerContext& context) {
  if (!is_allowed(*state, context))
    return refused_call(state, token_status());
  auto* call = new StreamCall{state, context};
  call->start();
  return call;
}

void end_streams(GrpcState& state) {
  std::vector<std::shared_ptr<StreamLink>> open;
  {
    const std::lock_guard lock{state.streams.mutex};
    open.assign(state.streams.links.begin(), state.streams.links.end());
  }
  for (const auto& link : open) {
    const std::lock_guard lock{link->mutex};
    if (link->call != nullptr)
      link->call->go_on();
  }
}

} // namespace serve
