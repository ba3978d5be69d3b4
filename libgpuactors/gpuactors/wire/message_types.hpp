// Message types known only by their descriptions, received from other programs, and their conversion from and to JSON.
#pragma once

#include <gpuactors/wire/payload.hpp>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/repeated_field.h>

#include <memory>
#include <set>
#include <string>
#include <string_view>

namespace gpuactors {

/// Serialized google.protobuf.FileDescriptorProto, imported files before importing ones.
using MessageFiles = google::protobuf::RepeatedPtrField<std::string>;

/// Collects the descriptions that other programs need to use this program's messages.
class MessageDescriptions {
public:
  /// Adds the file of `message` and all files that it imports, each once.
  void add(const google::protobuf::Descriptor& message);

  [[nodiscard]] const MessageFiles& files() const noexcept {
    return files_;
  }

private:
  void add(const google::protobuf::FileDescriptor& file);

  std::set<const google::protobuf::FileDescriptor*> seen_;
  MessageFiles files_;
};

/// The types of a set of files, separate from the program's own types: two sets may use one name for different types.
///
/// The files may come from anyone: unreadable files and those beyond the limits are left out, which `find` reports. The
/// standard messages (google/protobuf/*.proto) are always this program's own. Immutable; cheap to copy; any thread.
class MessageTypes {
public:
  /// Creates an empty set.
  MessageTypes();

  explicit MessageTypes(const MessageFiles& files);

  /// Returns the type with this full name. It is valid as long as a copy of this object, or a message that it made,
  /// lives.
  /// @returns `not_found`, with the first problem of the files.
  [[nodiscard]] Result<const google::protobuf::Descriptor*> find(std::string_view message) const;

  /// Reads `json` as a message of the type `message`. Empty text is an empty message.
  /// @returns `not_found` as `find`; `invalid_argument` in one line, with the place and what is wrong there.
  [[nodiscard]] Result<Payload> from_json(std::string_view message, std::string_view json) const;

  /// Renders a message, live or encoded, as JSON on one line, as `message_to_json` does.
  /// @returns `not_found` as `find`.
  [[nodiscard]] Result<std::string> to_json(const Payload& payload) const;

private:
  struct State;

  std::shared_ptr<State> state_;
};

} // namespace gpuactors
