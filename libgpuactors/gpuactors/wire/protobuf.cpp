#include <gpuactors/base/utf8.hpp>
#include <gpuactors/wire/protobuf.hpp>

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <vector>

namespace gpuactors {

std::string deterministic_bytes(const google::protobuf::Message& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream{&bytes};
    google::protobuf::io::CodedOutputStream out{&stream};
    out.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&out);
  }
  return bytes;
}

Result<void> check_texts(const google::protobuf::Message& message) {
  using Field = google::protobuf::FieldDescriptor;
  const auto& reflection = *message.GetReflection();
  std::vector<const Field*> fields;
  reflection.ListFields(message, &fields);
  std::string scratch;
  for (const auto* field : fields) {
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      if (field->type() == Field::TYPE_MESSAGE) {
        GPUACTORS_TRY(check_texts(field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                                                       : reflection.GetMessage(message, field)));
      } else if (field->type() == Field::TYPE_STRING) {
        const auto& text = field->is_repeated() ? reflection.GetRepeatedStringReference(message, field, i, &scratch)
                                                : reflection.GetStringReference(message, field, &scratch);
        if (!is_utf8(text))
          return fail(Errc::invalid_argument, fmt::format("\"{}\" ({}) is not UTF-8", to_utf8(text), field->name()));
      }
    }
  }
  return {};
}

} // namespace gpuactors
