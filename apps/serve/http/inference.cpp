#include <apps/serve/http/inference.hpp>
#include <apps/serve/http/inflate.hpp>
#include <apps/serve/protocol/infer_reply.hpp>
#include <apps/serve/protocol/sizes.hpp>
#include <apps/serve/protocol/status.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <mutex>
#include <string_view>
#include <utility>

namespace serve {

using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;

namespace {

// What is larger is read or written elsewhere than on the threads that serve all connections.
constexpr std::size_t heavy_json = 128U << 10;
constexpr std::size_t heavy_packed = 16U << 10;
constexpr std::size_t heavy_raw = 1U << 20; // of texts, which are looked at one by one

HttpAnswer refusal_of(const gpuactors::Error& error) {
  return refusal(error.code() == Errc::infeasible ? 413 : http_status(error.code()), error.message());
}

bool is_packed(const HttpHead& head) {
  return head.content_encoding == "gzip" || head.content_encoding == "deflate";
}

/// One request on its way. It is the handle, too: the model's own comes later.
class HttpInferenceCall : public Service::Ticket, public std::enable_shared_from_this<HttpInferenceCall> {
public:
  HttpInferenceCall(std::shared_ptr<FrontState> state, const HttpHead& head, const gpuactors::TraceContext& trace,
                    Route route, Bytes body, HttpApi::Done done)
    : state_(std::move(state)), packed_(is_packed(head)), header_bytes_(head.inference_header_bytes), trace_(trace),
      route_(std::move(route)), body_(std::move(body)), done_(std::move(done)) {
    // nop
  }

  void start() {
    const auto json = json_bytes();
    if (!json)
      return done_(refusal_of(json.error()));
    json_bytes_ = *json;
    const auto light = unpack_light();
    if (!light)
      return done_(refusal_of(light.error()));
    if (*light && json->value_or(body_.size()) <= heavy_json && !has_many_texts())
      return ask();
    if (!state_->heavy.run([self = shared_from_this()] { self->ask(); }))
      done_(refusal(503, works_too_much));
  }

  void cancel() noexcept override {
    std::shared_ptr<Service::Ticket> inner;
    {
      const std::lock_guard lock{mutex_};
      cancelled_ = true;
      inner = inner_;
    }
    if (inner)
      inner->cancel();
  }

private:
  Result<std::optional<std::uint64_t>> json_bytes() const {
    if (!header_bytes_)
      return std::optional<std::uint64_t>{};
    std::uint64_t bytes = 0;
    const auto* end = header_bytes_->data() + header_bytes_->size();
    const auto [stop, error] = std::from_chars(header_bytes_->data(), end, bytes);
    if (error != std::errc{} || stop != end)
      return fail(Errc::invalid_argument, fmt::format("the Inference-Header-Content-Length is \"{}\": the bytes of the "
                                                      "JSON are expected",
                                                      *header_bytes_));
    return std::optional{bytes};
  }

  /// @returns `infeasible` when it would have more than `most` bytes.
  Result<void> unpack(std::size_t most) {
    if (!packed_)
      return {};
    BodyBuffer unpacked{state_->held, most};
    GPUACTORS_TRY(inflate(body_, unpacked));
    body_ = std::move(unpacked).take();
    packed_ = false;
    return {};
  }

  /// Unpacks what becomes not much more: how large it is before tells nothing.
  /// @returns false for anything else, which is still packed.
  Result<bool> unpack_light() {
    if (packed_ && body_.size() > heavy_packed)
      return false;
    const auto unpacked = unpack(std::min(state_->options.limits.request_bytes, heavy_json));
    if (!unpacked && unpacked.error().code() != Errc::infeasible)
      return fail(unpacked.error());
    return unpacked.has_value();
  }

  /// Whether there may be so many texts that to look at each takes long.
  [[nodiscard]] bool has_many_texts() const {
    if (body_.size() <= heavy_raw)
      return false;
    if (json_bytes_ != std::uint64_t{0}) {
      // With a backslash in it, a name may be there and not be seen.
      const auto size = std::min<std::uint64_t>(json_bytes_.value_or(body_.size()), body_.size());
      const std::string_view json{reinterpret_cast<const char*>(body_.view().data()), static_cast<std::size_t>(size)};
      return json.find("BYTES") != std::string_view::npos || json.find('\\') != std::string_view::npos;
    }
    const auto model = state_->service.describe(route_.model, route_.version);
    return model && std::any_of(model->inputs.begin(), model->inputs.end(), [](const auto& input) {
             return input.type == DataType::bytes;
           });
  }

  Result<HttpInference> read() {
    GPUACTORS_TRY(unpack(state_->options.limits.request_bytes));
    const auto json = std::min<std::uint64_t>(json_bytes_.value_or(body_.size()), body_.size());
    if (!share_.grow_to(reading_bytes(static_cast<std::size_t>(json))))
      return fail(Errc::no_capacity, std::string{held_too_much});
    if (json_bytes_ != std::uint64_t{0})
      return read_inference(body_, json_bytes_);
    GPUACTORS_LET(model, state_->service.describe(route_.model, route_.version));
    return read_raw_inference(body_, model);
  }

  /// Counts the tensors that were made of JSON; those that are views are counted with the body.
  bool hold(const InferRequest& request) {
    const auto body = body_.view();
    std::size_t bytes = 0;
    for (const auto& input : request.inputs) {
      const auto data = input.data.view();
      const auto is_view =
          std::greater_equal<>{}(data.data(), body.data()) && std::less<>{}(data.data(), body.data() + body.size());
      bytes += is_view ? 0 : data.size();
    }
    if (!share_.grow_to(bytes))
      return false;
    share_.settle(bytes);
    return true;
  }

  void ask() {
    if (is_cancelled())
      return done_(refusal(499, "the client has gone"));
    auto inference = read();
    if (!inference)
      return done_(refusal_of(inference.error()));
    const auto held = hold(inference->request);
    body_ = {};
    if (!held)
      return done_(refusal(503, held_too_much));
    form_ = std::move(inference->form);
    inference->request.arrived = arrived_;
    inference->request.trace = trace_;
    inference->request.model = std::move(route_.model);
    inference->request.version = std::move(route_.version);
    auto inner =
        state_->service.infer(std::move(inference->request), [self = shared_from_this()](Result<InferReply> reply) {
          self->finish(std::move(reply));
        });
    {
      const std::lock_guard lock{mutex_};
      // Afterwards it would be a circle: the model's handle may know the one that answers.
      if (!finished_)
        inner_ = inner;
    }
    if (is_cancelled() && inner)
      inner->cancel();
  }

  bool is_cancelled() {
    const std::lock_guard lock{mutex_};
    return cancelled_;
  }

  void finish(Result<InferReply> reply) {
    {
      const std::lock_guard lock{mutex_};
      finished_ = true;
      inner_ = nullptr;
    }
    if (!reply)
      return done_(refusal_of(reply.error()));
    std::size_t text_bytes = 0;
    for (const auto& output : reply->outputs)
      text_bytes += form_.is_binary(output.name) ? 0 : output.data.size();
    auto kept = std::make_shared<InferReply>(std::move(*reply));
    // The thread that answers is the model's: writing much text would hold up the next batch.
    if (text_bytes > heavy_json / 4
        && state_->heavy.run([self = shared_from_this(), kept] { self->done_(self->answer_of(*kept)); }))
      return;
    done_(answer_of(*kept));
  }

  HttpAnswer answer_of(const InferReply& reply) const {
    HeldShare share{state_->held};
    auto written = write_reply(reply, form_, share);
    if (!written)
      return refusal_of(written.error());
    HttpAnswer answer;
    answer.model = reply.model;
    answer.version = reply.version;
    answer.times = reply.times;
    std::size_t bytes = written->json.size();
    for (const auto& raw : written->raw)
      bytes += raw.size();
    if (!share.grow_to(bytes))
      return refusal(503, held_too_much);
    share.settle(bytes);
    answer.share = std::move(share);
    answer.text = std::move(written->json);
    answer.raw = std::move(written->raw);
    answer.tell_text_size = written->binary;
    if (written->binary)
      answer.content_type = "application/octet-stream";
    return answer;
  }

  std::shared_ptr<FrontState> state_;
  bool packed_;
  std::optional<std::string> header_bytes_;
  std::optional<std::uint64_t> json_bytes_;
  const gpuactors::TraceContext trace_;
  Route route_;
  Bytes body_;
  const gpuactors::TimePoint arrived_ = gpuactors::Clock::now();
  HeldShare share_{state_->held};
  OutputForm form_;
  HttpApi::Done done_;
  std::mutex mutex_;
  std::shared_ptr<Service::Ticket> inner_;
  bool cancelled_ = false;
  bool finished_ = false;
};

} // namespace

std::shared_ptr<Service::Ticket> infer_over_http(const std::shared_ptr<FrontState>& state, const HttpHead& head,
                                                 const gpuactors::TraceContext& trace, Route route, Bytes body,
                                                 HttpApi::Done done) {
  auto call =
      std::make_shared<HttpInferenceCall>(state, head, trace, std::move(route), std::move(body), std::move(done));
  call->start();
  return call;
}

} // namespace serve
