// The service of inference.proto over a `Service`.
#pragma once

#include <apps/serve/grpc/calls.hpp>

#include <inference.grpc.pb.h>

#include <functional>
#include <memory>
#include <utility>

namespace serve {

namespace detail {

using Rpc = inference::GRPCInferenceService;

/// Every call is answered by reactors: inferences as bytes, all else as messages.
using RpcBase = Rpc::WithRawCallbackMethod_ModelInfer<
    Rpc::WithRawCallbackMethod_ModelStreamInfer<Rpc::WithCallbackMethod_ServerLive<Rpc::WithCallbackMethod_ServerReady<
        Rpc::WithCallbackMethod_ModelReady<Rpc::WithCallbackMethod_ServerMetadata<Rpc::WithCallbackMethod_ModelMetadata<
            Rpc::WithCallbackMethod_ModelConfig<Rpc::WithCallbackMethod_ModelStatistics<
                Rpc::WithCallbackMethod_RepositoryIndex<Rpc::WithCallbackMethod_RepositoryModelLoad<
                    Rpc::WithCallbackMethod_RepositoryModelUnload<Rpc::Service>>>>>>>>>>>>;

} // namespace detail

class GrpcAnswers final : public detail::RpcBase {
public:
  explicit GrpcAnswers(std::shared_ptr<GrpcState> state) : state_(std::move(state)) {
    // nop
  }

private:
  using Context = grpc::CallbackServerContext;
  using Reactor = grpc::ServerUnaryReactor;
  using Buffer = grpc::ByteBuffer;

  Reactor* ServerLive(Context* context, const inference::ServerLiveRequest* request,
                      inference::ServerLiveResponse* response) override;
  Reactor* ServerReady(Context* context, const inference::ServerReadyRequest* request,
                       inference::ServerReadyResponse* response) override;
  Reactor* ModelReady(Context* context, const inference::ModelReadyRequest* request,
                      inference::ModelReadyResponse* response) override;
  Reactor* ServerMetadata(Context* context, const inference::ServerMetadataRequest* request,
                          inference::ServerMetadataResponse* response) override;
  Reactor* ModelMetadata(Context* context, const inference::ModelMetadataRequest* request,
                         inference::ModelMetadataResponse* response) override;
  Reactor* ModelConfig(Context* context, const inference::ModelConfigRequest* request,
                       inference::ModelConfigResponse* response) override;
  Reactor* ModelStatistics(Context* context, const inference::ModelStatisticsRequest* request,
                           inference::ModelStatisticsResponse* response) override;
  Reactor* RepositoryIndex(Context* context, const inference::RepositoryIndexRequest* request,
                           inference::RepositoryIndexResponse* response) override;
  Reactor* RepositoryModelLoad(Context* context, const inference::RepositoryModelLoadRequest* request,
                               inference::RepositoryModelLoadResponse* response) override;
  Reactor* RepositoryModelUnload(Context* context, const inference::RepositoryModelUnloadRequest* request,
                                 inference::RepositoryModelUnloadResponse* response) override;
  Reactor* ModelInfer(Context* context, const Buffer* request, Buffer* response) override;
  grpc::ServerBidiReactor<Buffer, Buffer>* ModelStreamInfer(Context* context) override;

  /// Answers now with what `write` returns, if the client may ask.
  Reactor* answer(Context& context, const std::function<gpuactors::Result<void>()>& write);
  /// Has `work` done on a thread that may be kept waiting, and answers then.
  Reactor* answer_later(Context& context, std::function<gpuactors::Result<void>()> work);

  std::shared_ptr<GrpcState> state_;
};

} // namespace serve
