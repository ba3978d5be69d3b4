#include <gpuactors/actor/actor.hpp>
#include <gpuactors/actor/holder_control.hpp>
#include <gpuactors/actor/services.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/units.hpp>
#include <gpuactors/base/utf8.hpp>
#include <gpuactors/wire/messages.hpp>

#include <fmt/format.h>

#include <utility>

namespace gpuactors {

void detail::ActorHost::end_behind_queue() {
  if (!std::exchange(end_sent, true))
    caf_version::enqueue(caf::actor_cast<caf::strong_actor_ptr>(self), nullptr, 0, v1::Tick{});
}

Actor::Actor(Init init)
  : HolderContext(*init.host_->placement, *init.host_->control, *init.host_->services, nullptr), host_(init.host_) {
  // nop
}

Result<void> Actor::save_payload(const Payload& state) {
  GPUACTORS_LET(encoded, state.encoded());
  if (encoded.bytes().size() > limits::saved_bytes)
    return fail(Errc::invalid_argument,
                fmt::format("actor {} saves {} of state, {} are allowed: write more to a file, and save its name",
                            host_->name.empty() ? host_->type : host_->name, format_bytes(encoded.bytes().size()),
                            format_bytes(limits::saved_bytes)));
  host_->control->save(encoded);
  const std::lock_guard lock{host_->saving};
  host_->saved = std::move(encoded);
  return {};
}

void Actor::alive() {
  host_->control->get_on();
}

Payload Actor::saved_payload() const {
  const std::lock_guard lock{host_->saving};
  return host_->saved;
}

void Actor::end(std::string reason) {
  reason.resize(head_of(reason, limits::end_reason_bytes).size());
  host_->control->end_itself(Error{Errc::actor_died, "the actor has ended itself: " + reason});
  host_->ends_itself = true;
  // What comes while the running method goes on is refused with the reason, too.
  if (!host_->in_call)
    host_->end_behind_queue();
}

v1::ActorHandle Actor::own_handle() const {
  v1::ActorHandle handle;
  handle.set_id(host_->id.value());
  handle.set_name(host_->name);
  handle.set_type(host_->type);
  handle.set_origin(host_->origin);
  return handle;
}

Metrics& Actor::metrics() noexcept {
  return host_->control->metrics();
}

Result<void> check_ownership(Ownership ownership, Share gpus, std::uint64_t memory_bytes, const std::string& type) {
  const auto refuse = [&](std::string_view rule, std::string_view right) {
    return fail(Errc::invalid_argument,
                fmt::format("actor type {} {}, gpus is {}: {}", type, rule, to_string(gpus), right));
  };
  switch (ownership) {
  case Ownership::any:
    break;
  case Ownership::whole:
    if (gpus < Share::whole(1) || !gpus.is_whole())
      return refuse("is a GPUActor and owns whole devices", "ask for gpus = 1, 2, ...");
    break;
  case Ownership::fraction:
    if (gpus >= Share::whole(1) || (gpus == Share{} && memory_bytes == 0))
      return refuse("is a FractionalGPUActor and owns a part of one device",
                    "ask for a share above 0 and below 1, or for memory");
    break;
  }
  return {};
}

} // namespace gpuactors
