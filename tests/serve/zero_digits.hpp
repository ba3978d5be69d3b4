// A model of users for tests in which it matters when it comes, and not what it answers.
#pragma once

#include "models_fixture.hpp"

#include <atomic>
#include <utility>

namespace serve::test {

/// How many replicas of a type were made; a test may set it.
template <class Type>
std::atomic<int>& made() {
  static std::atomic<int> count{0};
  return count;
}

/// As a network with 8 inputs. All that it answers is zero.
class ZeroDigits : public gpuactors::Actor {
public:
  ZeroDigits(gpuactors::Init init, const wire::ReplicaConfig& /*config*/) : Actor(std::move(init)) {
    // nop
  }

  wire::ReplicaDescription describe(const google::protobuf::Empty& /*ask*/) {
    return digits_description();
  }

  gpuactors::Result<wire::ReplicaReply> infer(const wire::ReplicaBatch& batch) {
    wire::ReplicaReply reply;
    reply.add_outputs()->assign(static_cast<std::size_t>(batch.rows() * outputs) * sizeof(float), '\0');
    return reply;
  }
};

} // namespace serve::test
