#include <apps/serve/protocol/data_type.hpp>
#include <apps/serve/protocol/front_state.hpp>
#include <apps/serve/protocol/infer_reply.hpp>
#include <apps/serve/protocol/json_text.hpp>
#include <apps/serve/protocol/tensor_rules.hpp>

#include <fmt/format.h>
#include <simdjson.h>

#include <cmath>
#include <cstring>
#include <span>
#include <type_traits>

namespace serve {

using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;

namespace {

Result<void> no_text(const NamedTensor& output, std::string_view why) {
  return fail(Errc::invalid_argument, fmt::format("output \"{}\" {}", output.name, why));
}

Result<void> no_room() {
  return fail(Errc::no_capacity, std::string{held_too_much});
}

/// Elements of type T, which may lie anywhere in memory.
template <class T>
Result<void> append_numbers(std::string& json, const NamedTensor& output, TextRoom& room) {
  const auto data = output.data.view();
  for (std::size_t at = 0; at + sizeof(T) <= data.size(); at += sizeof(T)) {
    T element;
    std::memcpy(&element, data.data() + at, sizeof(T));
    if constexpr (std::is_floating_point_v<T>)
      if (!std::isfinite(element))
        return no_text(output, "has an element that is not a finite number, which JSON cannot say");
    if (at > 0)
      json += ',';
    append_number(json, element);
    if (!room.fits(json))
      return no_room();
  }
  return {};
}

Result<void> append_booleans(std::string& json, const NamedTensor& output, TextRoom& room) {
  bool first = true;
  for (const auto element : output.data.view()) {
    if (!first)
      json += ',';
    first = false;
    json += element != std::byte{} ? "true" : "false";
    if (!room.fits(json))
      return no_room();
  }
  return {};
}

/// In pieces: escaped, it may become six times as long.
bool append_string(std::string& json, std::string_view text, TextRoom& room) {
  constexpr std::size_t piece = 64U << 10;
  json += '"';
  for (std::size_t at = 0; at < text.size(); at += piece) {
    append_escaped(json, text.substr(at, piece));
    if (!room.fits(json))
      return false;
  }
  json += '"';
  return room.fits(json);
}

Result<void> append_strings(std::string& json, const NamedTensor& output, TextRoom& room) {
  auto data = output.data.view();
  bool first = true;
  while (const auto element = take_bytes_element(data)) {
    const auto* text = reinterpret_cast<const char*>(element->data());
    if (!simdjson::validate_utf8(text, element->size()))
      return no_text(output, "has an element that is no UTF-8 text, which JSON cannot say");
    if (!first)
      json += ',';
    first = false;
    if (!append_string(json, {text, element->size()}, room))
      return no_room();
  }
  return {};
}

void write_head(JsonText& json, const NamedTensor& output) {
  json.key("name").value(output.name).key("datatype").value(to_string(output.type)).key("shape").array();
  for (const auto size : output.shape)
    json.value(size);
  json.close();
}

} // namespace

Result<void> append_elements(std::string& json, const NamedTensor& output, TextRoom& room) {
  switch (output.type) {
  case DataType::boolean:
    return append_booleans(json, output, room);
  case DataType::uint8:
    return append_numbers<std::uint8_t>(json, output, room);
  case DataType::uint16:
    return append_numbers<std::uint16_t>(json, output, room);
  case DataType::uint32:
    return append_numbers<std::uint32_t>(json, output, room);
  case DataType::uint64:
    return append_numbers<std::uint64_t>(json, output, room);
  case DataType::int8:
    return append_numbers<std::int8_t>(json, output, room);
  case DataType::int16:
    return append_numbers<std::int16_t>(json, output, room);
  case DataType::int32:
    return append_numbers<std::int32_t>(json, output, room);
  case DataType::int64:
    return append_numbers<std::int64_t>(json, output, room);
  case DataType::fp32:
    return append_numbers<float>(json, output, room);
  case DataType::fp64:
    return append_numbers<double>(json, output, room);
  case DataType::bytes:
    return append_strings(json, output, room);
  case DataType::fp16:
  case DataType::bf16:
    break;
  }
  return no_text(output, fmt::format("is {}, of which JSON has no elements", to_string(output.type)));
}

Result<HttpReply> write_reply(const InferReply& reply, const OutputForm& form, HeldShare& share) {
  HttpReply result;
  TextRoom room{share};
  JsonText json;
  json.object();
  if (!reply.id.empty())
    json.key("id").value(reply.id);
  json.key("model_name").value(reply.model).key("model_version").value(reply.version).key("outputs").array();
  for (const auto& output : reply.outputs) {
    json.object();
    write_head(json, output);
    if (form.is_binary(output.name)) {
      json.key("parameters").object().key("binary_data_size").value(output.data.size()).close();
      result.binary = true;
      if (output.data.size() > 0)
        result.raw.push_back(output.data);
    } else {
      Result<void> written;
      json.key("data").array();
      json.value_by([&](std::string& text) { written = append_elements(text, output, room); }).close();
      if (!written && written.error().code() == Errc::no_capacity)
        return fail(written.error());
      if (!written)
        return fail(written.error().code(),
                    written.error().message() + ": ask for it with the parameter \"binary_data\"");
    }
    json.close();
  }
  json.close().close();
  result.json = std::move(json).take();
  return result;
}

} // namespace serve
