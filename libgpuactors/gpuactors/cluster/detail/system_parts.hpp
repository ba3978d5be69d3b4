// The actor system and the port that every process of a cluster has, and the options of its links. Internal to the
// cluster layer.
#pragma once

#include <gpuactors/wire/links.hpp>
#include <gpuactors/wire/request_port.hpp>

#include <memory>
#include <string>

namespace gpuactors::detail {

/// Registers the library's message types with CAF, once in a process; call before any CAF configuration is made.
void init_message_types();

/// The actor system of a process, and the port that sends its requests.
struct SystemParts {
  std::unique_ptr<caf::actor_system> system;
  std::unique_ptr<RequestPort> port;
};

/// Starts an actor system and a port. `config` must outlive them.
/// @returns `unavailable` if the machine lacks threads for them.
[[nodiscard]] Result<SystemParts> start_system(caf::actor_system_config& config,
                                               RequestPort::MessageHandler on_message);

/// Makes the options of this process's links: plaintext if `insecure`, otherwise TLS with the certificates of a folder
/// (empty: the user's own), which are checked, or created if `make` is set.
[[nodiscard]] Result<LinkOptions> link_options(const std::string& certificates, bool insecure, bool make);

} // namespace gpuactors::detail
