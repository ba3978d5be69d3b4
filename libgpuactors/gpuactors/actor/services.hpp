// The services of a process for the tasks and actors in it.
#pragma once

#include <gpuactors/actor/call_stats.hpp>
#include <gpuactors/actor/holder_table.hpp>
#include <gpuactors/actor/placement.hpp>
#include <gpuactors/actor/tensor_store.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gpuactors {

class Lanes;
class OwnThreads;
class TypeRegistry;

/// The link from user code under a lease to its cluster: implemented by the cluster layer, opaque here.
class ClusterLink {
public:
  virtual ~ClusterLink() = default;

  /// A task that has used the link has ended, and has its answer: what it has spawned ends, unless it is detached.
  virtual void task_ended(LeaseId lease, std::uint64_t run) noexcept = 0;
};

/// Shared by a worker and all its holders. Immutable after construction.
struct ProcessServices {
  std::string node;
  /// The number by which the node's agent knows this process; 0 in an embedded cluster.
  std::uint64_t worker = 0;
  /// The node's devices; a lease names them by `DeviceInfo::index`.
  std::vector<std::shared_ptr<Device>> devices;
  std::shared_ptr<const TypeRegistry> registry;
  /// How the tasks of the registry went here, by their numbers.
  std::shared_ptr<CallTable> tasks;
  /// All that runs or waits for calls here.
  std::shared_ptr<HolderTable> holders;
  std::shared_ptr<QuotaTable> quotas;
  std::shared_ptr<TensorStore> tensors;
  std::weak_ptr<ClusterLink> cluster;
  /// The threads of the holders.
  std::shared_ptr<OwnThreads> threads;
  /// Lanes to other processes; null if there are none.
  std::shared_ptr<Lanes> lanes;
  /// Whether kernels may be compiled from source.
  bool runtime_source = true;
};

} // namespace gpuactors
