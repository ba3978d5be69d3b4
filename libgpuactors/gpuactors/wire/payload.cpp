#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/units.hpp>
#include <gpuactors/wire/payload.hpp>

#include <fmt/format.h>

namespace gpuactors {

Payload Payload::of(std::shared_ptr<google::protobuf::Message> message) {
  Payload result;
  result.descriptor_ = message != nullptr ? message->GetDescriptor() : nullptr;
  result.live_ = std::move(message);
  return result;
}

Payload Payload::from_bytes(std::string type_name, std::string bytes) {
  Payload result;
  if (!type_name.empty())
    result.encoded_ = std::make_shared<const Encoded>(Encoded{std::move(type_name), std::move(bytes)});
  return result;
}

std::string_view Payload::type_name() const noexcept {
  if (live_ != nullptr)
    return descriptor_->full_name();
  return encoded_ != nullptr ? std::string_view{encoded_->type_name} : std::string_view{};
}

bool Payload::is_a(const google::protobuf::Descriptor& type) const noexcept {
  return (live_ != nullptr && descriptor_ == &type) || type_name() == type.full_name();
}

std::size_t Payload::wire_size() const {
  if (live_ != nullptr)
    return live_->ByteSizeLong();
  return encoded_ != nullptr ? encoded_->bytes.size() : 0;
}

Result<void> Payload::check_size() const {
  // Protobuf would throw when it is written.
  if (live_ != nullptr && !live_->IsInitialized())
    return fail(Errc::invalid_argument, fmt::format("the message {} lacks required fields: {}", type_name(),
                                                    live_->InitializationErrorString()));
  if (const auto size = wire_size(); size > limits::payload_bytes)
    return fail(Errc::invalid_argument,
                fmt::format("the message {} has {}, at most {} are allowed: put bulk data with Cluster::put and send "
                            "its TensorRef",
                            type_name(), format_bytes(size), format_bytes(limits::payload_bytes)));
  return {};
}

Result<Payload> Payload::encoded() const {
  GPUACTORS_TRY(check_size());
  if (live_ == nullptr)
    return *this;
  std::string bytes;
  if (!live_->SerializeToString(&bytes))
    return fail(Errc::invalid_argument,
                fmt::format("the message {} cannot be serialized: a string field holds text that is not UTF-8, or a "
                            "required field is missing",
                            type_name()));
  return from_bytes(std::string{type_name()}, std::move(bytes));
}

bool Payload::write_to(std::string& type, std::string& bytes) const {
  if (!check_size())
    return false;
  type = type_name();
  if (live_ != nullptr)
    return live_->SerializeToString(&bytes);
  bytes = this->bytes();
  return true;
}

std::string_view Payload::bytes() const noexcept {
  return encoded_ != nullptr ? std::string_view{encoded_->bytes} : std::string_view{};
}

Result<void> Payload::parse_into(google::protobuf::Message& message) const {
  const auto& wanted = message.GetDescriptor()->full_name();
  if (type_name() != wanted)
    return fail(Errc::invalid_argument, fmt::format("a message {} is expected, this is {}", wanted,
                                                    empty() ? "none" : fmt::format("a {}", type_name())));
  // A live message of another descriptor pool has the same full name but another descriptor, so it is converted through
  // its bytes.
  const auto parsed = live_ != nullptr ? message.ParseFromString(live_->SerializePartialAsString())
                                       : message.ParseFromString(encoded_->bytes);
  if (!parsed)
    return fail(Errc::invalid_argument, fmt::format("the bytes are not a {} message", wanted));
  return {};
}

} // namespace gpuactors
