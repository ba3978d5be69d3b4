#include "safetensors.hpp"

#include "files.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <string_view>

namespace nn {

using gpuactors::DType;
using gpuactors::Errc;
using gpuactors::Result;
using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "arrays are written as they lie in memory");

namespace {

constexpr std::string_view checksum_key = "gpuactors.sha256";
constexpr std::size_t checksum_characters = 64;

/// The format's own bound for the text in front of the arrays.
constexpr std::uint64_t most_head_bytes = 100'000'000;
constexpr std::size_t length_bytes = 8;
/// Where arrays begin: what readers that map a file expect.
constexpr std::size_t array_alignment = 8;

constexpr std::array<std::pair<DType, std::string_view>, 7> type_names{{{DType::f32, "F32"},
                                                                        {DType::f64, "F64"},
                                                                        {DType::f16, "F16"},
                                                                        {DType::bf16, "BF16"},
                                                                        {DType::i32, "I32"},
                                                                        {DType::i64, "I64"},
                                                                        {DType::u8, "U8"}}};

std::string_view name_of(DType dtype) {
  return std::find_if(type_names.begin(), type_names.end(), [&](const auto& known) { return known.first == dtype; })
      ->second;
}

auto wrong(const std::filesystem::path& path, std::string_view why) {
  return gpuactors::fail(Errc::invalid_argument, fmt::format("{}: {}", path.string(), why));
}

/// Where the 64 digits of the checksum stand in the text; npos if they do not. In text that is a JSON object, the key
/// with its quotes cannot be part of a value, whose quotes are escaped.
std::size_t find_checksum(std::string_view head) {
  const auto key = fmt::format("\"{}\":\"", checksum_key);
  const auto at = head.find(key);
  if (at == std::string_view::npos || head.size() - at < key.size() + checksum_characters)
    return std::string_view::npos;
  return at + key.size();
}

/// The bytes that an array of this shape has; nothing when that overflows or a dimension is below 0.
std::optional<std::uint64_t> bytes_of(DType dtype, const std::vector<std::int64_t>& shape) {
  std::uint64_t bytes = gpuactors::size_of(dtype);
  for (const auto dimension : shape)
    if (dimension < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(dimension), &bytes))
      return std::nullopt;
  return bytes;
}

/// One entry of the head: type, shape, and where the bytes are.
struct Entry {
  std::string name;
  DType dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin;
  std::uint64_t end;
};

std::optional<Entry> parse_entry(const std::string& name, const json& value) {
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") || !value.contains("shape")
      || !value.contains("data_offsets"))
    return std::nullopt;
  const auto& dtype = value["dtype"];
  const auto& shape = value["shape"];
  const auto& offsets = value["data_offsets"];
  const auto whole = [](const json& number) { return number.is_number_unsigned(); };
  if (!dtype.is_string() || !shape.is_array() || !offsets.is_array() || offsets.size() != 2
      || !std::all_of(shape.begin(), shape.end(), whole) || !std::all_of(offsets.begin(), offsets.end(), whole))
    return std::nullopt;
  const auto known = std::find_if(type_names.begin(), type_names.end(),
                                  [&](const auto& type) { return type.second == dtype.get<std::string>(); });
  if (known == type_names.end())
    return std::nullopt;
  Entry entry{name, known->first, shape.get<std::vector<std::int64_t>>(), offsets[0].get<std::uint64_t>(),
              offsets[1].get<std::uint64_t>()};
  const auto bytes = bytes_of(entry.dtype, entry.shape);
  if (!bytes || entry.begin > entry.end || entry.end - entry.begin != *bytes)
    return std::nullopt;
  return entry;
}

/// Reads the text in front of the arrays; they must fill `array_bytes` without gaps.
Result<Safetensors> parse_head(const std::filesystem::path& path, std::string_view head, std::uint64_t array_bytes,
                               const std::byte* arrays) {
  const auto value = json::parse(head, nullptr, false);
  if (!value.is_object())
    return wrong(path, "what should be its table of contents is no JSON object");
  Safetensors result;
  std::vector<Entry> entries;
  for (const auto& [name, described] : value.items()) {
    if (name == "__metadata__") {
      if (!described.is_object())
        return wrong(path, "its metadata are no object");
      for (const auto& [key, text] : described.items()) {
        if (!text.is_string())
          return wrong(path, fmt::format("its metadata \"{}\" are no text", key));
        result.metadata.emplace(key, text.get<std::string>());
      }
      continue;
    }
    auto entry = parse_entry(name, described);
    if (!entry)
      return wrong(path, fmt::format("its array \"{}\" is not described as safetensors are", name));
    entries.push_back(std::move(*entry));
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair{a.begin, a.end} < std::pair{b.begin, b.end};
  });
  std::uint64_t at = 0;
  for (auto& entry : entries) {
    if (entry.begin != at || entry.end > array_bytes)
      return wrong(path,
                   fmt::format("its array \"{}\" does not lie where it should, or the file is truncated", entry.name));
    at = entry.end;
    NamedArray array{entry.dtype, std::move(entry.shape), {}};
    if (arrays != nullptr)
      array.bytes = {arrays + entry.begin, static_cast<std::size_t>(entry.end - entry.begin)};
    result.arrays.emplace(std::move(entry.name), std::move(array));
  }
  if (at != array_bytes)
    return wrong(path, fmt::format("it has {} B of arrays and describes {} B of them", array_bytes, at));
  return result;
}

/// The length of the text in front of the arrays.
Result<std::uint64_t> head_length(const std::filesystem::path& path, std::span<const std::byte> file,
                                  std::uint64_t file_bytes) {
  if (file.size() < length_bytes)
    return wrong(path, fmt::format("it has {} B: it is truncated, or no safetensors file", file.size()));
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), length_bytes);
  if (length > most_head_bytes || length > file_bytes - length_bytes)
    return wrong(path, "it is truncated, or no safetensors file");
  return length;
}

std::string make_head(const Metadata& metadata, const NamedArrays& arrays) {
  json head = json::object();
  auto& described = head["__metadata__"] = json::object();
  for (const auto& [key, text] : metadata)
    described[key] = text;
  described[std::string{checksum_key}] = std::string(checksum_characters, '0');
  std::uint64_t at = 0;
  for (const auto& [name, array] : arrays) {
    const auto end = at + array.bytes.size();
    head[name] = {{"dtype", name_of(array.dtype)}, {"shape", array.shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  auto text = head.dump(-1, ' ', false, json::error_handler_t::replace);
  text.append((array_alignment - (length_bytes + text.size()) % array_alignment) % array_alignment, ' ');
  return text;
}

} // namespace

Result<void> write_safetensors(const std::filesystem::path& path, const Metadata& metadata, const NamedArrays& arrays) {
  for (const auto& [name, array] : arrays)
    if (bytes_of(array.dtype, array.shape) != array.bytes.size() || name == "__metadata__")
      return wrong(path, fmt::format("the array \"{}\" of shape [{}] cannot be written: it has {} B", name,
                                     fmt::join(array.shape, ", "), array.bytes.size()));
  auto head = make_head(metadata, arrays);
  const std::uint64_t length = head.size();
  std::array<std::byte, length_bytes> length_field{};
  std::memcpy(length_field.data(), &length, length_bytes);
  std::vector<std::span<const std::byte>> pieces{length_field, std::as_bytes(std::span{head})};
  for (const auto& [name, array] : arrays)
    pieces.push_back(array.bytes);
  GPUACTORS_LET(checksum, sha256(pieces));
  head.replace(find_checksum(head), checksum_characters, checksum);
  return replace_file(path, pieces);
}

Result<Safetensors> read_safetensors(const std::filesystem::path& path, Checksum checksum) {
  GPUACTORS_LET(file, read_file(path));
  GPUACTORS_LET(length, head_length(path, file, file.size()));
  const auto arrays_at = length_bytes + static_cast<std::size_t>(length);
  auto* head_data = reinterpret_cast<char*>(file.data() + length_bytes);
  const std::string_view head{head_data, static_cast<std::size_t>(length)};
  GPUACTORS_LET(result, parse_head(path, head, file.size() - arrays_at, file.data() + arrays_at));
  const auto expected = result.metadata.find(std::string{checksum_key});
  if (expected == result.metadata.end() && checksum == Checksum::required)
    return wrong(path, "it has no checksum, so that nobody can tell whether it is whole");
  if (expected != result.metadata.end()) {
    const auto at = find_checksum(head);
    const std::string written{at == std::string_view::npos ? "" : head.substr(at, checksum_characters)};
    if (!written.empty())
      std::fill_n(head_data + at, checksum_characters, '0');
    GPUACTORS_LET(actual, sha256({file}));
    if (actual != written || written != expected->second)
      return wrong(path, "it was altered or damaged: its checksum does not fit what is in it");
    result.metadata.erase(expected);
  }
  result.storage = std::move(file); // the arrays stay where they are
  return std::move(result);
}

Result<Safetensors> read_safetensors_head(const std::filesystem::path& path) {
  GPUACTORS_LET(bytes, file_bytes(path));
  GPUACTORS_LET(start, read_file(path, length_bytes));
  GPUACTORS_LET(length, head_length(path, start, bytes));
  GPUACTORS_LET(file, read_file(path, length_bytes + static_cast<std::size_t>(length)));
  if (file.size() != length_bytes + length)
    return wrong(path, "it was truncated while it was read");
  const std::string_view head{reinterpret_cast<const char*>(file.data() + length_bytes),
                              static_cast<std::size_t>(length)};
  GPUACTORS_LET(result, parse_head(path, head, bytes - length_bytes - length, nullptr));
  result.metadata.erase(std::string{checksum_key});
  return std::move(result);
}

} // namespace nn
