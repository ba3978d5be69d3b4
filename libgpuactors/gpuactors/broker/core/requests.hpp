// Reads clients' requests and checks what can be checked without the ledger. Internal to the layer.
#pragma once

#include <gpuactors/broker/core/convert.hpp>
#include <gpuactors/device/accelerators.hpp>

namespace gpuactors {

/// Converts a request, and refuses fractions of resources that come in whole units: the ledger does not know which do.
inline Result<ResourceRequest> read_request(const v1::ResourceRequest& message) {
  GPUACTORS_LET(request, from_wire(message));
  GPUACTORS_TRY(check_whole_units(request.resources));
  return std::move(request);
}

} // namespace gpuactors
