// The variables that a request may give the process of its own.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/v1/control.pb.h>

#include <map>
#include <string>

namespace gpuactors {

/// Asked by the client, for a good message, and by the node, which trusts no client. Pure.
/// @returns `invalid_argument` for a name that no variable can have, one that is not for users to set, a value with a
///          zero byte, or more than `limits::environment_bytes`.
[[nodiscard]] Result<void> check_environment(const std::map<std::string, std::string>& environment);
[[nodiscard]] Result<void> check_environment(const google::protobuf::Map<std::string, std::string>& environment);

} // namespace gpuactors
