// Cancels calls whose clients do not take their answers.
#pragma once

#include <apps/serve/grpc/deadlines.hpp>

#include <cstddef>

namespace grpc {
class ServerContextBase;
}

namespace serve {

/// Knows the calls that are writing, and cancels those for which it takes too long. Any thread.
class SlowWrites {
public:
  /// @param unit The time for each MiB of an answer, and the least.
  explicit SlowWrites(gpuactors::Duration unit) : unit_(unit) {
    // nop
  }

  /// The call begins to write so many bytes, or to end: its last words wait behind what its client does not take.
  void begin(grpc::ServerContextBase& call, std::size_t bytes);
  /// The call may not go on for longer than `time`, if `begin` does not say sooner.
  void limit(grpc::ServerContextBase& call, gpuactors::Duration time);
  /// It has written.
  void end(grpc::ServerContextBase& call);
  /// The call is done, and nobody cancels it any more. Must be called without a lock that one of its handlers takes.
  void forget(grpc::ServerContextBase& call);

private:
  gpuactors::Duration unit_;
  Deadlines deadlines_;
};

} // namespace serve
