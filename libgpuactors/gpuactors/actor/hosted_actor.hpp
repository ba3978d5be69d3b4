// Which actor's code a thread runs. Internal to the library.
#pragma once

#include <gpuactors/actor/holder_control.hpp>

namespace caf {
class abstract_actor;
} // namespace caf

namespace gpuactors::detail {

/// An actor on one of its threads.
struct HostedActor {
  /// The CAF actor that takes its calls; null: the thread is no actor's.
  const caf::abstract_actor* handle = nullptr;
  CallThread thread = CallThread::own;
  HolderControl* control = nullptr;
};

/// Sets what this thread is for as long as it runs: no actor's thread becomes another one's.
void set_hosted_actor(const HostedActor& actor) noexcept;

[[nodiscard]] HostedActor hosted_actor() noexcept;

} // namespace gpuactors::detail
