// Payload: a user's own Protobuf message on its way. Inside one process the live message is shared; only the wire
// serializes it and only the receiver parses it.
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

/// One Protobuf message, live or encoded. Immutable once made; cheap to copy. Any thread.
class Payload {
public:
  Payload() = default;

  /// Takes over `message`.
  template <ProtobufMessage T>
  static Payload of(T message) {
    Payload result;
    result.live_ = std::make_shared<T>(std::move(message));
    return result;
  }

  /// Takes over a message whose C++ type is not known here.
  static Payload of(std::shared_ptr<google::protobuf::Message> message);

  /// What arrived from the wire.
  static Payload from_bytes(std::string type_name, std::string bytes);

  [[nodiscard]] bool empty() const noexcept {
    return live_ == nullptr && encoded_ == nullptr;
  }

  /// Full name of the message type, for example "my.package.Vector"; empty without a message.
  [[nodiscard]] std::string_view type_name() const noexcept;

  /// The message if it is a live `T`, else null.
  template <ProtobufMessage T>
  [[nodiscard]] const T* live_as() const noexcept {
    return live_ != nullptr && live_->GetDescriptor() == T::descriptor() ? static_cast<const T*>(live_.get()) : nullptr;
  }

  /// Shares the message as a `T`, parsing it if it came from the wire.
  /// @returns `invalid_argument` when it is of another type or cannot be parsed.
  template <ProtobufMessage T>
  Result<std::shared_ptr<const T>> share_as() const {
    if (const auto* message = live_as<T>())
      return std::shared_ptr<const T>{live_, message};
    auto message = std::make_shared<T>();
    GPUACTORS_TRY(parse_into(*message));
    return std::shared_ptr<const T>{std::move(message)};
  }

  /// Takes the message as a `T`; moved when nobody else shares it, else copied.
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

  /// The message's size on the wire in bytes.
  [[nodiscard]] std::size_t wire_size() const;

  /// Checks the limit on user messages.
  /// @returns `invalid_argument`, naming `put`, for a message over `limits::payload_bytes`.
  [[nodiscard]] Result<void> check_size() const;

  /// The same message as bytes.
  /// @returns `invalid_argument` when it cannot be serialized (text that is not UTF-8, say) or is too large.
  [[nodiscard]] Result<Payload> encoded() const;

  /// Writes the type's name and the message's bytes, as they travel, in place of what the strings held.
  /// @returns false when it cannot be serialized, or is too large.
  [[nodiscard]] bool write_to(std::string& type, std::string& bytes) const;

  /// The bytes of an encoded payload; empty otherwise.
  [[nodiscard]] std::string_view bytes() const noexcept;

private:
  struct Encoded {
    std::string type_name;
    std::string bytes;
  };

  Result<void> parse_into(google::protobuf::Message& message) const;

  std::shared_ptr<google::protobuf::Message> live_;
  std::shared_ptr<const Encoded> encoded_;
};

} // namespace gpuactors
