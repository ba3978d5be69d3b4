// WorkerLinks: a client's own connections to the processes that its tasks and actors run in. Internal to the cluster
// layer.
#pragma once

#include <gpuactors/cluster/detail/holder_handles.hpp>
#include <gpuactors/wire/links.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace gpuactors::detail {

/// Whether a look-up says that the holder has ended since it was told of, and not that it cannot be asked.
[[nodiscard]] inline bool holder_has_ended(const Error& error) noexcept {
  return error.code() == Errc::worker_died || error.code() == Errc::stale_epoch;
}

/// One connection for each process, made when it is first needed. A handle that came through the broker would go down
/// with the broker, and the death of the holder's process would go unnoticed: so a client asks the process itself. Any
/// thread.
class WorkerLinks : public std::enable_shared_from_this<WorkerLinks> {
public:
  using OnFound = std::function<void(Result<HolderHandles>)>;

  WorkerLinks(RequestPort& port, Links& links) : port_(port), links_(links) {
    // nop
  }

  /// Finds the holder of a lease in the process at `address`. `done` is called once, on any thread; must not block.
  ///
  /// Errors: `worker_died` (the process is gone), `stale_epoch` (the lease has ended there), those of `Links::connect`.
  void find(const std::string& address, const v1::FindHolder& message, OnFound done);

  /// Sets `address` as that of this process: requests to itself use no connection, and could have none.
  void add_own(const std::string& address, caf::strong_actor_ptr control);

  /// Drops all connections; pending and later look-ups fail with `unavailable`.
  void close();

private:
  class HolderReply;

  struct Wanted {
    v1::FindHolder message;
    OnFound done;
  };

  struct Entry {
    caf::strong_actor_ptr control;
    std::vector<Wanted> waiting;
  };

  void connected(const std::string& address, Result<caf::strong_actor_ptr> control);
  void ask(const std::string& address, const caf::strong_actor_ptr& control, Wanted wanted);
  void down(const std::string& address, caf::actor_id id);

  RequestPort& port_;
  Links& links_;
  std::mutex mutex_;
  std::map<std::string, Entry> entries_;
  bool closed_ = false;
};

} // namespace gpuactors::detail
