// The service of inference.proto over a `Service`.
#pragma once

#include <apps/serve/grpc/calls.hpp>

#include <grpcpp/generic/async_generic_service.h>

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

namespace serve {

/// Begins a call of one method.
using BeginCall = std::function<CallReactor*(grpc::CallbackServerContext&)>;

/// What is done for each method, by "/package.Service/Method".
using Methods = std::unordered_map<std::string, BeginCall>;

void add_inference_methods(Methods& methods, const std::shared_ptr<GrpcState>& state);

/// Takes all calls, before any of their messages: generated services have gRPC read and parse those first, whoever
/// sends them and however large they are.
class GrpcAnswers final : public grpc::CallbackGenericService {
public:
  GrpcAnswers(std::shared_ptr<GrpcState> state, Methods methods);

private:
  CallReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override;

  std::shared_ptr<GrpcState> state_;
  Methods methods_;
};

} // namespace serve
