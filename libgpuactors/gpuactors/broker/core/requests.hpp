// Reads clients' requests and checks what can be checked without the ledger. Internal to the layer.
#pragma once

#include <gpuactors/base/caller.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/broker/core/convert.hpp>
#include <gpuactors/device/accelerators.hpp>
#include <gpuactors/wire/payload.hpp>

#include <fmt/format.h>
#include <google/protobuf/message.h>

#include <cstddef>

namespace gpuactors {

/// Converts a request, and refuses fractions of resources that come in whole units: the ledger does not know which do.
inline Result<ResourceRequest> read_request(const v1::ResourceRequest& message) {
  GPUACTORS_LET(request, from_wire(message));
  GPUACTORS_TRY(check_whole_units(request.resources));
  return std::move(request);
}

/// The same for each bundle of a group, which errors name.
inline Result<GroupRequest> read_request(const v1::SubmitGroup& message) {
  GPUACTORS_LET(request, from_wire(message));
  for (std::size_t i = 0; i < request.bundles.size(); ++i)
    if (auto whole = check_whole_units(request.bundles[i].resources); !whole)
      return fail(whole.error().code(), fmt::format("bundle {}: {}", i, whole.error().message()));
  return std::move(request);
}

/// Returns the bytes of a request with the user's message in it, and refuses clients larger ones than their library
/// sends.
inline Result<std::size_t> size_of(const google::protobuf::Message& message, const Payload& config,
                                   const Caller& caller) {
  const auto size = message.ByteSizeLong();
  if (!caller.administers && size > limits::request_bytes)
    return fail(Errc::invalid_argument,
                fmt::format("the request has {} bytes: at most {} are allowed", size, limits::request_bytes));
  GPUACTORS_TRY(config.check_size());
  return size + config.wire_size();
}

/// Refuses clients what belongs to another name. `what` names it, `owner` is its owner's name.
inline Result<void> check_owner(const Caller& caller, const std::string& what, const std::string& owner) {
  if (caller.administers || (caller.name == owner && !owner.empty()))
    return {};
  return fail(Errc::permission_denied,
              fmt::format("{} belongs to \"{}\", and the certificate of \"{}\" is a client's: it may end only what its "
                          "own name has started; ask \"{}\", or whoever has a node's certificate",
                          what, owner, caller.name, owner));
}

} // namespace gpuactors
