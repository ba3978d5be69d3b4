// What the HTTP and the gRPC front share: the service, who may ask, the bounds, and what is counted.
#pragma once

#include <apps/serve/fronts.hpp>
#include <apps/serve/protocol/access.hpp>
#include <apps/serve/protocol/held_bytes.hpp>
#include <apps/serve/protocol/request_line.hpp>
#include <apps/serve/protocol/status_counts.hpp>
#include <apps/serve/protocol/work_pool.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

namespace serve {

struct FrontState {
  FrontState(Service& models, FrontOptions chosen, Tokens allowed)
    : service(models), options(std::move(chosen)), tokens(std::move(allowed)),
      held(std::make_shared<HeldBytes>(options.limits.held_bytes)), repository(2, options.limits.waiting_work),
      heavy(2, options.limits.waiting_work) {
    // nop
  }

  Service& service;
  FrontOptions options;
  CurrentTokens tokens;
  std::shared_ptr<HeldBytes> held;
  /// Null: nobody wants one.
  std::shared_ptr<RequestLog> log;
  std::atomic<std::size_t> http_connections{0};
  std::atomic<std::size_t> http_refused{0};
  std::atomic<std::size_t> http_requests{0};
  std::atomic<std::size_t> grpc_requests{0};
  StatusCounts http_answers;
  StatusCounts grpc_answers;
  std::atomic<bool> stopping{false};
  /// It says that it is not ready, and closes connections behind their answers, so that requests go elsewhere.
  std::atomic<bool> leaving{false};

  [[nodiscard]] bool stays() const noexcept {
    return !stopping && !leaving;
  }

  /// Seconds since 1970.
  const std::int64_t started_seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  /// Loads and unloads.
  WorkPool repository;
  /// Requests and answers that take long to read or write.
  WorkPool heavy;
};

/// A reply of a stream that is smaller goes out however much is held: there is one for each connection, or request of a
/// stream of gRPC, and it would break off what has long begun.
inline constexpr std::size_t small_reply = 4U << 10;

/// Sentences that both fronts say.
inline constexpr std::string_view held_too_much = "the server holds as many bytes of requests and answers as it may: "
                                                  "try again";
inline constexpr std::string_view works_too_much = "too many requests of this kind wait: try again";

} // namespace serve
