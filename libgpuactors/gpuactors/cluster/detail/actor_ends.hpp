// ActorEnds: who in this process waits for the ends of actors. Internal to the cluster layer.
#pragma once

#include <gpuactors/base/future.hpp>
#include <gpuactors/cluster/actor_key.hpp>
#include <gpuactors/cluster/actor_ref.hpp>
#include <gpuactors/cluster/detail/actor_cell.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace gpuactors::detail {

class ClusterCore;

/// Asks the broker once for each actor, however many wait for its end, and however often somebody begins to wait and
/// gives up. Who waits by a name first learns whose that is, and waits for this one then: the name may move to another
/// actor while the broker is away. Any thread.
class ActorEnds : public std::enable_shared_from_this<ActorEnds> {
public:
  /// @param cell is told, too; may be null.
  [[nodiscard]] Future<ActorEnd> await(ClusterCore& core, const ActorKey& actor,
                                       const std::shared_ptr<ActorCell>& cell);

  /// How many requests are not answered yet.
  [[nodiscard]] std::size_t open() {
    const std::lock_guard lock{mutex_};
    return watches_.size();
  }

private:
  class Waiter;
  class Watch;
  /// Who waits, and what is told, too.
  using Waiting = std::vector<std::pair<std::weak_ptr<Waiter>, std::weak_ptr<ActorCell>>>;
  /// Number and origin, or name space and name.
  using Key = std::tuple<std::uint64_t, std::uint64_t, std::string, std::string>;

  void add(ClusterCore& core, const ActorKey& actor, const Waiting& waiting);
  /// The broker has answered: tells all who wait.
  void tell(const Key& key, const Result<ActorEnd>& end);
  /// The broker has said whose the name is.
  void follow(const Key& name, const v1::ActorInfo& actor, const std::weak_ptr<ClusterCore>& core);
  /// Returns those who wait, and forgets them.
  [[nodiscard]] Waiting take(const Key& key);

  std::mutex mutex_;
  /// The requests that are not answered yet.
  std::map<Key, std::shared_ptr<Watch>> watches_;
};

} // namespace gpuactors::detail
