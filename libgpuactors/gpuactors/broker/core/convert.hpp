// Conversions between the ledger's plain values and the control messages.
#pragma once

#include <gpuactors/ledger/ledger.hpp>
#include <gpuactors/v1/control.pb.h>

namespace gpuactors {

/// @returns `invalid_argument` for negative amounts and unknown label operators; the ledger checks the rest.
[[nodiscard]] Result<ResourceRequest> from_wire(const v1::ResourceRequest& request);

/// Writes the conditions on labels into the request.
void set_labels(const LabelConditions& labels, v1::ResourceRequest& request);

/// @returns errors as for a request, naming the bundle.
[[nodiscard]] Result<GroupRequest> from_wire(const v1::SubmitGroup& group);

[[nodiscard]] NodeSpec from_wire(const v1::Node& node);

/// The ledger's names of types. A task and an actor may have the same name.
inline constexpr std::string_view task_kind = "task ";
inline constexpr std::string_view actor_kind = "actor ";

/// Returns the ledger's names of a node's types.
[[nodiscard]] std::vector<std::string> type_names(const v1::TypeCatalog& types);

// The ledger counts a node's devices by their position in its offer, everybody else uses their index on the node. What
// follows converts one to the other; `node` is that of the lease or bundle.

/// Returns the position of the device with this index; one that no device has if the node does not have it, which the
/// ledger then refuses.
[[nodiscard]] int position_of(const v1::Node& node, int index);

[[nodiscard]] v1::Lease to_wire(const Lease& lease, const v1::Node& node);

/// Checks nothing; `Ledger::restore` does.
[[nodiscard]] Lease from_wire(const v1::Lease& lease, const v1::Node& node);

/// A bundle is a lease without holder on the wire.
[[nodiscard]] v1::Lease to_wire(const BundleGrant& bundle, const v1::Node& node);
[[nodiscard]] BundleGrant bundle_from_wire(const v1::Lease& bundle, const v1::Node& node);

} // namespace gpuactors
