#include <apps/serve/http/generation.hpp>
#include <apps/serve/protocol/generate_json.hpp>
#include <apps/serve/protocol/joined_reply.hpp>
#include <apps/serve/protocol/json_text.hpp>
#include <apps/serve/protocol/one_reply.hpp>
#include <apps/serve/protocol/sizes.hpp>
#include <apps/serve/protocol/status.hpp>

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace serve {

using gpuactors::Errc;
using gpuactors::Result;

namespace {

// What is larger is read or written elsewhere than on the threads that serve all connections, or call back.
constexpr std::size_t heavy_body = 128U << 10;
constexpr std::size_t heavy_reply = 32U << 10;

HttpAnswer refusal_by(const gpuactors::Error& error) {
  return refusal(http_status(error.code()), error.message());
}

std::string event_of(std::string_view json) {
  return std::string{"data: "}.append(json).append("\n\n");
}

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
  HttpGenerationCall(std::shared_ptr<FrontState> state, Route route, Bytes body, HttpApi::Done done)
    : state_(std::move(state)), route_(std::move(route)), body_(std::move(body)), done_(std::move(done)) {
    // nop
  }

  void start() {
    if (body_.size() <= heavy_body)
      return ask();
    if (!state_->heavy.run([self = shared_from_this()] { self->ask(); }))
      answer(refusal(503, works_too_much));
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
        return done(std::nullopt);
      }
      self->beside(reply,
                   [self, done](const Result<std::optional<InferReply>>& result) { done(self->piece_of(result)); });
    });
  }

private:
  using Reply = Result<std::optional<InferReply>>;

  [[nodiscard]] bool is_stream() const {
    return route_.endpoint == EndpointKind::generate_stream;
  }

  void answer(HttpAnswer answer) {
    std::exchange(done_, nullptr)(std::move(answer));
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
      return answer(refusal(499, "the client has gone"));
    const auto model = state_->service.describe(route_.model, route_.version, find_sequence(body_));
    if (!model)
      return answer(refusal_by(model.error()));
    auto request = read_generation(body_, *model);
    body_ = {};
    if (!request)
      return answer(refusal_by(request.error()));
    if (!share_.grow_to(bytes_of(*request)))
      return answer(refusal(503, held_too_much));
    request->arrived = arrived_;
    request->model = std::move(route_.model);
    request->version = std::move(route_.version);
    if (!is_stream())
      joined_.emplace(empty_reply(*model, *request), model->outputs, state_->options.limits.request_bytes,
                      state_->held);
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
      return answer(refusal_by(reply.error()));
    }
    HttpAnswer head;
    head.content_type = "text/event-stream; charset=utf-8";
    if (*reply) {
      auto piece = text_of(**reply);
      if (!piece) {
        give_up();
        return answer(refusal_by(piece.error()));
      }
      head.text = std::move(piece->text);
      head.share = std::move(piece->share);
    }
    head.stream = shared_from_this();
    answer(std::move(head));
  }

  void collect(const Reply& reply) {
    if (!reply) {
      let_go();
      return answer(refusal_by(reply.error()));
    }
    if (!*reply) {
      let_go();
      return beside(std::optional{std::move(*joined_).take()},
                    [self = shared_from_this()](const Reply& whole) { self->answer_whole(**whole); });
    }
    if (const auto added = joined_->add(**reply); !added) {
      give_up();
      return answer(refusal_by(added.error()));
    }
    pull();
  }

  void answer_whole(const InferReply& reply) {
    auto json = write_generation(reply);
    if (!json)
      return answer(refusal_by(json.error()));
    HttpAnswer whole;
    whole.share = HeldShare{state_->held};
    if (!whole.share.grow_to(json->size()))
      return answer(refusal(503, held_too_much));
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
    GPUACTORS_LET(json, write_generation(reply));
    HttpPiece piece{event_of(json), HeldShare{state_->held}};
    if (piece.text.size() >= small_reply && !piece.share.grow_to(piece.text.size()))
      return gpuactors::fail(Errc::no_capacity, std::string{held_too_much});
    return piece;
  }

  /// The event of a reply, or of the error that ends them.
  HttpPiece piece_of(const Reply& reply) {
    auto piece = reply ? text_of(**reply) : Result<HttpPiece>{gpuactors::fail(reply.error())};
    if (piece)
      return std::move(*piece);
    give_up();
    return {event_of(error_document(piece.error().message())), {}};
  }

  void give_up() {
    const auto replies = current();
    let_go();
    if (replies)
      replies->cancel();
  }

  std::shared_ptr<FrontState> state_;
  Route route_;
  Bytes body_;
  const gpuactors::TimePoint arrived_ = gpuactors::Clock::now();
  HeldShare share_{state_->held};
  HttpApi::Done done_;
  /// Of a path that wants one answer.
  std::optional<JoinedReply> joined_;
  std::mutex mutex_;
  // Guarded by the mutex.
  std::shared_ptr<Service::Replies> replies_;
  bool cancelled_ = false;
};

} // namespace

std::shared_ptr<Service::Ticket> generate_over_http(const std::shared_ptr<FrontState>& state, Route route, Bytes body,
                                                    HttpApi::Done done) {
  auto call = std::make_shared<HttpGenerationCall>(state, std::move(route), std::move(body), std::move(done));
  call->start();
  return call;
}

} // namespace serve
