// Contact: somebody whom a core without actors sends messages to, through its world.
#pragma once

#include <memory>

namespace gpuactors {

/// A receiver of messages, or an address to hand on. Opaque to a core: only the world that made it knows its type.
class Contact {
public:
  Contact() = default;
  Contact(const Contact&) = delete;
  Contact& operator=(const Contact&) = delete;
  virtual ~Contact() = default;

  /// Returns whether this one reaches whom `other` does.
  [[nodiscard]] virtual bool same_as(const Contact& other) const {
    return this == &other;
  }
};

/// Null: no contact, or one whose address has to be looked up.
using ContactPtr = std::shared_ptr<const Contact>;

} // namespace gpuactors
