// Ends calls whose clients do not take their answers.
#pragma once

#include <gpuactors/base/clock.hpp>

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>
#include <unordered_map>

namespace grpc {
class ServerContextBase;
}

namespace serve {

/// Knows the calls that are writing, and cancels those for which it takes too long. Any thread.
class SlowWrites {
public:
  /// @param unit The time for each MiB of an answer, and the least.
  explicit SlowWrites(gpuactors::Duration unit);
  ~SlowWrites();

  SlowWrites(const SlowWrites&) = delete;
  SlowWrites& operator=(const SlowWrites&) = delete;

  /// The call begins to write an answer of so many bytes.
  void begin(grpc::ServerContextBase& call, std::size_t bytes);
  /// It has written. Must be called before the call ends, if `begin` was.
  void end(grpc::ServerContextBase& call);

private:
  void watch();
  void cancel_late();

  gpuactors::Duration unit_;
  // A cancelled call may end on the thread that cancels it.
  std::recursive_mutex mutex_;
  std::condition_variable_any changed_;
  bool ending_ = false;
  std::unordered_map<grpc::ServerContextBase*, gpuactors::TimePoint> deadlines_;
  std::thread thread_;
};

} // namespace serve
