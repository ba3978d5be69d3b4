// Requests that come at a fixed rate, whether or not earlier ones were answered, as from many independent clients.
#pragma once

#include <apps/serve/service.hpp>

#include <cstddef>

namespace serve {

/// What became of them. A plain value.
struct OpenLoopResult {
  std::size_t sent = 0;
  /// Refused when they came, and failed later, by their timeout say.
  std::size_t refused = 0;
  std::size_t failed = 0;
  /// Milliseconds from the moment that each was due to be sent until its answer, of all of them: one without a good
  /// answer took for ever.
  double p50 = 0;
  double p99 = 0;
};

/// Sends `request` `rate` times a second for `seconds`, and waits for all answers.
OpenLoopResult run_open_loop(Service& service, const InferRequest& request, double rate, double seconds);

} // namespace serve
