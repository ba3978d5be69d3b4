// The content of a message between actors, so that headers can name it without CAF.
#pragma once

#include <gpuactors/wire/caf_version.hpp>

#include <cstddef>

namespace gpuactors {

/// Refers to the content of a message in a mailbox; valid while it is handled.
class MessageContent {
public:
  explicit MessageContent(caf_version::NativeContent& native) : native_(native) {
    // nop
  }

  template <class... Ts>
  [[nodiscard]] bool match_elements() const noexcept {
    return native_.template match_elements<Ts...>();
  }

  /// Returns whether the first element is a T.
  template <class T>
  [[nodiscard]] bool begins_with() const noexcept {
    return native_.size() > 0 && native_.template match_element<T>(0);
  }

  template <class T>
  [[nodiscard]] const T& get_as(std::size_t index) const noexcept {
    return native_.template get_as<T>(index);
  }

  template <class T>
  [[nodiscard]] T& get_mutable_as(std::size_t index) noexcept {
    return native_.template get_mutable_as<T>(index);
  }

private:
  caf_version::NativeContent& native_;
};

} // namespace gpuactors
