// The health service of gRPC over a `Service`: whether the server, or one model, can be asked.
#pragma once

#include <apps/serve/grpc/calls.hpp>

#include <health.grpc.pb.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

namespace serve {

class HealthWatch;

/// Answers checks and watches. Watches are told of changes by a thread that looks several times a second.
///
/// The empty name and that of the inference service mean the server; whoever starts and stops it may ask for that
/// without a token. All other names are models.
class HealthAnswers final : public grpc::health::v1::Health::CallbackService {
public:
  explicit HealthAnswers(std::shared_ptr<GrpcState> state);
  HealthAnswers(const HealthAnswers&) = delete;
  HealthAnswers& operator=(const HealthAnswers&) = delete;
  ~HealthAnswers() override;

  /// Once the server is stopping: tells all watches, and ends them.
  void end();

private:
  friend class HealthWatch;

  using Request = grpc::health::v1::HealthCheckRequest;
  using Response = grpc::health::v1::HealthCheckResponse;

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context, const Request* request,
                                  Response* response) override;
  grpc::ServerWriteReactor<Response>* Watch(grpc::CallbackServerContext* context, const Request* request) override;

  /// Whether this client may ask for this name.
  [[nodiscard]] bool may_ask(const grpc::CallbackServerContext& context, const std::string& name) const;
  [[nodiscard]] Response::ServingStatus status_of(const std::string& name) const;
  void look_around();

  std::shared_ptr<GrpcState> state_;
  std::mutex mutex_;
  // Guarded by the mutex, as are the members of the watches.
  std::set<HealthWatch*> watches_;
  bool ending_ = false;
  std::condition_variable wake_;
  std::thread thread_;
};

} // namespace serve
