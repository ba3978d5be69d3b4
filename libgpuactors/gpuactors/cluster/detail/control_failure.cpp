#include <gpuactors/cluster/detail/control_failure.hpp>
#include <gpuactors/wire/errors.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <mutex>
#include <optional>

namespace gpuactors::detail {

struct ControlFailure::State {
  std::mutex mutex;
  std::optional<Error> error;
};

std::shared_ptr<ControlFailure::State> ControlFailure::make() {
  return std::make_shared<State>();
}

void ControlFailure::watch(const caf::strong_actor_ptr& actor, std::string what) const {
  actor->get()->attach_functor([what = std::move(what), state = state_](const caf::error& reason) {
    if (!reason || reason == caf::exit_reason::user_shutdown)
      return;
    {
      const std::lock_guard lock{state->mutex};
      state->error = Error{Errc::internal, fmt::format("the {} has ended: {}", what, from_caf(reason).message())};
    }
    ::kill(::getpid(), SIGTERM);
  });
}

Result<void> ControlFailure::result() const {
  const std::lock_guard lock{state_->mutex};
  return state_->error ? fail(*state_->error) : Result<void>{};
}

} // namespace gpuactors::detail
