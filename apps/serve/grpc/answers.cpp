#include <apps/serve/cut_text.hpp>
#include <apps/serve/grpc/answers.hpp>
#include <apps/serve/grpc/small_call.hpp>
#include <apps/serve/grpc/wire.hpp>
#include <apps/serve/protocol/messages.hpp>
#include <apps/serve/protocol/parameters.hpp>

#include <fmt/format.h>
#include <grpcpp/server_context.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace serve {

using gpuactors::Errc;
using gpuactors::Result;

namespace {

using State = std::shared_ptr<GrpcState>;

// How much of a method's name is repeated.
constexpr std::size_t longest_method = 128;

/// Parses the message, has it answered by `answer`, and writes what that returns.
template <class Request, class Response>
AnswerSmall typed(const State& state, Result<Response> (*answer)(GrpcState&, const Request&)) {
  return [state, answer](const grpc::ByteBuffer& message, grpc::ByteBuffer& bytes) {
    Request request;
    if (const auto parsed = parse_small(message, request); !parsed)
      return status_of(parsed.error());
    const auto response = answer(*state, request);
    if (!response)
      return status_of(response.error());
    bytes = bytes_of(*response);
    return grpc::Status::OK;
  };
}

template <class Request, class Response>
BeginCall small(const State& state, Result<Response> (*answer)(GrpcState&, const Request&)) {
  return [state, answer = typed(state, answer)](grpc::CallbackServerContext& context) -> CallReactor* {
    if (!is_allowed(*state, context))
      return refused_call(state, token_status());
    return answer_small(state, context, Caller::known, answer);
  };
}

/// Whoever starts and stops the server may ask without a token.
template <class Request, class Response>
BeginCall open_to_all(const State& state, Result<Response> (*answer)(GrpcState&, const Request&)) {
  return [state, answer = typed(state, answer)](grpc::CallbackServerContext& context) {
    return answer_small(state, context, caller_of(*state, context), answer);
  };
}

/// Loads and unloads, which take long and not every token may.
template <class Request, class Response>
BeginCall later(const State& state, Result<Response> (*answer)(GrpcState&, const Request&)) {
  return [state, answer = typed(state, answer)](grpc::CallbackServerContext& context) -> CallReactor* {
    const auto rights = rights_of(*state, context);
    if (rights == Rights::none)
      return refused_call(state, token_status());
    if (rights != Rights::all)
      return refused_call(state, {grpc::StatusCode::PERMISSION_DENIED, std::string{may_only_ask}});
    return answer_small_later(state, context, answer);
  };
}

Result<inference::ServerLiveResponse> live(GrpcState&, const inference::ServerLiveRequest&) {
  inference::ServerLiveResponse response;
  response.set_live(true);
  return response;
}

Result<inference::ServerReadyResponse> ready(GrpcState& state, const inference::ServerReadyRequest&) {
  inference::ServerReadyResponse response;
  response.set_ready(state.front->stays() && state.front->service.ready());
  return response;
}

Result<inference::ModelReadyResponse> model_ready(GrpcState& state, const inference::ModelReadyRequest& request) {
  const auto is_ready = state.front->service.model_ready(request.name(), request.version());
  // A model that is not there is not ready: clients wait like this for one that will come.
  if (!is_ready && is_ready.error().code() != Errc::not_found)
    return gpuactors::fail(is_ready.error());
  inference::ModelReadyResponse response;
  response.set_ready(is_ready && *is_ready);
  return response;
}

Result<inference::ServerMetadataResponse> metadata(GrpcState& state, const inference::ServerMetadataRequest&) {
  return server_metadata(state.front->options.server_name, state.front->options.server_version);
}

Result<inference::ModelMetadataResponse> model_metadata(GrpcState& state,
                                                        const inference::ModelMetadataRequest& request) {
  GPUACTORS_LET(model, state.front->service.describe(request.name(), request.version()));
  return metadata_of(model);
}

Result<inference::ModelConfigResponse> model_config(GrpcState& state, const inference::ModelConfigRequest& request) {
  GPUACTORS_LET(model, state.front->service.describe(request.name(), request.version()));
  return config_of(model);
}

Result<inference::ModelStatisticsResponse> statistics(GrpcState& state,
                                                      const inference::ModelStatisticsRequest& request) {
  GPUACTORS_LET(models, state.front->service.statistics(request.name(), request.version()));
  return statistics_of(models);
}

Result<inference::RepositoryIndexResponse> index(GrpcState& state, const inference::RepositoryIndexRequest& request) {
  return index_of(state.front->service.repository(), request.ready());
}

Result<inference::RepositoryModelLoadResponse> load(GrpcState& state,
                                                    const inference::RepositoryModelLoadRequest& request) {
  GPUACTORS_TRY(check_load_parameters(static_cast<std::size_t>(request.parameters_size())));
  GPUACTORS_TRY(state.front->service.load(request.model_name(), parameters_of(request)));
  return inference::RepositoryModelLoadResponse{};
}

Result<inference::RepositoryModelUnloadResponse> unload(GrpcState& state,
                                                        const inference::RepositoryModelUnloadRequest& request) {
  GPUACTORS_TRY(state.front->service.unload(request.model_name()));
  return inference::RepositoryModelUnloadResponse{};
}

} // namespace

void add_inference_methods(Methods& methods, const State& state) {
  const auto add = [&](std::string_view name, BeginCall begin) {
    methods.emplace(fmt::format("/inference.GRPCInferenceService/{}", name), std::move(begin));
  };
  add("ServerLive", open_to_all(state, live));
  add("ServerReady", open_to_all(state, ready));
  add("ModelReady", small(state, model_ready));
  add("ServerMetadata", small(state, metadata));
  add("ModelMetadata", small(state, model_metadata));
  add("ModelConfig", small(state, model_config));
  add("ModelStatistics", small(state, statistics));
  add("RepositoryIndex", small(state, index));
  add("RepositoryModelLoad", later(state, load));
  add("RepositoryModelUnload", later(state, unload));
  add("ModelInfer", [state](grpc::CallbackServerContext& context) { return infer_over_grpc(state, context); });
  add("ModelStreamInfer", [state](grpc::CallbackServerContext& context) { return infer_stream(state, context); });
}

GrpcAnswers::GrpcAnswers(std::shared_ptr<GrpcState> state, Methods methods)
  : state_(std::move(state)), methods_(std::move(methods)) {
  // nop
}

CallReactor* GrpcAnswers::CreateReactor(grpc::GenericCallbackServerContext* context) {
  if (const auto found = methods_.find(context->method()); found != methods_.end())
    return found->second(*context);
  // First, so that only those who may ask learn which methods there are.
  if (!is_allowed(*state_, *context))
    return refused_call(state_, token_status());
  // What is missing, where gRPC itself would only say that something is.
  return refused_call(state_, {grpc::StatusCode::UNIMPLEMENTED,
                               fmt::format("this server has no {}: shared memory, tracing and log settings are not "
                                           "among what it does",
                                           cut_text(context->method(), longest_method))});
}

} // namespace serve
