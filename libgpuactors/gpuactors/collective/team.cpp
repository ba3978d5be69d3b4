// Team: the user's end of a team.
#include <gpuactors/collective/detail/team_state.hpp>
#include <gpuactors/collective/team.hpp>

#include <utility>

namespace gpuactors {

Team::Team(Cluster& cluster, std::string type, std::vector<detail::PayloadMember> members, TeamOptions options)
  : state_(std::make_shared<detail::TeamState>(cluster, std::move(type), std::move(members), std::move(options))) {
  // nop
}

Team::Team(Team&&) noexcept = default;

Team& Team::operator=(Team&& other) noexcept {
  if (this != &other) {
    if (state_ != nullptr)
      state_->close();
    state_ = std::move(other.state_);
  }
  return *this;
}

Team::~Team() {
  if (state_ != nullptr)
    state_->close();
}

void Team::stop() {
  state_->stop();
}

std::vector<ActorRef> Team::members() const {
  return state_->members();
}

Result<std::vector<Payload>> Team::run(const detail::TeamWork& work) {
  const auto state = state_;
  return state->run(work);
}

Future<std::vector<Payload>> Team::run_async(detail::TeamWork work) {
  return state_->run_async(std::move(work));
}

} // namespace gpuactors
