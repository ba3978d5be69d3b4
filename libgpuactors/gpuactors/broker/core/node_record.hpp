// NodeRecord: what the broker knows of a node, besides what the ledger has.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/contact.hpp>
#include <gpuactors/v1/control.pb.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace gpuactors {

struct NodeRecord {
  v1::Node node;
  std::uint64_t agent_id = 0;
  /// Null while the node is away or being removed.
  ContactPtr agent;
  /// The number under which its connection is watched.
  std::uint64_t peer = 0;
  v1::TypeCatalog types;
  /// As in RegisterNode.
  std::uint64_t programs = 0;
  /// Set while a node is drained with a deadline: when all its holders have to be gone.
  std::optional<TimePoint> empty_by;
  /// Indices of devices that are out of use; `node` has the reasons.
  std::set<int> failed;
  /// Last reported utilization, by device index.
  std::map<int, v1::DeviceUse::Use> uses;
  /// How its tasks went.
  google::protobuf::RepeatedPtrField<v1::CallStats> tasks;
  std::string release;
  /// Of its certificate, as far as that is known.
  std::optional<v1::CertificateLife> certificate{};
  /// It has said goodbye: the end of its connection is its own end.
  bool leaves = false;
};

} // namespace gpuactors
