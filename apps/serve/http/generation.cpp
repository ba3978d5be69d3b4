#include <apps/serve/http/generation.hpp>
#include <apps/serve/http/generation_form.hpp>
#include <apps/serve/protocol/joined_reply.hpp>
#include <apps/serve/protocol/one_reply.hpp>
#include <apps/serve/protocol/sizes.hpp>
#include <apps/serve/protocol/status.hpp>

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

namespace serve {

using gpuactors::Errc;
using gpuactors::Result;

namespace {

// What is larger is read or written elsewhere than on the threads that serve all connections, or call back.
constexpr std::size_t heavy_body = 128U << 10;
constexpr std::size_t heavy_reply = 32U << 10;

/// What an answer says of itself that has no reply.
InferReply empty_reply(const ModelDescription& model, const InferRequest& request) {
  auto version = request.version.empty() && !model.versions.empty() ? model.versions.back() : request.version;
  return {request.model, std::move(version), request.id, {}};
}

/// One request on its way. It is the handle, and what follows the beginning of the answer.
class HttpGenerationCall final : public Service::Ticket,
                                 public AnswerStream,
                                 public std::enable_shared_from_this<HttpGenerationCall> {
public:
  HttpGenerationCall(std::shared_ptr<FrontState> state, const gpuactors::TraceContext& trace, Route route, Bytes body,
                     HttpApi::Done done)
    : state_(std::move(state)), trace_(trace), route_(std::move(route)), form_(form_of(route_.endpoint)),
      body_(std::move(body)), done_(std::move(done)) {
    // nop
  }

  void start() {
    if (body_.size() <= heavy_body)
      return ask();
    if (!state_->heavy.run([self = shared_from_this()] { self->ask(); }))
      refuse(503, works_too_much);
  }

  void cancel() noexcept override {
    std::shared_ptr<Service::Replies> replies;
    {
      const std::lock_guard lock{mutex_};
      cancelled_ = true;
      replies = replies_;
    }
    if (replies)
      replies->cancel();
  }

  /// The next event.
  void next(std::function<void(std::optional<HttpPiece>)> done) override {
    const auto replies = current();
    if (replies == nullptr)
      return done(std::nullopt);
    replies->next([self = shared_from_this(), done = std::move(done)](Result<std::optional<InferReply>> reply) {
      if (reply && !*reply) {
        self->let_go();
        auto text = self->form_->end();
        return done(text.empty() ? std::optional<HttpPiece>{} : HttpPiece{std::move(text), {}, 200});
      }
      self->beside(reply,
                   [self, done](const Result<std::optional<InferReply>>& result) { done(self->piece_of(result)); });
    });
  }

private:
  using Reply = Result<std::optional<InferReply>>;

  void answer(HttpAnswer answer) {
    answer.model = model_;
    answer.version = version_;
    answer.times = times_;
    std::exchange(done_, nullptr)(std::move(answer));
  }

  void refuse(int status, std::string_view sentence) {
    answer(form_->refusal(status, sentence));
  }

  void refuse(const gpuactors::Error& error) {
    refuse(http_status(error.code()), error.message());
  }

  [[nodiscard]] std::shared_ptr<Service::Replies> current() {
    const std::lock_guard lock{mutex_};
    return replies_;
  }

  /// It is over, and would be a circle: the replies may know who waits for them.
  void let_go() {
    const std::lock_guard lock{mutex_};
    replies_ = nullptr;
  }

  [[nodiscard]] bool is_cancelled() {
    const std::lock_guard lock{mutex_};
    return cancelled_;
  }

  void ask() {
    if (is_cancelled())
      return refuse(499, "the client has gone");
    if (!share_.grow_to(reading_bytes(body_.size())))
      return refuse(503, held_too_much);
    if (const auto found = form_->find_model(body_, route_); !found)
      return refuse(found.error());
    const auto model = state_->service.describe(route_.model, route_.version, form_->find_sequence(body_));
    if (!model)
      return refuse(model.error());
    const auto most = state_->options.limits.generative_request_bytes;
    if (model->generative && body_.size() > most)
      return refuse(413, fmt::format("a request to a generative model has at most {} bytes here", most));
    auto request = form_->read(body_, *model);
    body_ = {};
    if (!request)
      return refuse(request.error());
    if (!share_.grow_to(bytes_of(*request)))
      return refuse(503, held_too_much);
    share_.settle(bytes_of(*request));
    request->arrived = arrived_;
    request->trace = trace_;
    request->model = std::move(route_.model);
    request->version = std::move(route_.version);
    const auto empty = empty_reply(*model, *request);
    model_ = empty.model;
    version_ = empty.version;
    if (!form_->streams())
      joined_.emplace(empty, model->outputs, state_->options.limits.request_bytes, state_->held);
    const std::shared_ptr<Service::Replies> replies = model->generative
                                                          ? state_->service.generate(std::move(*request))
                                                          : OneReply::of(state_->service, std::move(*request));
    bool cancelled = false;
    {
      const std::lock_guard lock{mutex_};
      replies_ = replies;
      cancelled = cancelled_;
    }
    if (cancelled)
      replies->cancel();
    pull();
  }

  /// Which version answers is known by what it says.
  void note(const InferReply& reply) {
    version_ = reply.version;
    times_ = reply.times;
  }

  // -- the first reply, or all of them ---------------------------------------------------------

  void pull() {
    current()->next([self = shared_from_this()](Reply reply) {
      if (self->joined_)
        return self->collect(reply);
      self->beside(reply, [self](const Reply& first) { self->begin(first); });
    });
  }

  /// The answer begins with what decides its status.
  void begin(const Reply& reply) {
    if (!reply) {
      let_go();
      return refuse(reply.error());
    }
    HttpAnswer head;
    head.content_type = "text/event-stream; charset=utf-8";
    if (*reply) {
      note(**reply);
      auto piece = text_of(**reply);
      if (!piece) {
        give_up();
        return refuse(piece.error());
      }
      head.text = std::move(piece->text);
      head.share = std::move(piece->share);
    } else {
      let_go();
      head.text = form_->end();
    }
    head.stream = shared_from_this();
    answer(std::move(head));
  }

  void collect(const Reply& reply) {
    if (!reply) {
      let_go();
      return refuse(reply.error());
    }
    if (!*reply) {
      let_go();
      return beside(std::optional{std::move(*joined_).take()},
                    [self = shared_from_this()](const Reply& whole) { self->answer_whole(**whole); });
    }
    note(**reply);
    if (const auto added = joined_->add(**reply); !added) {
      give_up();
      return refuse(added.error());
    }
    pull();
  }

  void answer_whole(const InferReply& reply) {
    HttpAnswer whole;
    whole.share = HeldShare{state_->held};
    auto json = form_->whole(reply, whole.share);
    if (!json)
      return refuse(json.error());
    if (!whole.share.grow_to(json->size()))
      return refuse(503, held_too_much);
    whole.share.settle(json->size());
    whole.text = std::move(*json);
    joined_.reset();
    answer(std::move(whole));
  }

  // -- events ----------------------------------------------------------------------------------

  /// Has a reply written on a thread of its own if it is large: each connection has one at most, which waits rather
  /// than break off what has begun.
  template <class Write>
  void beside(Reply reply, Write write) {
    const auto large = reply && *reply && bytes_of(**reply) > heavy_reply;
    const auto kept = std::make_shared<const Reply>(std::move(reply));
    if (!large || !state_->heavy.queue([kept, write] { write(*kept); }))
      write(*kept);
  }

  Result<HttpPiece> text_of(const InferReply& reply) const {
    HttpPiece piece{{}, HeldShare{state_->held}, 200};
    GPUACTORS_LET(text, form_->event(reply, piece.share));
    piece.text = std::move(text);
    if (piece.text.size() >= small_reply && !piece.share.grow_to(piece.text.size()))
      return gpuactors::fail(Errc::no_capacity, std::string{held_too_much});
    piece.share.settle(piece.text.size());
    return piece;
  }

  /// The event of a reply, or of the error that ends them.
  HttpPiece piece_of(const Reply& reply) {
    auto piece = reply ? text_of(**reply) : Result<HttpPiece>{gpuactors::fail(reply.error())};
    if (piece)
      return std::move(*piece);
    give_up();
    return {form_->error_event(piece.error()), {}, http_status(piece.error().code())};
  }

  void give_up() {
    const auto replies = current();
    let_go();
    if (replies)
      replies->cancel();
  }

  std::shared_ptr<FrontState> state_;
  const gpuactors::TraceContext trace_;
  Route route_;
  const std::unique_ptr<GenerationForm> form_;
  Bytes body_;
  const gpuactors::TimePoint arrived_ = gpuactors::Clock::now();
  HeldShare share_{state_->held};
  HttpApi::Done done_;
  /// Who answers, as soon as that is known.
  std::string model_;
  std::string version_;
  std::optional<ReplyTimes> times_;
  /// Of a path that wants one answer.
  std::optional<JoinedReply> joined_;
  std::mutex mutex_;
  // Guarded by the mutex.
  std::shared_ptr<Service::Replies> replies_;
  bool cancelled_ = false;
};

} // namespace

std::shared_ptr<Service::Ticket> generate_over_http(const std::shared_ptr<FrontState>& state,
                                                    const gpuactors::TraceContext& trace, Route route, Bytes body,
                                                    HttpApi::Done done) {
  auto call = std::make_shared<HttpGenerationCall>(state, trace, std::move(route), std::move(body), std::move(done));
  call->start();
  return call;
}

} // namespace serve
