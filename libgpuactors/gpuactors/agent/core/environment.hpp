// Checks the environment variables that a request may set for its own worker process.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/v1/control.pb.h>

#include <map>
#include <string>

namespace gpuactors {

/// Checked twice: by the client, for an early error, and by the node, which trusts no client. Pure.
/// @returns `invalid_argument` for a malformed or reserved name, a value with a zero byte, or more than
///          `limits::environment_bytes` in all.
[[nodiscard]] Result<void> check_environment(const std::map<std::string, std::string>& environment);
[[nodiscard]] Result<void> check_environment(const google::protobuf::Map<std::string, std::string>& environment);

} // namespace gpuactors
