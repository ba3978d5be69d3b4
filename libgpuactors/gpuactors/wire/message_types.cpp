#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/units.hpp>
#include <gpuactors/wire/json.hpp>
#include <gpuactors/wire/message_types.hpp>

#include <fmt/format.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>

#include <algorithm>

namespace gpuactors {

namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::DescriptorProto;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::FileDescriptorProto;
using google::protobuf::Message;

constexpr std::string_view standard_folder = "google/protobuf/";
constexpr std::string_view standard_package = "google.protobuf";

FileDescriptorProto proto_of(const FileDescriptor& file) {
  FileDescriptorProto proto;
  file.CopyTo(&proto);
  file.CopyJsonNameTo(&proto);
  return proto;
}

std::size_t count_messages(const google::protobuf::RepeatedPtrField<DescriptorProto>& messages) {
  auto count = static_cast<std::size_t>(messages.size());
  for (const auto& message : messages)
    count += count_messages(message.nested_type());
  return count;
}

/// Returns whether the description has an uninterpreted option, a compiler's intermediate result. Protobuf would
/// resolve it by descriptions of options that are not its own.
bool is_unfinished(const Message& message) {
  if (message.GetDescriptor() == google::protobuf::UninterpretedOption::descriptor())
    return true;
  const auto* reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const auto* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE)
      continue;
    if (!field->is_repeated() && is_unfinished(reflection->GetMessage(message, field)))
      return true;
    if (field->is_repeated())
      for (int i = 0; i < reflection->FieldSize(message, field); ++i)
        if (is_unfinished(reflection->GetRepeatedMessage(message, field, i)))
          return true;
  }
  return false;
}

/// Returns whether the file describes a message or enum that would pass for a standard one, which the JSON mapping
/// treats specially and without further checks.
bool poses_as_standard(const FileDescriptorProto& file) {
  const auto is_standard = [](const std::string& full) {
    return full == standard_package || full.starts_with(std::string{standard_package} + ".");
  };
  const auto poses = [&](const std::string& name) {
    const auto full = file.package().empty() ? name : file.package() + "." + name;
    return full == "google" || is_standard(full);
  };
  return is_standard(file.package())
         || std::any_of(file.message_type().begin(), file.message_type().end(),
                        [&](const auto& message) { return poses(message.name()); })
         || std::any_of(file.enum_type().begin(), file.enum_type().end(),
                        [&](const auto& type) { return poses(type.name()); });
}

/// Keeps the first error that Protobuf reports for a file.
class Complaint : public DescriptorPool::ErrorCollector {
public:
#if GOOGLE_PROTOBUF_VERSION >= 4022000
  void RecordError(absl::string_view /*file*/, absl::string_view element, const Message* /*descriptor*/,
                   ErrorLocation /*location*/, absl::string_view message) override {
    note({element.data(), element.size()}, {message.data(), message.size()});
  }
  void RecordWarning(absl::string_view /*file*/, absl::string_view /*element*/, const Message* /*descriptor*/,
                     ErrorLocation /*location*/, absl::string_view /*message*/) override {
    // nop
  }
#else
  void AddError(const std::string& /*file*/, const std::string& element, const Message* /*descriptor*/,
                ErrorLocation /*location*/, const std::string& message) override {
    note(element, message);
  }
  void AddWarning(const std::string& /*file*/, const std::string& /*element*/, const Message* /*descriptor*/,
                  ErrorLocation /*location*/, const std::string& /*message*/) override {
    // nop
  }
#endif

  [[nodiscard]] const std::string& text() const noexcept {
    return text_;
  }

private:
  void note(std::string_view element, std::string_view message) {
    if (text_.empty())
      text_ = fmt::format("{}: {}", element, message);
  }

  std::string text_;
};

} // namespace

void MessageDescriptions::add(const Descriptor& message) {
  add(*message.file());
}

void MessageDescriptions::add(const FileDescriptor& file) {
  if (!seen_.insert(&file).second)
    return;
  for (int i = 0; i < file.dependency_count(); ++i)
    add(*file.dependency(i));
  files_.Add(proto_of(file).SerializeAsString());
}

// -- MessageTypes ---------------------------------------------------------------------------------

struct MessageTypes::State {
  /// Adds a file to the pool. @returns the problem with the file; empty if it is in the pool.
  std::string add(const std::string& bytes) {
    FileDescriptorProto file;
    if (!file.ParseFromString(bytes))
      return "a file's description cannot be read";
    if (file.name().starts_with(standard_folder))
      return add_standard(file.name());
    if (pool.FindFileByName(file.name()) != nullptr)
      return {}; // the first file of a name counts
    messages += count_messages(file.message_type());
    if (messages > limits::catalog_messages)
      return fmt::format("there are more than {} messages", limits::catalog_messages);
    if (poses_as_standard(file))
      return fmt::format("{} describes messages of {}, which are Protobuf's own", file.name(), standard_package);
    if (is_unfinished(file))
      return fmt::format("{} has options that are not interpreted", file.name());
    Complaint complaint;
    if (pool.BuildFileCollectingErrors(file, &complaint) == nullptr)
      return fmt::format("{} is not consistent: {}", file.name(), complaint.text());
    return {};
  }

  std::string add_standard(const std::string& name) {
    const auto* file = DescriptorPool::generated_pool()->FindFileByName(name);
    if (file == nullptr)
      return fmt::format("{} is not known here", name);
    for (int i = 0; i < file->dependency_count(); ++i)
      add_standard(std::string{file->dependency(i)->name()});
    if (pool.FindFileByName(name) == nullptr)
      pool.BuildFile(proto_of(*file));
    return {};
  }

  DescriptorPool pool;
  // Uses the pool's types, so it is declared after the pool and destroyed before it.
  google::protobuf::DynamicMessageFactory factory;
  std::size_t messages = 0;
  // Why the first file was left out; empty if none was.
  std::string problem;
};

MessageTypes::MessageTypes() : state_(std::make_shared<State>()) {
  // nop
}

MessageTypes::MessageTypes(const MessageFiles& files) : MessageTypes() {
  std::size_t bytes = 0;
  for (const auto& file : files) {
    bytes += file.size();
    auto problem = bytes > limits::catalog_bytes
                       ? fmt::format("the descriptions have more than {}", format_bytes(limits::catalog_bytes))
                       : state_->add(file);
    if (state_->problem.empty())
      state_->problem = std::move(problem);
    if (bytes > limits::catalog_bytes)
      return;
  }
}

Result<const Descriptor*> MessageTypes::find(std::string_view message) const {
  if (const auto* found = state_->pool.FindMessageTypeByName(std::string{message}))
    return found;
  return fail(Errc::not_found,
              fmt::format("message type {} is not described{}", message,
                          state_->problem.empty() ? std::string{} : fmt::format(": {}", state_->problem)));
}

Result<Payload> MessageTypes::from_json(std::string_view message, std::string_view json) const {
  GPUACTORS_LET(type, find(message));
  // The message keeps the state alive, which owns the message's type.
  const std::shared_ptr<Message> made{state_->factory.GetPrototype(type)->New(),
                                      [state = state_](Message* pointer) { delete pointer; }};
  GPUACTORS_TRY(message_from_json(*made, json));
  return Payload::of(made);
}

Result<std::string> MessageTypes::to_json(const Payload& payload) const {
  if (payload.empty())
    return std::string{"{}"};
  GPUACTORS_LET(type, find(payload.type_name()));
  GPUACTORS_LET(encoded, payload.encoded());
  const std::unique_ptr<Message> message{state_->factory.GetPrototype(type)->New()};
  const auto bytes = encoded.bytes();
  if (!message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return fail(Errc::invalid_argument, fmt::format("the bytes are not a {} message", payload.type_name()));
  return message_to_json(*message);
}

} // namespace gpuactors
