// The health service of gRPC over a `Service`: whether the server, or one model, can be asked.
#pragma once

#include <apps/serve/grpc/answers.hpp>
#include <apps/serve/grpc/message_call.hpp>

#include <health.pb.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace serve {

class HealthWatch;

/// Answers checks and watches. Watches are told of changes by a thread that looks several times a second.
///
/// The empty name and that of the inference service mean the server; whoever starts and stops it may ask for that
/// without a token. All other names are models.
class HealthAnswers {
public:
  /// Throws `std::system_error` without a thread.
  explicit HealthAnswers(std::shared_ptr<GrpcState> state);
  HealthAnswers(const HealthAnswers&) = delete;
  HealthAnswers& operator=(const HealthAnswers&) = delete;
  ~HealthAnswers();

  /// They must not be called any more when this object ends.
  void add_methods(Methods& methods);

  /// Once the server is stopping: tells all watches, and ends them.
  void end();

private:
  friend class HealthWatch;

  using Response = grpc::health::v1::HealthCheckResponse;

  [[nodiscard]] grpc::Status check(Caller caller, const grpc::ByteBuffer& message, grpc::ByteBuffer& bytes) const;

  /// Whether this client may ask for this name.
  [[nodiscard]] static bool may_ask(Caller caller, const std::string& name);
  [[nodiscard]] Response::ServingStatus status_of(const std::string& name) const;
  void look_around();

  std::shared_ptr<GrpcState> state_;
  std::mutex mutex_;
  // Guarded by the mutex, as are the members of the watches.
  std::set<HealthWatch*> watches_;
  /// Those without a token, the oldest first.
  std::vector<HealthWatch*> strangers_;
  bool ending_ = false;
  std::condition_variable wake_;
  std::thread thread_;
};

} // namespace serve
