// Actors as the contacts of a core without actors.
#pragma once

#include <gpuactors/base/contact.hpp>
#include <gpuactors/wire/caf_version.hpp>

#include <memory>
#include <utility>

namespace gpuactors {

struct ActorContact : Contact {
  explicit ActorContact(caf::strong_actor_ptr known) : handle(std::move(known)) {
    // nop
  }

  [[nodiscard]] bool same_as(const Contact& other) const override {
    return handle == static_cast<const ActorContact&>(other).handle;
  }

  const caf::strong_actor_ptr handle;
};

[[nodiscard]] inline ContactPtr contact_of(caf::strong_actor_ptr handle) {
  return handle != nullptr ? std::make_shared<const ActorContact>(std::move(handle)) : nullptr;
}

/// `contact` must come from `contact_of`, or be null.
[[nodiscard]] inline caf::strong_actor_ptr handle_of(const ContactPtr& contact) {
  return contact != nullptr ? static_cast<const ActorContact&>(*contact).handle : nullptr;
}

} // namespace gpuactors
