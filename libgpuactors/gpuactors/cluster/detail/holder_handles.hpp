// HolderHandles: where a task or actor runs. Internal to the cluster layer.
#pragma once

#include <gpuactors/wire/content.hpp>

namespace gpuactors::detail {

/// A holder, and the control actor of its worker.
struct HolderHandles {
  caf::strong_actor_ptr holder;
  caf::strong_actor_ptr worker;
};

/// The handles that follow the message of an answer; null from the broker of a cluster of processes, where the client
/// asks the worker itself (`WorkerLinks`).
[[nodiscard]] inline HolderHandles handles_in(const MessageContent& content) {
  return {content.get_as<caf::strong_actor_ptr>(1), content.get_as<caf::strong_actor_ptr>(2)};
}

} // namespace gpuactors::detail
