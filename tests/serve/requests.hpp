// Bodies of requests as a front would hand them to the codec.
#pragma once

#include <apps/serve/protocol/infer_request.hpp>

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace serve::test {

/// `text` in memory of exactly its size and the padding, so that reads beyond that are found by sanitizers.
inline Bytes body_of(std::string_view text) {
  const std::shared_ptr<std::byte[]> memory{new std::byte[text.size() + body_padding]};
  if (!text.empty())
    std::memcpy(memory.get(), text.data(), text.size());
  std::memset(memory.get() + text.size(), 0, body_padding);
  return {memory, std::span<const std::byte>{memory.get(), text.size()}};
}

inline gpuactors::Result<HttpInference> read(std::string_view json, std::string_view raw = {}) {
  std::string body{json};
  body += raw;
  return read_inference(body_of(body), raw.empty() ? std::nullopt : std::optional<std::uint64_t>{json.size()});
}

/// The bytes of numbers, as they lie in memory.
template <class T>
std::string raw_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <class T>
std::vector<T> values_of(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty())
    std::memcpy(values.data(), bytes.view().data(), values.size() * sizeof(T));
  return values;
}

/// A request with one input, "x".
inline std::string one_input(std::string_view type, std::string_view shape, std::string_view data) {
  std::string json = R"({"inputs":[{"name":"x","datatype":")";
  json.append(type).append(R"(","shape":)").append(shape).append(R"(,"data":)").append(data).append("}]}");
  return json;
}

} // namespace serve::test
