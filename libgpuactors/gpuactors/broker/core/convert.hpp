// Conversions between the ledger's plain values and the control messages.
#pragma once

#include <gpuactors/ledger/ledger.hpp>
#include <gpuactors/v1/control.pb.h>

namespace gpuactors {

/// @returns `invalid_argument` for negative amounts and unknown label operators; the ledger checks the rest.
[[nodiscard]] Result<ResourceRequest> from_wire(const v1::ResourceRequest& request);

[[nodiscard]] v1::ResourceRequest to_wire(const ResourceRequest& request);

/// Writes the conditions on labels into the request.
void set_labels(const LabelConditions& labels, v1::ResourceRequest& request);

/// @returns errors as for a request, naming the bundle.
[[nodiscard]] Result<GroupRequest> from_wire(const v1::SubmitGroup& group);

[[nodiscard]] NodeSpec from_wire(const v1::Node& node);

[[nodiscard]] v1::Lease to_wire(const Lease& lease);

/// Keeps the message's device numbers and checks nothing; `Ledger::restore` does.
[[nodiscard]] Lease from_wire(const v1::Lease& lease);

} // namespace gpuactors
