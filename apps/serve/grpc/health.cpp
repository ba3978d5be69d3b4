#include <apps/serve/grpc/health.hpp>
#include <apps/serve/grpc/small_call.hpp>
#include <apps/serve/grpc/wire.hpp>

#include <fmt/format.h>
#include <grpcpp/server_context.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

namespace serve {

using Request = grpc::health::v1::HealthCheckRequest;
using Response = grpc::health::v1::HealthCheckResponse;

namespace {

/// Without a token, so many watches may be open.
constexpr std::size_t most_stranger_watches = 64;

/// How long each word to a watch may take when the server ends: it does not wait for those that do not read.
constexpr std::chrono::seconds last_words{1};

/// How often it is looked whether something has changed.
constexpr std::chrono::milliseconds look_again{100};

bool is_server(const std::string& name) {
  return name.empty() || name == "inference.GRPCInferenceService";
}

} // namespace

/// One who watches. Guarded by the mutex of the service.
class HealthWatch final : public MessageCall {
public:
  HealthWatch(HealthAnswers& service, grpc::CallbackServerContext& context, Caller caller)
    : MessageCall(service.state_, context), service_(service), caller_(caller) {
    // nop
  }

  /// With the mutex: tells what has changed, and ends behind that when the server does.
  void look() {
    if (service_.ending_)
      state()->writes.limit(context(), last_words);
    if (writing_ || finished_)
      return;
    const auto status = service_.status_of(name_);
    if (told_ == status) {
      if (service_.ending_)
        finish({grpc::StatusCode::UNAVAILABLE, "the server ends"});
      return;
    }
    told_ = status;
    Response response;
    response.set_status(status);
    outgoing_ = bytes_of(response);
    writing_ = true;
    state()->writes.begin(context(), outgoing_.Length());
    StartWrite(&outgoing_);
  }

private:
  /// With the mutex.
  void finish(const grpc::Status& status) {
    if (!std::exchange(finished_, true))
      refuse(status);
  }

  void on_message() override {
    Request request;
    const auto parsed = parse_small(message(), request);
    clear_message();
    const std::lock_guard lock{service_.mutex_};
    watching_ = true;
    if (!parsed)
      return finish(status_of(parsed.error()));
    name_ = request.service();
    if (!HealthAnswers::may_ask(caller_, name_))
      return finish(token_status());
    if (caller_ == Caller::stranger)
      enter_strangers();
    service_.watches_.insert(this);
    look();
  }

  /// With the mutex.
  void enter_strangers() {
    auto& strangers = service_.strangers_;
    if (strangers.size() >= most_stranger_watches) {
      auto* oldest = strangers.front();
      strangers.erase(strangers.begin());
      oldest->finish({grpc::StatusCode::RESOURCE_EXHAUSTED,
                      fmt::format("{} later watches want no token either: that is the most", most_stranger_watches)});
      // Its client does not read: it would stay as long as it likes, behind what it has not read.
      if (oldest->writing_)
        state()->writes.limit(oldest->context(), {});
    }
    strangers.push_back(this);
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock{service_.mutex_};
    writing_ = false;
    if (!finished_)
      state()->writes.end(context());
    if (ok)
      look();
    else
      finish({grpc::StatusCode::CANCELLED, "the client has gone"});
  }

  void OnCancel() override {
    const std::lock_guard lock{service_.mutex_};
    // Before, the call ends with its message.
    if (watching_)
      finish({grpc::StatusCode::CANCELLED, "the client has gone"});
  }

  void OnDone() override {
    {
      const std::lock_guard lock{service_.mutex_};
      service_.watches_.erase(this);
      std::erase(service_.strangers_, this);
    }
    MessageCall::OnDone();
  }

  HealthAnswers& service_;
  Caller caller_;
  std::string name_;
  grpc::ByteBuffer outgoing_;
  std::optional<Response::ServingStatus> told_;
  bool watching_ = false;
  bool writing_ = false;
  bool finished_ = false;
};

HealthAnswers::HealthAnswers(std::shared_ptr<GrpcState> state)
  : state_(std::move(state)), thread_([this] { look_around(); }) {
  // nop
}

HealthAnswers::~HealthAnswers() {
  end();
  thread_.join();
}

void HealthAnswers::end() {
  const std::lock_guard lock{mutex_};
  ending_ = true;
  wake_.notify_all();
  for (auto* watch : watches_)
    watch->look();
}

void HealthAnswers::look_around() {
  std::unique_lock lock{mutex_};
  while (!wake_.wait_for(lock, look_again, [this] { return ending_; }))
    for (auto* watch : watches_)
      watch->look();
}

bool HealthAnswers::may_ask(Caller caller, const std::string& name) {
  return caller == Caller::known || is_server(name);
}

Response::ServingStatus HealthAnswers::status_of(const std::string& name) const {
  const auto& front = *state_->front;
  if (is_server(name))
    return front.stays() && front.service.ready() ? Response::SERVING : Response::NOT_SERVING;
  const auto ready = front.service.model_ready(name, "");
  if (!ready)
    return ready.error().code() == gpuactors::Errc::not_found ? Response::SERVICE_UNKNOWN : Response::NOT_SERVING;
  return *ready && front.stays() ? Response::SERVING : Response::NOT_SERVING;
}

grpc::Status HealthAnswers::check(Caller caller, const grpc::ByteBuffer& message, grpc::ByteBuffer& bytes) const {
  Request request;
  if (const auto parsed = parse_small(message, request); !parsed)
    return serve::status_of(parsed.error());
  if (!may_ask(caller, request.service()))
    return token_status();
  Response response;
  response.set_status(status_of(request.service()));
  if (response.status() == Response::SERVICE_UNKNOWN)
    return {grpc::StatusCode::NOT_FOUND, "there is no service and no model of this name"};
  bytes = bytes_of(response);
  return grpc::Status::OK;
}

void HealthAnswers::add_methods(Methods& methods) {
  methods.emplace("/grpc.health.v1.Health/Check", [this](grpc::CallbackServerContext& context) {
    const auto caller = caller_of(*state_, context);
    return answer_small(state_, context, caller,
                        [this, caller](const grpc::ByteBuffer& message, grpc::ByteBuffer& bytes) {
                          return check(caller, message, bytes);
                        });
  });
  methods.emplace("/grpc.health.v1.Health/Watch", [this](grpc::CallbackServerContext& context) {
    const auto caller = caller_of(*state_, context);
    auto* watch = new HealthWatch{*this, context, caller};
    watch->receive(caller, state_->front->options.limits.small_request_bytes);
    return watch;
  });
}

} // namespace serve
