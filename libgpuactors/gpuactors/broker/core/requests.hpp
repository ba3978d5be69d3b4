// What a client asked for, read and checked as far as it can be without the ledger. Internal to the layer.
#pragma once

#include <gpuactors/broker/core/convert.hpp>
#include <gpuactors/device/accelerators.hpp>

namespace gpuactors {

/// The ledger counts resources and does not know which of them come in whole units.
inline Result<ResourceRequest> read_request(const v1::ResourceRequest& message) {
  GPUACTORS_LET(request, from_wire(message));
  GPUACTORS_TRY(check_whole_units(request.resources));
  return std::move(request);
}

} // namespace gpuactors
