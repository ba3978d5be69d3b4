#include <gpuactors/cluster/actor_key.hpp>
#include <gpuactors/cluster/actor_ref.hpp>

#include <fmt/format.h>

namespace gpuactors {

ActorKey::ActorKey(const ActorRef& actor) : ActorKey(actor.to_message()) {
  // nop
}

Result<void> ActorKey::check() const {
  if (is_name() ? !name_.empty() : reference_.id() != 0)
    return {};
  switch (kind_) {
  case Kind::name:
    return fail(Errc::invalid_argument, "the name of the actor is empty");
  case Kind::reference:
    return fail(Errc::invalid_argument, "the reference to an actor is empty");
  case Kind::number:
    break;
  }
  return fail(Errc::invalid_argument, "the number of the actor is 0");
}

std::string ActorKey::in_words() const {
  if (is_name())
    return name_space_.empty() ? std::string{name_} : fmt::format("{}/{}", name_space_, name_);
  if (!reference_.name().empty())
    return reference_.name();
  return reference_.type().empty() ? fmt::format("{}", reference_.id())
                                   : fmt::format("{} ({})", reference_.id(), reference_.type());
}

} // namespace gpuactors
