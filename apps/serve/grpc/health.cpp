#include <apps/serve/grpc/health.hpp>

#include <grpcpp/server_context.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

namespace serve {

using Response = grpc::health::v1::HealthCheckResponse;

namespace {

/// How often it is looked whether something has changed.
constexpr std::chrono::milliseconds look_again{100};

bool is_server(const std::string& name) {
  return name.empty() || name == "inference.GRPCInferenceService";
}

} // namespace

/// One who watches. Lives until gRPC says that it is done; guarded by the mutex of the service.
class HealthWatch final : public grpc::ServerWriteReactor<Response> {
public:
  HealthWatch(HealthAnswers& service, std::string name) : service_(service), name_(std::move(name)) {
    // nop
  }

  /// With the mutex: tells what has changed, and ends behind that when the server does.
  void look() {
    if (writing_ || finished_)
      return;
    const auto status = service_.status_of(name_);
    if (told_ == status) {
      if (service_.ending_)
        finish({grpc::StatusCode::UNAVAILABLE, "the server ends"});
      return;
    }
    told_ = status;
    response_.set_status(status);
    writing_ = true;
    StartWrite(&response_);
  }

  /// With the mutex.
  void finish(const grpc::Status& status) {
    if (!std::exchange(finished_, true))
      Finish(status);
  }

private:
  void OnWriteDone(bool ok) override {
    const std::lock_guard lock{service_.mutex_};
    writing_ = false;
    if (ok)
      look();
    else
      finish({grpc::StatusCode::CANCELLED, "the client has gone"});
  }

  void OnCancel() override {
    const std::lock_guard lock{service_.mutex_};
    finish({grpc::StatusCode::CANCELLED, "the client has gone"});
  }

  void OnDone() override {
    {
      const std::lock_guard lock{service_.mutex_};
      service_.watches_.erase(this);
    }
    delete this;
  }

  HealthAnswers& service_;
  std::string name_;
  Response response_;
  std::optional<Response::ServingStatus> told_;
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

bool HealthAnswers::may_ask(const grpc::CallbackServerContext& context, const std::string& name) const {
  return is_server(name) || is_allowed(*state_, context);
}

Response::ServingStatus HealthAnswers::status_of(const std::string& name) const {
  const auto& front = *state_->front;
  if (is_server(name))
    return !front.stopping && front.service.ready() ? Response::SERVING : Response::NOT_SERVING;
  const auto ready = front.service.model_ready(name, "");
  if (!ready)
    return ready.error().code() == gpuactors::Errc::not_found ? Response::SERVICE_UNKNOWN : Response::NOT_SERVING;
  return *ready && !front.stopping ? Response::SERVING : Response::NOT_SERVING;
}

grpc::ServerUnaryReactor* HealthAnswers::Check(grpc::CallbackServerContext* context, const Request* request,
                                               Response* response) {
  state_->front->grpc_requests.fetch_add(1, std::memory_order_relaxed);
  auto* reactor = context->DefaultReactor();
  if (!may_ask(*context, request->service())) {
    reactor->Finish(counted(*state_, token_status()));
    return reactor;
  }
  response->set_status(status_of(request->service()));
  if (response->status() == Response::SERVICE_UNKNOWN)
    reactor->Finish(counted(*state_, {grpc::StatusCode::NOT_FOUND, "there is no service and no model of this name"}));
  else
    reactor->Finish(counted(*state_, grpc::Status::OK));
  return reactor;
}

grpc::ServerWriteReactor<Response>* HealthAnswers::Watch(grpc::CallbackServerContext* context, const Request* request) {
  state_->front->grpc_requests.fetch_add(1, std::memory_order_relaxed);
  auto* watch = new HealthWatch{*this, request->service()};
  const std::lock_guard lock{mutex_};
  watches_.insert(watch);
  if (may_ask(*context, request->service()))
    watch->look();
  else
    watch->finish(token_status());
  return watch;
}

} // namespace serve
