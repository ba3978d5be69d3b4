// A request that was accepted by a model, until its answer; and the numbers of a network that requests have to fit.
#pragma once

#include <apps/serve/batching/request.hpp>
#include <apps/serve/service.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace serve {

/// One version of a model as requests see it.
struct ModelFacts {
  std::string name;
  std::string version;
  /// "digits, version 1"
  std::string title;
  DataType type = DataType::fp32;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  std::size_t row_in_bytes = 0;
  std::size_t row_out_bytes = 0;
};

/// What the one input and the one output of a network are called.
inline constexpr auto input_name = "x";
inline constexpr auto output_name = "y";

/// A request with its data. The data is read without a lock while it runs; `done` is taken by whoever answers.
struct Pending : batching::Request {
  Pending(InferRequest wanted, InferDone answer) : request(std::move(wanted)), done(std::move(answer)) {
    // nop
  }

  const InferRequest request;
  InferDone done;
  /// When its batch went to a replica.
  gpuactors::TimePoint sent{};
};

/// What a queue of a model holds.
inline std::shared_ptr<Pending> pending_of(const batching::RequestPtr& request) {
  return std::static_pointer_cast<Pending>(request);
}

} // namespace serve
