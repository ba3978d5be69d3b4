// Replies of replicas that were larger than a message.
#pragma once

#include <gpuactors/base/error.hpp>

#include <optional>
#include <string>

namespace serve {

/// How large a `ReplicaReply` was that did not fit into a message, as text with its unit; nothing if the error says
/// anything else. The library has no code for it: as for any message, it blames the argument, and names the type. Pure.
[[nodiscard]] std::optional<std::string> size_of_large_reply(const gpuactors::Error& error);

} // namespace serve
