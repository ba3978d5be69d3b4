#include <apps/serve/cut_text.hpp>
#include <apps/serve/grpc/wire.hpp>
#include <apps/serve/protocol/front_state.hpp>
#include <apps/serve/protocol/messages.hpp>
#include <apps/serve/protocol/status.hpp>
#include <apps/serve/protocol/tensor_rules.hpp>

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/slice.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace serve {

using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;
using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Failure;
using gpuactors::Result;

namespace {

// Tags of length-delimited fields.
constexpr std::uint32_t input_tag = 5U << 3 | 2;
constexpr std::uint32_t output_tag = 6U << 3 | 2;
constexpr std::uint32_t raw_input_tag = 7U << 3 | 2;
constexpr std::uint32_t raw_output_tag = 6U << 3 | 2;
constexpr std::uint32_t infer_response_tag = 2U << 3 | 2;
// What a byte of a message may take in memory at most, unless it is one of raw contents: an empty element is two bytes.
constexpr std::size_t parsed_per_byte = 32;

/// A message and what is counted for it.
struct KeptMessage {
  inference::ModelInferRequest message;
  HeldShare share;
};

/// What a message is made of: bytes of raw contents, and elements that take far more memory than bytes.
struct Contents {
  std::size_t raw = 0;
  std::size_t inputs = 0;
  std::size_t outputs = 0;
};

/// Nothing for what is no message. Groups, which have fallen out of use, are none either: protobuf would pass over them
/// and go on to parse what is behind them.
std::optional<Contents> contents_of(const grpc::ByteBuffer& buffer) {
  grpc::ByteBuffer copy{buffer};
  grpc::ProtoBufferReader reader{&copy};
  Contents contents;
  if (!reader.status().ok())
    return std::nullopt;
  CodedInputStream in{&reader};
  while (const auto tag = in.ReadTag()) {
    std::uint32_t length = 0;
    std::uint64_t number = 0;
    bool whole = false;
    switch (tag & 7U) {
    case 0:
      whole = in.ReadVarint64(&number);
      break;
    case 1:
      whole = in.Skip(8);
      break;
    case 2:
      whole = in.ReadVarint32(&length) && in.Skip(static_cast<int>(length));
      break;
    case 5:
      whole = in.Skip(4);
      break;
    default:
      break;
    }
    if (!whole)
      return std::nullopt;
    contents.raw += tag == raw_input_tag ? length : 0;
    contents.inputs += tag == input_tag ? 1 : 0;
    contents.outputs += tag == output_tag ? 1 : 0;
  }
  return contents;
}

void append_prefix(std::vector<grpc::Slice>& slices, std::uint32_t tag, std::size_t length) {
  std::array<std::uint8_t, 20> bytes;
  auto* end = CodedOutputStream::WriteTagToArray(tag, bytes.data());
  end = CodedOutputStream::WriteVarint64ToArray(length, end);
  slices.emplace_back(bytes.data(), static_cast<std::size_t>(end - bytes.data()));
}

/// A slice that keeps the bytes as long as gRPC needs them.
grpc::Slice slice_of(const Bytes& bytes) {
  auto* kept = new Bytes{bytes};
  auto* data = const_cast<std::byte*>(kept->view().data());
  return {data, kept->size(), [](void* user) { delete static_cast<Bytes*>(user); }, kept};
}

void say_last(inference::ModelInferResponse& message, bool last) {
  (*message.mutable_parameters())["triton_final_response"].set_bool_param(last);
}

/// The slices of a ModelInferResponse: fields may come in any order, and one after the other is one message.
/// @param last Said in a stream.
std::vector<grpc::Slice> response_slices(const InferReply& reply, std::optional<bool> last = {}) {
  std::vector<grpc::Slice> slices;
  slices.reserve(1 + 2 * reply.outputs.size());
  auto head = head_of(reply);
  if (last)
    say_last(head, *last);
  slices.emplace_back(head.SerializeAsString());
  for (const auto& output : reply.outputs) {
    append_prefix(slices, raw_output_tag, output.data.size());
    if (output.data.size() > 0)
      slices.push_back(slice_of(output.data));
  }
  return slices;
}

} // namespace

Result<std::shared_ptr<const inference::ModelInferRequest>> parse_request(const grpc::ByteBuffer& buffer,
                                                                          const std::shared_ptr<HeldBytes>& held) {
  auto kept = std::make_shared<KeptMessage>();
  kept->share = HeldShare{held};
  const Failure no_message = fail(Errc::invalid_argument, "the bytes of the request are no ModelInferRequest");
  const auto contents = contents_of(buffer);
  if (!contents)
    return no_message;
  // Before they are parsed, each into a hundred times its bytes.
  if (contents->inputs > most_tensors || contents->outputs > most_tensors)
    return fail(Errc::invalid_argument, fmt::format("the request has more than {} inputs or outputs", most_tensors));
  if (!kept->share.grow_to(contents->raw + (buffer.Length() - contents->raw) * parsed_per_byte))
    return fail(Errc::queue_full, std::string{held_too_much});
  grpc::ByteBuffer copy{buffer}; // of references
  const auto status = grpc::SerializationTraits<inference::ModelInferRequest>::Deserialize(&copy, &kept->message);
  if (!status.ok())
    return no_message;
  kept->share.settle(kept->message.SpaceUsedLong());
  const auto* message = &kept->message;
  return std::shared_ptr<const inference::ModelInferRequest>{std::move(kept), message};
}

grpc::ByteBuffer response_of(const InferReply& reply) {
  const auto slices = response_slices(reply);
  return {slices.data(), slices.size()};
}

grpc::ByteBuffer stream_response_of(const InferReply& reply, bool last) {
  auto inner = response_slices(reply, last);
  std::size_t length = 0;
  for (const auto& slice : inner)
    length += slice.size();
  std::vector<grpc::Slice> slices;
  slices.reserve(inner.size() + 1);
  append_prefix(slices, infer_response_tag, length);
  slices.insert(slices.end(), inner.begin(), inner.end());
  return {slices.data(), slices.size()};
}

grpc::ByteBuffer stream_error_of(const gpuactors::Error& error, std::string_view id, bool last) {
  inference::ModelStreamInferResponse message;
  message.set_error_message(cut_text(error.message(), longest_sentence));
  message.mutable_infer_response()->set_id(std::string{id});
  say_last(*message.mutable_infer_response(), last);
  const grpc::Slice slice{message.SerializeAsString()};
  return {&slice, 1};
}

grpc::Status status_of(const gpuactors::Error& error) {
  return {static_cast<grpc::StatusCode>(grpc_status(error.code())), cut_text(error.message(), longest_sentence)};
}

} // namespace serve
