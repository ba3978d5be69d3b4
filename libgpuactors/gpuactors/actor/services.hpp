// What a process offers to the tasks and actors that run in it.
#pragma once

#include <gpuactors/actor/placement.hpp>
#include <gpuactors/actor/tensor_store.hpp>

#include <memory>
#include <string>
#include <vector>

namespace gpuactors {

class Lanes;
class OwnThreads;
class TypeRegistry;

/// The way from user code that runs under a lease back to the cluster: implemented by the cluster layer, opaque here.
class ClusterLink {
public:
  virtual ~ClusterLink() = default;
};

/// Shared by a worker and everything that it hosts. Immutable after construction.
struct ProcessServices {
  std::string node;
  /// The node's; a lease names them by `DeviceInfo::index`.
  std::vector<std::shared_ptr<Device>> devices;
  std::shared_ptr<const TypeRegistry> registry;
  std::shared_ptr<QuotaTable> quotas;
  std::shared_ptr<TensorStore> tensors;
  std::weak_ptr<ClusterLink> cluster;
  /// Those of what it hosts.
  std::shared_ptr<OwnThreads> threads;
  /// To other processes; null where there are none.
  std::shared_ptr<Lanes> lanes;
  /// Whether kernels may be compiled from source.
  bool runtime_source = true;
};

} // namespace gpuactors
