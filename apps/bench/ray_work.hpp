// The actors and tasks that the rows of Ray's microbenchmark run on.
#pragma once

#include "harness.hpp"

#include <gpuactors/bench/messages.pb.h>
#include <gpuactors/gpuactors.hpp>

#include <string_view>
#include <vector>

namespace gpuactors::bench {

/// What Ray asks for if nobody says otherwise: a task takes one CPU, an actor none.
inline const Options ray_task{.cpus = 1};

/// Waits for all; the first error.
Result<Small> await_all(std::vector<Future<Small>>& futures);

/// The same; an error ends the program.
void take_all(std::vector<Future<Small>>& futures);

/// Submits so many tasks that do nothing.
std::vector<Future<Small>> submit_small(Cluster& cluster, int count, const Options& options = ray_task);

/// Ray takes as many servers as half the processors.
std::size_t servers();

/// Actors of a row, gone with it; each in a process of its own, as Ray's are, where there are processes. Their methods:
/// small_value (does nothing), later_value (the same, answered by a future as by one that serves several calls at
/// once), both with_arg too; tasks_batch, calls_batch and argument_batch do the work of a client.
class Actors {
public:
  Actors(Cluster& cluster, std::size_t count, const Options& options = {.isolation = Isolation::process});
  Actors(const Actors&) = delete;
  Actors& operator=(const Actors&) = delete;
  ~Actors();

  [[nodiscard]] ActorRef& operator[](std::size_t i) {
    return actors_[i];
  }

  [[nodiscard]] std::vector<ActorRef>& all() noexcept {
    return actors_;
  }

  /// So many calls of this method, of each of them in turn.
  [[nodiscard]] Batch batch(int calls, std::string_view method = "small_value") const;

private:
  Cluster& cluster_;
  std::vector<ActorRef> actors_;
};

} // namespace gpuactors::bench
