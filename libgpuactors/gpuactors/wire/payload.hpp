// Payload: a user's Protobuf message in transit. Inside one process the live message is shared; it is serialized only
// for the wire, and parsed only by the receiver.
#pragma once

#include <gpuactors/base/result.hpp>

#include <google/protobuf/message.h>

#include <concepts>
#include <memory>
#include <string>
#include <string_view>

namespace gpuactors {

template <class T>
concept ProtobufMessage = std::derived_from<T, google::protobuf::Message>;

/// Returns the descriptor of `T`, cached because Protobuf looks it up on each call.
template <ProtobufMessage T>
[[nodiscard]] const google::protobuf::Descriptor* descriptor_of() {
  static const auto* const descriptor = T::descriptor();
  return descriptor;
}

/// One Protobuf message, live or encoded. Immutable; cheap to copy. Any thread.
class Payload {
public:
  Payload() = default;

  /// Takes over `message`.
  template <ProtobufMessage T>
  static Payload of(T message) {
    Payload result;
    result.live_ = std::make_shared<T>(std::move(message));
    result.descriptor_ = descriptor_of<T>();
    return result;
  }

  /// Takes over a message whose C++ type is not known at compile time.
  static Payload of(std::shared_ptr<google::protobuf::Message> message);

  /// Makes an encoded payload from bytes that arrived on the wire; an empty one if `type_name` is empty.
  static Payload from_bytes(std::string type_name, std::string bytes);

  [[nodiscard]] bool empty() const noexcept {
    return live_ == nullptr && encoded_ == nullptr;
  }

  /// Returns the full name of the message type, for example "my.package.Vector"; empty without a message.
  [[nodiscard]] std::string_view type_name() const noexcept;

  /// Returns whether the message is of this type, or of one of the same name from another plugin.
  [[nodiscard]] bool is_a(const google::protobuf::Descriptor& type) const noexcept;

  /// Returns the message if it is a live `T`, else null.
  template <ProtobufMessage T>
  [[nodiscard]] const T* live_as() const noexcept {
    return live_ != nullptr && descriptor_ == descriptor_of<T>() ? static_cast<const T*>(live_.get()) : nullptr;
  }

  /// Shares the message as a `T`, parsing it if it came from the wire.
  /// @returns `invalid_argument` if the message is of another type or cannot be parsed.
  template <ProtobufMessage T>
  Result<std::shared_ptr<const T>> share_as() const {
    if (const auto* message = live_as<T>())
      return std::shared_ptr<const T>{live_, message};
    auto message = std::make_shared<T>();
    GPUACTORS_TRY(parse_into(*message));
    return std::shared_ptr<const T>{std::move(message)};
  }

  /// Takes the message as a `T`; moves it if nobody else shares it, else copies it. @returns errors as `share_as` does.
  template <ProtobufMessage T>
  Result<T> take_as() && {
    if (const auto* message = live_as<T>()) {
      if (live_.use_count() == 1)
        return std::move(*static_cast<T*>(live_.get()));
      return T{*message};
    }
    T result;
    GPUACTORS_TRY(parse_into(result));
    return result;
  }

  /// Returns the message's size on the wire in bytes.
  [[nodiscard]] std::size_t wire_size() const;

  /// Checks the limit on user messages.
  /// @returns `invalid_argument`, naming `put`, for a message over `limits::payload_bytes`.
  [[nodiscard]] Result<void> check_size() const;

  /// Returns the same message as an encoded payload.
  /// @returns `invalid_argument` if the message cannot be serialized (for example, text that is not UTF-8) or is too
  ///          large.
  [[nodiscard]] Result<Payload> encoded() const;

  /// Replaces the contents of `type` and `bytes` with the type's name and the message's bytes on the wire.
  /// @returns false if the message cannot be serialized, or is too large.
  [[nodiscard]] bool write_to(std::string& type, std::string& bytes) const;

  /// Returns the bytes of an encoded payload; empty otherwise.
  [[nodiscard]] std::string_view bytes() const noexcept;

private:
  struct Encoded {
    std::string type_name;
    std::string bytes;
  };

  Result<void> parse_into(google::protobuf::Message& message) const;

  std::shared_ptr<google::protobuf::Message> live_;
  /// Of the live message.
  const google::protobuf::Descriptor* descriptor_ = nullptr;
  std::shared_ptr<const Encoded> encoded_;
};

} // namespace gpuactors
