#include <gpuactors/wire/protobuf.hpp>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

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

} // namespace gpuactors
