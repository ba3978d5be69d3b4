#include <apps/serve/grpc/answers.hpp>
#include <apps/serve/grpc/wire.hpp>
#include <apps/serve/protocol/messages.hpp>

#include <grpcpp/server_context.h>

#include <string>

namespace serve {

using gpuactors::Errc;
using gpuactors::Result;

GrpcAnswers::Reactor* GrpcAnswers::answer(Context& context, const std::function<Result<void>()>& write) {
  state_->front->grpc_requests.fetch_add(1, std::memory_order_relaxed);
  auto* reactor = context.DefaultReactor();
  if (!is_allowed(*state_, context)) {
    reactor->Finish(counted(*state_, token_status()));
  } else {
    const auto result = write();
    reactor->Finish(counted(*state_, result ? grpc::Status::OK : status_of(result.error())));
  }
  return reactor;
}

GrpcAnswers::Reactor* GrpcAnswers::answer_later(Context& context, std::function<Result<void>()> work) {
  state_->front->grpc_requests.fetch_add(1, std::memory_order_relaxed);
  auto* reactor = context.DefaultReactor();
  if (!is_allowed(*state_, context)) {
    reactor->Finish(counted(*state_, token_status()));
    return reactor;
  }
  const auto accepted = state_->front->repository.run([state = state_, reactor, work = std::move(work)] {
    const auto result = work();
    reactor->Finish(counted(*state, result ? grpc::Status::OK : status_of(result.error())));
  });
  if (!accepted)
    reactor->Finish(counted(*state_, {grpc::StatusCode::RESOURCE_EXHAUSTED, std::string{works_too_much}}));
  return reactor;
}

GrpcAnswers::Reactor* GrpcAnswers::ServerLive(Context* context, const inference::ServerLiveRequest*,
                                              inference::ServerLiveResponse* response) {
  // Whoever starts and stops the server may ask without a token.
  response->set_live(true);
  auto* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

GrpcAnswers::Reactor* GrpcAnswers::ServerReady(Context* context, const inference::ServerReadyRequest*,
                                               inference::ServerReadyResponse* response) {
  response->set_ready(!state_->front->stopping && state_->front->service.ready());
  auto* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

GrpcAnswers::Reactor* GrpcAnswers::ModelReady(Context* context, const inference::ModelReadyRequest* request,
                                              inference::ModelReadyResponse* response) {
  return answer(*context, [&]() -> Result<void> {
    const auto ready = state_->front->service.model_ready(request->name(), request->version());
    // A model that is not there is not ready: clients wait like this for one that will come.
    if (!ready && ready.error().code() != Errc::not_found)
      return gpuactors::fail(ready.error());
    response->set_ready(ready && *ready);
    return {};
  });
}

GrpcAnswers::Reactor* GrpcAnswers::ServerMetadata(Context* context, const inference::ServerMetadataRequest*,
                                                  inference::ServerMetadataResponse* response) {
  return answer(*context, [&]() -> Result<void> {
    *response = server_metadata(state_->front->options.server_name, state_->front->options.server_version);
    return {};
  });
}

GrpcAnswers::Reactor* GrpcAnswers::ModelMetadata(Context* context, const inference::ModelMetadataRequest* request,
                                                 inference::ModelMetadataResponse* response) {
  return answer(*context, [&]() -> Result<void> {
    GPUACTORS_LET(model, state_->front->service.describe(request->name(), request->version()));
    *response = metadata_of(model);
    return {};
  });
}

GrpcAnswers::Reactor* GrpcAnswers::ModelConfig(Context* context, const inference::ModelConfigRequest* request,
                                               inference::ModelConfigResponse* response) {
  return answer(*context, [&]() -> Result<void> {
    GPUACTORS_LET(model, state_->front->service.describe(request->name(), request->version()));
    *response = config_of(model);
    return {};
  });
}

GrpcAnswers::Reactor* GrpcAnswers::ModelStatistics(Context* context, const inference::ModelStatisticsRequest* request,
                                                   inference::ModelStatisticsResponse* response) {
  return answer(*context, [&]() -> Result<void> {
    GPUACTORS_LET(models, state_->front->service.statistics(request->name(), request->version()));
    *response = statistics_of(models);
    return {};
  });
}

GrpcAnswers::Reactor* GrpcAnswers::RepositoryIndex(Context* context, const inference::RepositoryIndexRequest* request,
                                                   inference::RepositoryIndexResponse* response) {
  return answer(*context, [&]() -> Result<void> {
    *response = index_of(state_->front->service.repository(), request->ready());
    return {};
  });
}

GrpcAnswers::Reactor* GrpcAnswers::RepositoryModelLoad(Context* context,
                                                       const inference::RepositoryModelLoadRequest* request,
                                                       inference::RepositoryModelLoadResponse*) {
  return answer_later(*context, [state = state_, model = request->model_name(), parameters = parameters_of(*request)] {
    return state->front->service.load(model, parameters);
  });
}

GrpcAnswers::Reactor* GrpcAnswers::RepositoryModelUnload(Context* context,
                                                         const inference::RepositoryModelUnloadRequest* request,
                                                         inference::RepositoryModelUnloadResponse*) {
  return answer_later(*context,
                      [state = state_, model = request->model_name()] { return state->front->service.unload(model); });
}

GrpcAnswers::Reactor* GrpcAnswers::ModelInfer(Context* context, const Buffer* request, Buffer* response) {
  state_->front->grpc_requests.fetch_add(1, std::memory_order_relaxed);
  return infer_over_grpc(state_, *context, *request, *response);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* GrpcAnswers::ModelStreamInfer(Context* context) {
  return infer_stream(state_, *context);
}

} // namespace serve
