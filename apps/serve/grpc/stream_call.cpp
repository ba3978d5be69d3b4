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
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace serve {

using gpuactors::Result;

namespace {

// Requests of one stream that are with the models or wait for their answer to be written.
constexpr std::size_t stream_requests = 32;

/// One request to an ordinary model, which has one answer.
struct Slot {
  std::string id;
  std::shared_ptr<Service::Ticket> ticket;
  std::optional<grpc::ByteBuffer> answer;
  HeldShare share;
  std::unique_ptr<RequestLine> line;
};

/// One request to a generative model. The next reply is asked for when the one before has been written: who does not
/// read holds up the model.
struct Talk {
  std::string id;
  std::string model;
  /// As the replies say.
  std::string version;
  bool wants_end = false;
  std::shared_ptr<Service::Replies> replies;
  std::unique_ptr<RequestLine> line;
};

/// What is to be written, and whose next reply is to be asked for then, unless it was the last.
struct Outgoing {
  grpc::ByteBuffer bytes;
  HeldShare share;
  std::shared_ptr<Talk> talk;
  bool last = false;
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
    : OpenCall(std::move(state)), context_(context), request_id_(begin_request_id(*StreamCall::state(), context)) {
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
    if (!writing_ && take_next()) {
      writing_ = true;
      state()->writes.begin(context_, outgoing_.bytes.Length());
      StartWrite(&outgoing_.bytes);
    }
    const bool stopping = state()->front->stopping;
    if (!reading_ && !all_read_ && !stopping && slots_.size() + talks_.size() < stream_requests) {
      reading_ = true;
      wait_for_message();
      StartRead(&incoming_);
    }
    if ((all_read_ || stopping) && !writing_ && !asking_ && !has_requests())
      finish(all_read_ ? grpc::Status::OK : grpc::Status{grpc::StatusCode::UNAVAILABLE, "the server ends"});
  }

private:
  using Tickets = std::vector<std::shared_ptr<Service::Ticket>>;

  /// With the lock: whether something is not answered yet, or not written.
  [[nodiscard]] bool has_requests() const {
    return !slots_.empty() || !talks_.empty() || !items_.empty();
  }

  /// With the lock: takes what is to be written next, if there is something. Answers of ordinary models, which come in
  /// the order of their requests, and items of generative ones take turns.
  bool take_next() {
    const auto answered = !slots_.empty() && slots_.front()->answer;
    const auto item = !items_.empty() && (!answered || items_first_);
    if (!item && !answered)
      return false;
    items_first_ = !item;
    if (item) {
      outgoing_ = std::move(items_.front());
      items_.pop_front();
      if (outgoing_.last)
        talks_.erase(outgoing_.talk);
    } else {
      outgoing_ = {std::move(*slots_.front()->answer), std::move(slots_.front()->share), nullptr, false};
      slots_.pop_front();
    }
    return true;
  }

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
    if (writing_ || has_requests())
      return wait_for_message();
    const auto time = std::chrono::duration_cast<std::chrono::seconds>(state()->front->options.limits.idle);
    finish({grpc::StatusCode::UNAVAILABLE,
            fmt::format("no whole request has come on this stream for {} seconds", time.count())});
  }

  void OnReadDone(bool ok) override {
    {
      const std::lock_guard lock{link_->mutex};
      state()->reads.end(read_);
      if (!ok || finished_) {
        reading_ = false;
        all_read_ = true;
        return go_on();
      }
      asking_ = true;
    }
    state()->front->grpc_requests.fetch_add(1, std::memory_order_relaxed);
    ask();
    const std::lock_guard lock{link_->mutex};
    // Not before: whoever answers meanwhile would have the next request read over this one.
    reading_ = asking_ = false;
    go_on();
  }

  /// Without the lock: the model may answer at once.
  void ask() {
    auto line = begin_line(*state(), context_, request_id_, model_stream_infer);
    line->about.in_bytes = incoming_.Length();
    auto [id, request] = read_request(context_, incoming_, line->about.trace, state()->front->held);
    incoming_.Clear();
    if (request) {
      line->about.model = request->model;
      line->about.version = request->version;
    }
    auto& service = state()->front->service;
    const auto generative =
        request ? service.generative(request->model, request->version, request->sequence) : Result<bool>{false};
    // What is wrong with the model's name, its answer says.
    if (generative && *generative)
      begin_talk(std::move(*request), std::move(line));
    else
      fill_slot(std::move(id), std::move(request), std::move(line));
  }

  void fill_slot(std::string id, Result<InferRequest> request, std::unique_ptr<RequestLine> line) {
    auto slot = std::make_shared<Slot>();
    slot->id = std::move(id);
    slot->line = std::move(line);
    {
      const std::lock_guard lock{link_->mutex};
      slots_.push_back(slot);
    }
    if (!request)
      return settle(link_, state()->front, slot, fail(request.error()));
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
    const auto code = !reply ? grpc_status(reply.error().code()) : !share ? grpc_status(share.error().code()) : 0;
    front->grpc_answers.add(code);
    if (reply) {
      slot->line->about.version = reply->version;
      slot->line->about.times = reply->times;
    }
    const std::lock_guard lock{link->mutex};
    slot->ticket = nullptr;
    if (!reply)
      slot->answer = stream_error_of(reply.error(), slot->id, true);
    else if (!share)
      slot->answer = stream_error_of(share.error(), slot->id, true);
    else
      slot->answer = stream_response_of(*reply, true);
    slot->line->about.out_bytes = slot->answer->Length();
    slot->line->end(code);
    if (share)
      slot->share = std::move(*share);
    if (link->call != nullptr)
      link->call->go_on();
  }

  // -- generative models -----------------------------------------------------------------------

  void begin_talk(InferRequest request, std::unique_ptr<RequestLine> line) {
    auto talk = std::make_shared<Talk>(
        Talk{request.id, request.model, request.version, request.wants_end, nullptr, std::move(line)});
    // Without a reply, only its end says which version it was.
    if (talk->wants_end && talk->version.empty())
      if (const auto model = state()->front->service.describe(talk->model, {}, request.sequence);
          model && !model->versions.empty())
        talk->version = model->versions.back();
    talk->replies = state()->front->service.generate(std::move(request));
    bool late = false;
    {
      const std::lock_guard lock{link_->mutex};
      late = finished_;
      if (!late)
        talks_.insert(talk);
    }
    if (late)
      talk->replies->cancel();
    else
      ask_next(link_, state()->front, talk);
  }

  static void ask_next(const std::shared_ptr<StreamLink>& link, const std::shared_ptr<FrontState>& front,
                       const std::shared_ptr<Talk>& talk) {
    talk->replies->next([link, front, talk](Result<std::optional<InferReply>> reply) {
      Outgoing outgoing;
      const auto over = !write_reply(*front, talk, reply, outgoing);
      bool wanted = false;
      {
        const std::lock_guard lock{link->mutex};
        wanted = link->call != nullptr && link->call->take_item(talk, std::move(outgoing), over);
      }
      if (!wanted)
        talk->replies->cancel();
    });
  }

  /// Makes a message of a reply, of an error, and of the end where the client wants that.
  /// @returns whether there may be more.
  static bool write_reply(FrontState& front, const std::shared_ptr<Talk>& talk,
                          const Result<std::optional<InferReply>>& reply, Outgoing& outgoing) {
    auto error = reply ? std::nullopt : std::optional{reply.error()};
    if (reply && *reply) {
      talk->version = (*reply)->version;
      auto& about = talk->line->about;
      about.version = talk->version;
      if (!about.first)
        about.first = gpuactors::Clock::now() - about.begun;
      auto share = hold_item(**reply, front.held);
      if (share) {
        outgoing = {stream_response_of(**reply, false), std::move(*share), nullptr, false};
        about.out_bytes += outgoing.bytes.Length();
        return true;
      }
      error = share.error();
      talk->replies->cancel();
    }
    front.grpc_answers.add(error ? grpc_status(error->code()) : 0);
    talk->line->end(error ? grpc_status(error->code()) : 0);
    if (error)
      outgoing.bytes = stream_error_of(*error, talk->id, true);
    else if (talk->wants_end)
      outgoing.bytes = stream_response_of(InferReply{talk->model, talk->version, talk->id, {}}, true);
    return false;
  }

  /// With the lock. @returns false if nobody is there to take it.
  bool take_item(const std::shared_ptr<Talk>& talk, Outgoing outgoing, bool over) {
    if (finished_)
      return false;
    if (outgoing.bytes.Length() > 0) {
      // It counts until its last message is written: who does not read cannot go on to ask what fails at once.
      outgoing.talk = talk;
      outgoing.last = over;
      items_.push_back(std::move(outgoing));
    } else if (over) {
      talks_.erase(talk);
    }
    go_on();
    return true;
  }

  // -- gRPC ------------------------------------------------------------------------------------

  void OnWriteDone(bool ok) override {
    Tickets given_up;
    std::shared_ptr<Talk> talk;
    Outgoing written; // let go without the lock
    {
      const std::lock_guard lock{link_->mutex};
      if (!finished_)
        state()->writes.end(context_);
      writing_ = false;
      written = std::exchange(outgoing_, {});
      if (ok && !finished_ && !written.last)
        talk = written.talk;
      if (ok)
        go_on();
      else
        given_up = give_up();
    }
    cancel(given_up);
    if (talk)
      ask_next(link_, state()->front, talk);
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
    for (const auto& talk : talks_)
      tickets.push_back(talk->replies);
    slots_.clear();
    talks_.clear();
    items_.clear();
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
  const std::string request_id_;
  std::shared_ptr<StreamLink> link_ = std::make_shared<StreamLink>();
  grpc::ByteBuffer incoming_;
  Outgoing outgoing_;
  SlowReads::Key read_ = 0;
  std::size_t reads_ = 0;
  /// In the order of the requests.
  std::deque<std::shared_ptr<Slot>> slots_;
  /// Those whose last message is not with gRPC yet, and the messages that are to be written.
  std::set<std::shared_ptr<Talk>> talks_;
  std::deque<Outgoing> items_;
  bool items_first_ = true;
  bool reading_ = false;
  /// A request has been read and is being handed to its model.
  bool asking_ = false;
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
